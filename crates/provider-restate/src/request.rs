//! What the gateway asks, in Restate's own terms.

use stateway_model::{ProviderId, SubState};
use stateway_provider_api::filter::DefinitionPattern;
use stateway_provider_api::{
    Capabilities, Error, ErrorKind, ListRequest, Result, StartRequest, Table, Verb,
};

use crate::error::{foreign_cursor, no_definition};
use crate::id::InvocationId;
use crate::service::{Kind, Service};
use crate::sql::Narrowing;

/// The most rows of one page, however many are asked for.
const LONGEST_PAGE: u32 = 1_000;

/// What a definition names: a service, perhaps a key, and a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) service: String,
    pub(crate) key: Option<String>,
    pub(crate) handler: String,
}

impl Target {
    /// `Service/handler`, or `Object/key/handler`; a key may hold slashes.
    pub(crate) fn parse(definition: &str) -> Option<Self> {
        let (service, rest) = definition.split_once('/')?;
        let (key, handler) = match rest.rsplit_once('/') {
            Some((key, handler)) => (Some(key.to_owned()), handler),
            None => (None, rest),
        };
        let good = !service.is_empty() && !handler.is_empty() && key.as_deref() != Some("");
        good.then(|| Self {
            service: service.to_owned(),
            key,
            handler: handler.to_owned(),
        })
    }

    /// The path of a send, as the server's version has it.
    pub(crate) fn send_path(&self, new_ingress: bool) -> Vec<&str> {
        let mut path = Vec::with_capacity(5);
        if new_ingress {
            path.extend(["restate", "send"]);
        }
        path.push(self.service.as_str());
        path.extend(self.key.as_deref());
        path.push(self.handler.as_str());
        if !new_ingress {
            path.push("send");
        }
        path
    }
}

/// A start, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) target: Target,
    /// What makes a repeated start the same start. A workflow has its key for that.
    pub(crate) idempotency_key: Option<String>,
}

pub(crate) fn check_start(request: &StartRequest, can: &Capabilities) -> Result<()> {
    if request.delay.is_some() && !can.start_delayed {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without a delay."));
    }
    if !request.labels.is_empty() {
        return Err(Error::unsupported(Verb::Start)
            .with_hint("Restate keeps no labels; start without them."));
    }
    if request.portable {
        let why = "Restate runs its own handlers only";
        return Err(no_definition(&request.definition, why));
    }
    Ok(())
}

/// Where a start goes. The execution id that the caller wants becomes the workflow's key, or the
/// idempotency key: Restate names its invocations itself, but the same key is the same invocation.
pub(crate) fn start(request: &StartRequest, target: Target, service: &Service) -> Result<Start> {
    let definition = &request.definition;
    if !service.has(&target.handler) {
        let why = format!("`{}` has no handler `{}`", target.service, target.handler);
        return Err(no_definition(definition, &why));
    }
    let wanted = request.execution_id.as_ref().map(|id| id.as_str());
    let wanted = wanted.unwrap_or(request.request_id.as_str()).to_owned();
    match (service.kind, target.key.is_some()) {
        (Kind::Service, true) => Err(no_definition(definition, "a service has no keys")),
        (Kind::VirtualObject, false) => Err(Error::new(
            ErrorKind::InvalidArgument,
            Verb::Start,
            format!("`{}` is a virtual object and needs a key", target.service),
        )
        .with_hint("Name it `Object/key/handler`.")),
        (Kind::Service, false) | (Kind::VirtualObject, true) => Ok(Start {
            target,
            idempotency_key: Some(wanted),
        }),
        (Kind::Workflow, has_key) => Ok(Start {
            target: match has_key {
                true => target,
                false => Target {
                    key: Some(wanted),
                    ..target
                },
            },
            idempotency_key: None,
        }),
    }
}

