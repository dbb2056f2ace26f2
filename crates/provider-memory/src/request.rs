//! What the gateway asks, in the provider's own terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{ProviderId, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{Observation, Result, StartDefinition, StartRequest, Table};

use crate::error::{bad_script, no_definition};
use crate::script::Script;

/// What can be started, by name.
pub(crate) type Scripts = BTreeMap<String, Arc<Script>>;

/// The definition whose script is its input.
const SCRIPT: &str = "script";

/// The script that a start runs.
pub(crate) fn script_of(request: &StartRequest, scripts: &Scripts) -> Result<Arc<Script>> {
    request.check_options(&[])?;
    let StartDefinition::Native(definition) = &request.definition else {
        return Err(no_definition(request.definition.id(), []));
    };
    match scripts.get(definition) {
        Some(script) => Ok(script.clone()),
        None if definition == SCRIPT => {
            let input = request.input.as_ref();
            let text = input.map_or(&b"{}"[..], |input| &input.data);
            Script::from_json(text)
                .map(Arc::new)
                .map_err(|error| bad_script(&error))
        }
        None => {
            let known = scripts.keys().map(String::as_str).chain([SCRIPT]);
            Err(no_definition(definition, known))
        }
    }
}

/// Hints, ready to be asked of one observation after the other.
pub(crate) struct Narrowing<'t> {
    sub_states: Vec<SubState>,
    table: &'t Table,
    /// The ids of the definitions that can pass; `None` when every definition can.
    definitions: Option<Vec<String>>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl<'t> Narrowing<'t> {
    pub(crate) fn new(hints: &Hints, table: &'t Table, provider: &ProviderId) -> Self {
        let definitions = hints.definition.as_ref().map(|wanted| {
            let ids = wanted.native_ids(provider);
            ids.map(str::to_owned).collect()
        });
        Self {
            sub_states: hints.sub_states.clone(),
            table,
            definitions,
            from: hints.started_from,
            until: hints.started_until,
        }
    }

    /// Whether the hints may admit this execution.
    pub(crate) fn may_admit(&self, seen: &Observation, definition: &str) -> bool {
        if !self.table.may_show(&seen.native.state, &self.sub_states) {
            return false;
        }
        let is_wanted = |ids: &Vec<String>| ids.iter().any(|id| id == definition);
        if !self.definitions.as_ref().is_none_or(is_wanted) {
            return false;
        }
        let early = self
            .from
            .is_some_and(|from| seen.start_time.is_none_or(|at| at < from));
        let late = self
            .until
            .is_some_and(|until| seen.start_time.is_none_or(|at| at > until));
        !early && !late
    }
}
