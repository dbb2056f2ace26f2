//! What the gateway asks, in the provider's own terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{Labels, Payload, ProviderId, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::Scope;
use stateway_provider_api::{
    Capabilities, Error, ErrorKind, Observation, Result, StartRequest, Table, Verb,
};

use crate::error::{bad_script, foreign_cursor, no_definition};
use crate::script::Script;

/// What can be started, by name.
pub(crate) type Scripts = BTreeMap<String, Arc<Script>>;

/// The definition whose script is its input.
const SCRIPT: &str = "script";

/// What two starts with the same request id must have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartBody {
    pub(crate) definition: String,
    pub(crate) execution_id: Option<stateway_model::ExecutionId>,
    pub(crate) input: Option<Payload>,
    pub(crate) labels: Labels,
    pub(crate) delay: Option<std::time::Duration>,
}

/// The script that a start is about, and what it says.
pub(crate) fn start(
    request: &StartRequest,
    scripts: &Scripts,
    can: &Capabilities,
) -> Result<(Arc<Script>, StartBody)> {
    if request.delay.is_some() && !can.start_delayed {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without a delay."));
    }
    if !request.labels.is_empty() && !can.labels {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without labels."));
    }
    if request.portable {
        return Err(no_definition(&request.definition, []));
    }
    let script = match scripts.get(&request.definition) {
        Some(script) => script.clone(),
        None if request.definition == SCRIPT => {
            let input = request.input.as_ref();
            let text = input.map_or(&b"{}"[..], |input| &input.data);
            Arc::new(Script::from_json(text).map_err(|error| bad_script(&error))?)
        }
        None => {
            let known = scripts.keys().map(String::as_str).chain([SCRIPT]);
            return Err(no_definition(&request.definition, known));
        }
    };
    let body = StartBody {
        definition: request.definition.clone(),
        execution_id: request.execution_id.clone(),
        input: request.input.clone(),
        labels: request.labels.clone(),
        delay: request.delay,
    };
    Ok((script, body))
}

/// A cursor says which list it belongs to and after which number to go on.
pub(crate) fn cursor(list: &str, number: u64) -> String {
    format!("{list}.{number}")
}

pub(crate) fn read_cursor(list: &str, cursor: Option<&str>, verb: Verb) -> Result<Option<u64>> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let number = cursor
        .strip_prefix(list)
        .and_then(|rest| rest.strip_prefix('.'));
    let number = number.and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| foreign_cursor(verb))
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

    /// Whether the hints may admit this. Only narrows, and only where the table is clear: a state
    /// that evidence refines may show any open sub-state, one in no table shows `running`.
    pub(crate) fn may_admit(&self, seen: &Observation, definition: &str) -> bool {
        let wanted = match self.table.find(Scope::Execution, &seen.native) {
            None => self.sub_states.contains(&SubState::Running),
            Some(row) if row.refine => self.sub_states.iter().any(|state| !state.is_terminal()),
            Some(row) => self.sub_states.contains(&row.sub_state),
        };
        if !wanted {
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

/// What a provider without the capability answers.
pub(crate) fn offered(verb: Verb, can: &Capabilities) -> Result<()> {
    if verb.is_offered(can) {
        Ok(())
    } else {
        Err(Error::unsupported(verb))
    }
}

/// A page of nothing would never end.
pub(crate) fn page_size(size: u32, verb: Verb) -> Result<usize> {
    if size == 0 {
        let message = "a page has at least one row";
        return Err(Error::new(ErrorKind::InvalidArgument, verb, message));
    }
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}