/// The page that is asked for.
pub(crate) fn narrowing(
    request: &ListRequest,
    table: &Table,
    provider: &ProviderId,
    use_hints: bool,
) -> Result<Narrowing> {
    if request.page_size == 0 {
        let message = "a page has at least 1 row";
        return Err(Error::new(ErrorKind::InvalidArgument, Verb::List, message));
    }
    let after = match request.cursor.as_deref() {
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(|| foreign_cursor(Verb::List))?),
        None => None,
    };
    let mut narrowing = Narrowing {
        after,
        limit: request.page_size.min(LONGEST_PAGE),
        ..Narrowing::default()
    };
    if use_hints {
        narrowing.unwanted = unwanted(&request.hints.sub_states, table);
        narrowing.target = request
            .hints
            .definition
            .as_ref()
            .and_then(|wanted| wanted_target(wanted, provider));
    }
    Ok(narrowing)
}

/// The only handler whose invocations can pass; `None` when several can.
fn wanted_target(wanted: &DefinitionPattern, provider: &ProviderId) -> Option<(String, String)> {
    let targets = wanted.native_ids(provider).filter_map(Target::parse);
    // Invocations are shown with `Service/handler`, never with a key.
    let mut targets = targets.filter(|target| target.key.is_none());
    let target = targets.next()?;
    let is_only = targets.next().is_none();
    is_only.then_some((target.service, target.handler))
}

/// The statuses of the table that can show none of the wanted sub-states.
fn unwanted(wanted: &[SubState], table: &Table) -> Vec<String> {
    let possible = table.native_states_for(wanted);
    // A completed invocation whose result is missing is in no row, and is shown as running.
    let is_default = wanted.contains(&SubState::Running);
    let known = table.native_states_for(SubState::ALL);
    let cannot = known
        .into_iter()
        .filter(|state| !(possible.contains(state) || is_default && *state == "completed"));
    cannot.map(str::to_owned).collect()
}

const LIST: &str = "list";

/// Where a list goes on: after this row.
pub(crate) fn cursor(created_at: jiff::Timestamp, id: &str) -> String {
    format!("{LIST}.{}.{id}", created_at.as_millisecond())
}

fn read_cursor(cursor: &str) -> Option<(jiff::Timestamp, InvocationId)> {
    let (millisecond, id) = cursor
        .strip_prefix(LIST)?
        .strip_prefix('.')?
        .split_once('.')?;
    let time = jiff::Timestamp::from_millisecond(millisecond.parse().ok()?).ok()?;
    Some((time, InvocationId::parse(id)?))
}

const HISTORY: &str = "history";

pub(crate) fn history_cursor(position: usize) -> String {
    format!("{HISTORY}.{position}")
}

/// How many events have been told.
pub(crate) fn read_history_cursor(cursor: Option<&str>) -> Result<usize> {
    let Some(cursor) = cursor else {
        return Ok(0);
    };
    let position = cursor
        .strip_prefix(HISTORY)
        .and_then(|rest| rest.strip_prefix('.'));
    let position = position.and_then(|position| position.parse().ok());
    position.ok_or_else(|| foreign_cursor(Verb::History))
}

#[cfg(test)]
mod tests {
    use stateway_model::SubState::{BackingOff, Failed, Running, Waiting};
    use stateway_provider_api::table::compiled_in;

    use super::*;

