//! What the gateway asks, in the service's own terms.

use stateway_model::{ExecutionId, Payload, ProviderId, SubState};
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{ANONYMOUS, Error, Result, StartDefinition, StartRequest, Table, Verb};

use crate::CAPABILITIES;
use crate::error::{express, no_definition};
use crate::id::{ExecutionArn, ExecutionKind};
use crate::response::{Basics, RUNNING};

/// The longest name the service takes.
const LONGEST_NAME: usize = 80;
/// The longest trace header the service takes.
const LONGEST_TRACE_HEADER: usize = 256;
/// The part of a trace header that names the caller.
const ACTOR: &str = "Actor=";
/// The largest page the service gives.
pub(crate) const LARGEST_PAGE: u32 = 1_000;

/// The ARN that an id is. What is no execution's ARN names nothing that exists; an Express
/// execution exists and cannot be read.
pub(crate) fn arn(id: &ExecutionId, verb: Verb) -> Result<&str> {
    match ExecutionArn::parse(id.as_str()) {
        None => Err(Error::not_found(verb, id).without_engine()),
        Some(parsed) if parsed.kind == ExecutionKind::Express => Err(express(verb)),
        Some(_) => Ok(id.as_str()),
    }
}

/// The name of the execution to be started.
pub(crate) fn execution_name(request: &StartRequest) -> Result<String> {
    let name = match &request.execution_id {
        Some(wanted) => wanted.as_str(),
        None => request.request_id.as_str(),
    };
    let forbidden = |letter: char| {
        letter.is_control() || letter.is_whitespace() || "<>{}[]?*\"#%\\^|~`$&,;:/".contains(letter)
    };
    if name.chars().count() > LONGEST_NAME || name.chars().any(forbidden) {
        return Err(Error::invalid(
            Verb::Start,
            "the execution id is not a valid name in Step Functions",
        )
        .with_hint("Use up to 80 letters, digits, hyphens and underscores."));
    }
    Ok(name.to_owned())
}

/// How an execution that was given its name by the caller remembers which request started it.
pub(crate) fn mark(request: &StartRequest) -> Option<String> {
    let named = request.execution_id.is_some();
    named.then(|| format!("Stateway={}", request.request_id))
}

/// What the trace header of a new execution says: the request, if its name does not, and who started it. Executions have
/// no tags, and the name of an execution decides whether a start is repeated, so that it cannot name the caller.
pub(crate) fn trace_header(request: &StartRequest, actor: &str) -> Option<String> {
    let mut header = mark(request).unwrap_or_default();
    let separator = if header.is_empty() { "" } else { ";" };
    let used = header.len() + separator.len() + ACTOR.len();
    let room = LONGEST_TRACE_HEADER.saturating_sub(used);
    if actor != ANONYMOUS && room > 0 {
        let is_plain = |letter: char| letter.is_ascii_graphic() && !";=,".contains(letter);
        let actor = actor.chars().take(room);
        header.extend([separator, ACTOR]);
        header.extend(actor.map(|letter| if is_plain(letter) { letter } else { '_' }));
    }
    (!header.is_empty()).then_some(header)
}

/// Whether an execution with this trace header has this mark.
pub(crate) fn is_marked(trace_header: Option<&str>, mark: &str) -> bool {
    let rest = trace_header.and_then(|header| header.strip_prefix(mark));
    rest.is_some_and(|rest| {
        let actor = rest.strip_prefix(';');
        rest.is_empty() || actor.is_some_and(|actor| actor.starts_with(ACTOR))
    })
}

/// A body as the service takes it: a JSON text.
pub(crate) fn json_text(payload: Option<&Payload>, verb: Verb) -> Result<String> {
    let Some(payload) = payload else {
        return Ok("{}".to_owned());
    };
    if payload.data.is_empty() {
        return Ok("{}".to_owned());
    }
    let text = std::str::from_utf8(&payload.data);
    let text = text
        .ok()
        .filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    text.map(str::to_owned)
        .ok_or_else(|| Error::invalid(verb, "Step Functions takes only JSON"))
}

/// Refuses what Step Functions cannot take. Returns the native id of the definition.
pub(crate) fn check_start(request: &StartRequest) -> Result<&str> {
    request.check_capabilities(&CAPABILITIES).map_err(|error| {
        if request.labels.is_empty() {
            error
        } else {
            error.with_hint(
                "Start without labels: Step Functions tags state machines, not executions.",
            )
        }
    })?;
    request.check_options(&[])?;
    match &request.definition {
        StartDefinition::Native(definition) => Ok(definition),
        StartDefinition::Portable { id, .. } => Err(no_definition(id)),
    }
}

/// Every status that ListExecutions can be asked for.
const STATUSES: [&str; 6] = [
    RUNNING,
    "SUCCEEDED",
    "FAILED",
    "TIMED_OUT",
    "ABORTED",
    "PENDING_REDRIVE",
];

/// What a list may be narrowed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Narrowing<'t> {
    /// One after the other; `None` is every status in one call.
    pub(crate) statuses: Vec<Option<&'static str>>,
    /// Only this state machine.
    pub(crate) machine: Option<String>,
    table: &'t Table,
    hints: Hints,
}

impl<'t> Narrowing<'t> {
    pub(crate) fn new(hints: &Hints, table: &'t Table, provider: &ProviderId) -> Self {
        let wanted = hints.definition.as_ref();
        Self {
            statuses: statuses(&hints.sub_states, table),
            machine: wanted.and_then(|wanted| only_machine(wanted, provider)),
            table,
            hints: hints.clone(),
        }
    }

