//! What the gateway asks, in Restate's own terms.

use serde::{Deserialize, Serialize};
use stateway_model::ProviderId;
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::filter::DefinitionPattern;
use stateway_provider_api::{
    Error, ListRequest, Result, StartDefinition, StartRequest, Table, Verb,
};

use crate::CAPABILITIES;
use crate::error::no_definition;
use crate::id::InvocationId;
use crate::row::Invocation;
use crate::service::{Kind, Service};
use crate::sql::Narrowing;

/// The most rows of one page, however many are asked for.
pub(crate) const LONGEST_PAGE: u32 = 1_000;

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

/// Refuses what Restate cannot take. Returns the native id of the definition.
pub(crate) fn check_start(request: &StartRequest) -> Result<&str> {
    request.check_capabilities(&CAPABILITIES)?;
    request.check_options(&[])?;
    match &request.definition {
        StartDefinition::Native(definition) => Ok(definition),
        StartDefinition::Portable { id, .. } => {
            Err(no_definition(id, "Restate runs its own handlers only"))
        }
    }
}

/// Where a start goes. The execution id that the caller wants becomes the workflow's key, or the
/// idempotency key: Restate names its invocations itself, but the same key is the same invocation.
pub(crate) fn address(request: &StartRequest, target: Target, service: &Service) -> Result<Start> {
    let definition = request.definition.id();
    if !service.has(&target.handler) {
        let why = format!("`{}` has no handler `{}`", target.service, target.handler);
        return Err(no_definition(definition, &why));
    }
    let wanted = request.execution_id.as_ref().map(|id| id.as_str());
    let wanted = wanted.unwrap_or(request.request_id.as_str()).to_owned();
    match (service.kind, target.key.is_some()) {
        (Kind::Service, true) => Err(no_definition(definition, "a service has no keys")),
        (Kind::VirtualObject, false) => Err(Error::invalid(
            Verb::Start,
            format!("`{}` is a virtual object and needs a key", target.service),
        )
        .with_hint("Name it `Object/key/handler`.")),
        (Kind::Service, false) | (Kind::VirtualObject, true) => Ok(Start {
            target,
            idempotency_key: Some(wanted),
        }),
        (Kind::Workflow, has_key) => Ok(Start {
            target: if has_key {
                target
            } else {
                Target {
                    key: Some(wanted),
                    ..target
                }
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
) -> Result<Narrowing> {
    let hints = &request.hints;
    let wanted = hints.definition.as_ref();
    let unwanted = table.states_without(&hints.sub_states).into_iter();
    Ok(Narrowing {
        after: ListPosition::read(request.cursor.as_deref())?,
        limit: page_size(request.page_size, LONGEST_PAGE, Verb::List)?,
        unwanted: unwanted.map(str::to_owned).collect(),
        target: wanted.and_then(|wanted| wanted_target(wanted, provider)),
    })
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

/// Where a list continues: after this row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListPosition {
    created_at: jiff::Timestamp,
    id: String,
}

impl ListPosition {
    pub(crate) fn after(row: &Invocation) -> Option<Self> {
        Some(Self {
            created_at: row.created_at?,
            id: row.id.clone(),
        })
    }

    fn read(cursor: Option<&str>) -> Result<Option<(jiff::Timestamp, InvocationId)>> {
        let Some(at) = cursor::read::<Self>(LIST, cursor, Verb::List)? else {
            return Ok(None);
        };
        let id = InvocationId::parse(&at.id).ok_or_else(|| Error::foreign_cursor(Verb::List))?;
        Ok(Some((at.created_at, id)))
    }
}

#[cfg(test)]
mod tests {
    use stateway_model::SubState;
    use stateway_model::SubState::{BackingOff, Failed, Running, Waiting};
    use stateway_provider_api::ErrorKind;
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
            execution_id: execution_id.map(|id| stateway_model::ExecutionId::new(id).unwrap()),
            ..StartRequest::new(
                StartDefinition::native(definition),
                request_id.parse().unwrap(),
            )
        }
    }

    fn service(ty: &str) -> Service {
        let body = serde_json::json!({"ty": ty, "handlers": [{"name": "run"}]});
        serde_json::from_value(body).unwrap()
    }

    fn started(ty: &str, execution_id: Option<&str>, definition: &str) -> Result<Start> {
        let target = Target::parse(definition).unwrap();
        address(&asked("r1", execution_id, definition), target, &service(ty))
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
        let unwanted = |wanted: &[SubState]| table.states_without(wanted);
        let failed = unwanted(&[Failed]);
        assert!(failed.contains(&"running"));
        assert!(!failed.contains(&"completed"));
        // With vqueues on, `ready` may be a back-off.
        assert!(!unwanted(&[BackingOff]).contains(&"ready"));
        assert!(!unwanted(&[Running]).contains(&"completed"));
        assert!(unwanted(&[Waiting]).contains(&"completed"));
        assert!(unwanted(SubState::ALL).is_empty());
    }
}