    #[test]
    fn a_definition_is_a_service_perhaps_a_key_and_a_handler() {
        let target = |service: &str, key: Option<&str>, handler: &str| {
            Some(Target {
                service: service.into(),
                key: key.map(str::to_owned),
                handler: handler.into(),
            })
        };
        assert_eq!(Target::parse("Lab/ok"), target("Lab", None, "ok"));
        assert_eq!(Target::parse("Obj/k/add"), target("Obj", Some("k"), "add"));
        assert_eq!(
            Target::parse("Obj/a/b/add"),
            target("Obj", Some("a/b"), "add")
        );
        for wrong in ["", "Lab", "Lab/", "/ok", "Obj//add"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn older_servers_are_sent_to_by_their_own_path() {
        let target = Target::parse("Obj/k/add").unwrap();
        assert_eq!(
            target.send_path(true),
            ["restate", "send", "Obj", "k", "add"]
        );
        assert_eq!(target.send_path(false), ["Obj", "k", "add", "send"]);
    }

    #[test]
    fn a_list_is_narrowed_to_a_handler_only_where_no_other_can_pass() {
        let provider: ProviderId = "shop".parse().unwrap();
        let target = |value: &str| wanted_target(&DefinitionPattern::new(value), &provider);
        let run = Some(("Order".to_owned(), "run".to_owned()));
        assert_eq!(target("providers/shop/definitions/Order%2Frun"), run);
        assert_eq!(target("Order/run"), run);
        assert_eq!(target("shop/Order/run"), run);
        for anything in [
            "providers/other/definitions/Order%2Frun",
            "definitions/order-saga",
            "order-saga",
            "run",
        ] {
            assert_eq!(target(anything), None, "{anything}");
        }
    }

    fn asked(request_id: &str, execution_id: Option<&str>, definition: &str) -> StartRequest {
        StartRequest {
            definition: definition.into(),
            portable: false,
            execution_id: execution_id.map(|id| stateway_model::ExecutionId::new(id).unwrap()),
            input: None,
            labels: Default::default(),
            delay: None,
            request_id: request_id.parse().unwrap(),
        }
    }

    fn service(ty: &str) -> Service {
        let body = serde_json::json!({"ty": ty, "handlers": [{"name": "run"}]});
        serde_json::from_value(body).unwrap()
    }

    fn started(ty: &str, execution_id: Option<&str>, definition: &str) -> Result<Start> {
        let target = Target::parse(definition).unwrap();
        start(&asked("r1", execution_id, definition), target, &service(ty))
    }

    #[test]
    fn a_workflow_is_idempotent_by_its_key_and_everything_else_by_the_header() {
        let key = |start: Start| (start.target.key, start.idempotency_key);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            key(started("Service", None, "S/run").unwrap()),
            (None, some("r1"))
        );
        assert_eq!(
            key(started("Service", Some("e1"), "S/run").unwrap()),
            (None, some("e1"))
        );
        assert_eq!(
            key(started("VirtualObject", None, "O/k/run").unwrap()),
            (some("k"), some("r1"))
        );
        assert_eq!(
            key(started("Workflow", None, "W/run").unwrap()),
            (some("r1"), None)
        );
        assert_eq!(
            key(started("Workflow", Some("e1"), "W/run").unwrap()),
            (some("e1"), None)
        );
        assert_eq!(
            key(started("Workflow", None, "W/k/run").unwrap()),
            (some("k"), None)
        );
    }

    #[test]
    fn what_cannot_be_addressed_is_refused_before_it_is_sent() {
        let kind = |result: Result<Start>| result.unwrap_err().kind;
        assert_eq!(
            kind(started("Service", None, "S/k/run")),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(started("Service", None, "S/walk")),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(started("VirtualObject", None, "O/run")),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn a_list_leaves_out_only_what_cannot_be_wanted() {
        let table = compiled_in("restate").unwrap();
        let failed = unwanted(&[Failed], table);
        assert!(failed.contains(&"running".to_owned()));
        assert!(!failed.contains(&"completed".to_owned()));
        // With vqueues on, `ready` may be a back-off.
        assert!(!unwanted(&[BackingOff], table).contains(&"ready".to_owned()));
        assert!(!unwanted(&[Running], table).contains(&"completed".to_owned()));
        assert!(unwanted(&[Waiting], table).contains(&"completed".to_owned()));
        assert!(unwanted(SubState::ALL, table).is_empty());
    }

    #[test]
    fn cursors_survive_the_round_trip_and_others_are_refused() {
        let id = "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpH";
        let time = jiff::Timestamp::from_millisecond(1_794_785_728_776).unwrap();
        let (read, after) = read_cursor(&cursor(time, id)).unwrap();
        assert_eq!((read, after.as_str()), (time, id));
        for wrong in [
            "",
            "kit",
            "list",
            "list.",
            "list.x",
            "list.1.x",
            "history.1",
        ] {
            assert!(read_cursor(wrong).is_none(), "{wrong}");
        }
        assert_eq!(read_history_cursor(Some("history.7")).unwrap(), 7);
        assert!(read_history_cursor(Some("list.7")).is_err());
    }
}