    /// Whether the hints may admit this row. Only narrows.
    pub(crate) fn may_admit(&self, row: &Basics) -> bool {
        let Hints {
            sub_states,
            started_from,
            started_until,
            ..
        } = &self.hints;
        let wanted = self.table.may_show(&row.status, sub_states);
        let early = started_from.is_some_and(|from| row.started.is_none_or(|at| at < from));
        let late = started_until.is_some_and(|until| row.started.is_none_or(|at| at > until));
        wanted && !early && !late
    }
}

/// The only state machine whose executions can pass; `None` when several can.
fn only_machine(wanted: &DefinitionPattern, provider: &ProviderId) -> Option<String> {
    let mut names = wanted.native_ids(provider);
    let name = names.next()?.to_owned();
    names.next().is_none().then_some(name)
}

/// Which statuses to ask for: the ones that the table, overlays included, may show as a wanted
/// sub-state. A status that no table has can be asked for only together with all others. Open and
/// finished ones are asked for together, because an execution may go from one to the other while pages
/// are read.
fn statuses(wanted: &[SubState], table: &Table) -> Vec<Option<&'static str>> {
    let every = vec![None];
    let open = |state: &SubState| !state.is_terminal();
    let mixed = wanted.iter().any(open) && !wanted.iter().all(open);
    // A status that is in no table shows `running`.
    if mixed || wanted.contains(&SubState::Running) {
        return every;
    }
    let may_show = |status: &&str| table.may_show(status, wanted);
    let some: Vec<_> = STATUSES.into_iter().filter(may_show).map(Some).collect();
    if some.len() == STATUSES.len() {
        every
    } else {
        some
    }
}

/// The refusal of a signal that no step, or more than one step, waits for.
pub(crate) fn not_awaited(signal: &str, awaited: &[String]) -> Error {
    let message = match awaited {
        [] => format!("no step waits for `{signal}`"),
        several => format!("`{signal}` is awaited by {}", several.join(", ")),
    };
    Error::not_awaited(message).with_hint(
        "Name one step that waits for an answer: Step Functions keeps no signal for later.",
    )
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::ErrorKind;
    use stateway_provider_api::table::compiled_in;

    use super::*;

    fn table(overlay: &str) -> Table {
        let table = compiled_in("step-functions").unwrap();
        if overlay.is_empty() {
            return (*table).clone();
        }
        let overlay = format!(
            "version = 1\nkind = \"step-functions\"\ntitle = \"t\"\nsummary = \"s\"\n{overlay}"
        );
        table
            .overlaid_with(&Table::parse(&overlay).unwrap())
            .unwrap()
    }

    #[test]
    fn a_status_is_pushed_down_only_where_nothing_can_slip_through() {
        use SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};
        let table = table("");
        let words = |wanted: &[SubState]| statuses(wanted, &table);
        assert_eq!(words(&[BackingOff]), [Some("RUNNING")]);
        assert_eq!(words(&[Waiting, BackingOff]), [Some("RUNNING")]);
        assert_eq!(words(&[Error]), [Some("RUNNING"), Some("PENDING_REDRIVE")]);
        assert_eq!(words(&[Succeeded]), [Some("SUCCEEDED")]);
        assert_eq!(words(&[Failed]).len(), 3);
        // A status that the table does not have shows `running`, and no status asks for it.
        assert_eq!(words(&[Running]), [None]);
        assert_eq!(words(&[BackingOff, Failed]), [None]);
        assert_eq!(words(SubState::ALL), [None]);
    }

    #[test]
    fn an_overlay_decides_what_is_asked_for() {
        let table = table(
            "[[rows]]\nnative = \"ABORTED\"\nsub_state = \"error\"\nterminal = false\nsource = \"us\"\n",
        );
        let error = statuses(&[SubState::Error], &table);
        assert_eq!(
            error,
            [Some("RUNNING"), Some("ABORTED"), Some("PENDING_REDRIVE")]
        );
        assert!(!statuses(&[SubState::Failed], &table).contains(&Some("ABORTED")));
    }

    #[test]
    fn the_trace_header_names_the_request_and_the_caller() {
        let request = |execution_id: Option<&str>| StartRequest {
            execution_id: execution_id.map(|id| ExecutionId::new(id).unwrap()),
            ..StartRequest::new(
                StartDefinition::Native("m".to_owned()),
                "r1".parse().unwrap(),
            )
        };
        let header = |id, actor| trace_header(&request(id), actor);
        assert_eq!(header(None, ANONYMOUS), None);
        assert_eq!(
            header(None, "ada@example.org").as_deref(),
            Some("Actor=ada@example.org")
        );
        assert_eq!(header(Some("x"), ANONYMOUS).as_deref(), Some("Stateway=r1"));
        let named = header(Some("x"), "a;b=\u{e9}, c");
        assert_eq!(named.as_deref(), Some("Stateway=r1;Actor=a_b____c"));
        let long = header(Some("x"), &"a".repeat(500)).unwrap();
        assert_eq!(long.len(), LONGEST_TRACE_HEADER);
        // A repetition of the request is recognised from any caller, and another request is not.
        let mark = mark(&request(Some("x"))).unwrap();
        for header in ["Stateway=r1", "Stateway=r1;Actor=bob", &*long] {
            assert!(is_marked(Some(header), &mark), "{header}");
        }
        for other in [
            None,
            Some("Stateway=r10"),
            Some("Stateway=r1;r2"),
            Some("Actor=ada"),
        ] {
            assert!(!is_marked(other, &mark), "{other:?}");
        }
    }

    #[test]
    fn only_json_is_sent() {
        let text = |body: &'static str| json_text(Some(&Payload::json(body)), Verb::Start);
        assert_eq!(json_text(None, Verb::Start).unwrap(), "{}");
        assert_eq!(text("[1]").unwrap(), "[1]");
        assert_eq!(text("{").unwrap_err().kind, ErrorKind::InvalidArgument);
    }
}
