//! What the gateway asks, in the service's own terms.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stateway_model::{ExecutionId, Payload, SubState};
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{Capabilities, Error, ErrorKind, Result, StartRequest, Verb};

use crate::arn::{ExecutionArn, ExecutionKind};
use crate::error::{express, foreign_cursor, invalid};
use crate::response::{Basics, RUNNING};

/// The longest name the service takes.
const LONGEST_NAME: usize = 80;
/// The largest page the service gives.
pub(crate) const LARGEST_PAGE: u32 = 1_000;

/// What a provider without the capability answers.
pub(crate) fn offered(verb: Verb, can: &Capabilities) -> Result<()> {
    match verb.is_offered(can) {
        true => Ok(()),
        false => Err(Error::unsupported(verb)),
    }
}

/// The ARN that an id is. What is no execution's ARN names nothing that exists; an Express
/// execution exists and cannot be read.
pub(crate) fn arn(id: &ExecutionId, verb: Verb) -> Result<&str> {
    match ExecutionArn::parse(id.as_str()) {
        None => Err(Error::not_found(verb, id).without_engine()),
        Some(parsed) if parsed.kind == ExecutionKind::Express => Err(express(verb)),
        Some(_) => Ok(id.as_str()),
    }
}

/// A page of nothing would never end.
pub(crate) fn page_size(size: u32, verb: Verb) -> Result<u32> {
    match size {
        0 => Err(invalid(verb, "a page has at least one row")),
        size => Ok(size.min(LARGEST_PAGE)),
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
        return Err(invalid(
            Verb::Start,
            "the execution id is no name for Step Functions",
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
        .ok_or_else(|| invalid(verb, "Step Functions takes only JSON"))
}

/// What a start may not ask for.
pub(crate) fn check_start(request: &StartRequest, can: &Capabilities) -> Result<()> {
    if request.delay.is_some() && !can.start_delayed {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without a delay."));
    }
    if !request.labels.is_empty() && !can.labels {
        return Err(Error::unsupported(Verb::Start).with_hint(
            "Start without labels: Step Functions tags state machines, not executions.",
        ));
    }
    Ok(())
}

/// What a list may be narrowed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Narrowing {
    /// One after the other; `None` is every status at once.
    pub(crate) statuses: Vec<Option<String>>,
    /// Only this state machine.
    pub(crate) machine: Option<String>,
    hints: Hints,
}

impl Narrowing {
    pub(crate) fn new(hints: &Hints, used: bool) -> Self {
        let hints = if used { hints.clone() } else { Hints::none() };
        let machine = hints.definition.as_ref().and_then(|wanted| match wanted {
            DefinitionPattern::Full(name) => name.provider.is_some().then(|| name.id.to_string()),
            // A name with a slash may begin with the id of this provider, which is not known here.
            DefinitionPattern::Short(id) => (!id.contains('/')).then(|| id.clone()),
        });
        Self {
            statuses: statuses(&hints.sub_states),
            machine,
            hints,
        }
    }

    /// Whether the hints may admit this row. Only narrows.
    pub(crate) fn may_admit(&self, row: &Basics) -> bool {
        let wanted = match sub_states_of(&row.status) {
            Some(possible) => self
                .hints
                .sub_states
                .iter()
                .any(|state| possible.contains(state)),
            None => self.hints.sub_states.contains(&SubState::Running),
        };
        let early = self
            .hints
            .started_from
            .is_some_and(|from| row.started.is_none_or(|at| at < from));
        let late = self
            .hints
            .started_until
            .is_some_and(|until| row.started.is_none_or(|at| at > until));
        wanted && !early && !late
    }
}

const OPEN: &[SubState] = &[
    SubState::Running,
    SubState::Waiting,
    SubState::BackingOff,
    SubState::Error,
];

fn sub_states_of(status: &str) -> Option<&'static [SubState]> {
    match status {
        RUNNING => Some(OPEN),
        "PENDING_REDRIVE" => Some(&[SubState::Error]),
        "SUCCEEDED" => Some(&[SubState::Succeeded]),
        "FAILED" | "TIMED_OUT" | "ABORTED" => Some(&[SubState::Failed]),
        _ => None,
    }
}

/// Which statuses to ask for. Open and finished ones are asked for together, because an execution
/// may go from one to the other while pages are read.
fn statuses(wanted: &[SubState]) -> Vec<Option<String>> {
    let open = wanted.iter().any(|state| !state.is_terminal());
    let succeeded = wanted.contains(&SubState::Succeeded);
    let failed = wanted.contains(&SubState::Failed);
    let some = |words: &[&str]| words.iter().map(|word| Some((*word).to_owned())).collect();
    match (open, succeeded, failed) {
        (true, false, false) => some(&[RUNNING]),
        (false, true, false) => some(&["SUCCEEDED"]),
        (false, false, true) => some(&["FAILED", "TIMED_OUT", "ABORTED"]),
        _ => vec![None],
    }
}

/// A cursor: what it belongs to, and a small document.
pub(crate) fn cursor(of: &str, content: &impl Serialize) -> String {
    let text = serde_json::to_vec(content).expect("plain data is always JSON");
    format!("{of}.{}", URL_SAFE_NO_PAD.encode(text))
}

pub(crate) fn read_cursor<T: DeserializeOwned>(
    of: &str,
    cursor: Option<&str>,
    verb: Verb,
) -> Result<Option<T>> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let content = cursor
        .strip_prefix(of)
        .and_then(|rest| rest.strip_prefix('.'))
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .and_then(|text| serde_json::from_slice(&text).ok());
    content.map(Some).ok_or_else(|| foreign_cursor(verb))
}

/// The refusal of a signal that nobody, or more than one, waits for.
pub(crate) fn not_awaited(signal: &str, awaited: &[String]) -> Error {
    let message = match awaited {
        [] => format!("no step waits for `{signal}`"),
        several => format!("`{signal}` is awaited by {}", several.join(", ")),
    };
    Error::new(ErrorKind::FailedPrecondition, Verb::Signal, message)
        .with_reason("SIGNAL_NOT_AWAITED")
        .with_hint(
            "Name one step that waits for an answer: Step Functions keeps no signal for later.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_pushed_down_only_where_nothing_can_slip_through() {
        use SubState::{BackingOff, Failed, Running, Succeeded};
        let words = |wanted: &[SubState]| statuses(wanted);
        assert_eq!(words(&[BackingOff]), [Some("RUNNING".to_owned())]);
        assert_eq!(words(&[Succeeded]), [Some("SUCCEEDED".to_owned())]);
        assert_eq!(words(&[Failed]).len(), 3);
        assert_eq!(words(&[Running, Failed]), [None]);
        assert_eq!(words(SubState::ALL), [None]);
    }

    #[test]
    fn cursors_survive_and_foreign_ones_do_not() {
        let made = cursor("list", &("a", 1));
        let read: Option<(String, u32)> = read_cursor("list", Some(&made), Verb::List).unwrap();
        assert_eq!(read, Some(("a".to_owned(), 1)));
        for foreign in [
            "",
            "list",
            "list.",
            "list.x",
            "history.1",
            &made.replace("list", "history"),
        ] {
            let read = read_cursor::<(String, u32)>("list", Some(foreign), Verb::List);
            assert_eq!(
                read.unwrap_err().kind,
                ErrorKind::InvalidArgument,
                "{foreign}"
            );
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
