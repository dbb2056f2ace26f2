//! A tenant that asks for what another tenant has: every answer is the answer for something that does not
//! exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use prost::Message;
use stateway_client::v1;
use stateway_client::v1::read_payload_request::Source;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_model::ExecutionId;
use stateway_provider_api::{NativeState, Observation, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

use super::rig::{AccessRig, CALLERS, ORDER, RELEASE, TENANTS, escalation, name, whole};
use crate::support::{Puppet, TestGateway, error_info, reason_of};

/// Members operate what their tenant has, so that those methods are asked as well.
pub(super) const OPERATORS: &str = r#"
[[rules]]
name = "tenants-operate"
who = { role = "member" }
may = "operate"
where = "labels.tenant = caller.tenant"
"#;

async fn rig() -> AccessRig {
    let rig = AccessRig::with(&format!("{TENANTS}{OPERATORS}"), &CALLERS).await;
    fill(&rig).await;
    rig
}

/// Starts an execution of each tenant.
async fn fill(rig: &AccessRig) {
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs", "acme"))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine", "evil")).await.unwrap();
}

/// The fields of the descriptors that say what a request names. `prost-types` does not know the annotation.
mod annotated {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Files {
        #[prost(message, repeated, tag = "1")]
        pub(super) files: Vec<File>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct File {
        #[prost(message, repeated, tag = "4")]
        pub(super) messages: Vec<Request>,
        #[prost(message, repeated, tag = "6")]
        pub(super) services: Vec<Service>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Request {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(super) fields: Vec<Field>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Field {
        #[prost(message, optional, tag = "8")]
        pub(super) options: Option<Options>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Options {
        #[prost(message, optional, tag = "1055")]
        pub(super) reference: Option<Reference>,
    }

    /// `google.api.ResourceReference`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Reference {
        #[prost(string, tag = "1")]
        pub(super) of: String,
        #[prost(string, tag = "2")]
        pub(super) child: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Service {
        #[prost(message, repeated, tag = "2")]
        pub(super) methods: Vec<Method>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Method {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) request: String,
    }
}

/// Whether a field names an execution or a part of one.
fn names_execution(field: &annotated::Field) -> bool {
    let reference = field.options.as_ref().and_then(|it| it.reference.as_ref());
    let Some(reference) = reference else {
        return false;
    };
    let kind = |of: &str| of.strip_prefix("stateway.dev/").unwrap_or(of).to_owned();
    let parts = ["Step", "Branch", "Event"];
    // A payload is named by whatever has it.
    let named = ["*", "Execution", "Approval", "Escalation"];
    let of = kind(&reference.of);
    let is_named = named.contains(&&*of) || parts.contains(&&*of);
    is_named || parts.contains(&&*kind(&reference.child))
}

/// Every method whose request names an execution, by the descriptors: `get_execution`.
fn methods_that_name_an_execution() -> BTreeSet<String> {
    let files = annotated::Files::decode(stateway_proto::DESCRIPTORS).unwrap();
    let messages = files.files.iter().flat_map(|file| &file.messages);
    let naming = messages.filter(|message| message.fields.iter().any(names_execution));
    let naming: BTreeSet<_> = naming
        .map(|message| format!(".stateway.v1.{}", message.name))
        .collect();
    let services = files.files.iter().flat_map(|file| &file.services);
    let methods = services.flat_map(|service| &service.methods);
    let methods = methods.filter(|method| naming.contains(&method.request));
    methods.map(|method| snake_case(&method.name)).collect()
}

fn snake_case(name: &str) -> String {
    let mut written = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !written.is_empty() {
            written.push('_');
        }
        written.push(letter.to_ascii_lowercase());
    }
    written
}

/// A method, and the variant of its request.
pub(super) type Asked = (&'static str, &'static str);

/// Every method that names one execution, with the answer for it.
#[allow(
    clippy::needless_update,
    reason = "some of the requests have nothing but a name"
)]
pub(super) async fn every_verb(rig: &AccessRig, who: &str, name: &str) -> BTreeMap<Asked, Status> {
    let mut answers = BTreeMap::new();
    let mut client = rig.executions().await;
    let mut recovery = rig.recovery().await;
    let mut approvals = rig.approvals().await;
    let name = name.to_owned();
    macro_rules! ask {
        ($client:ident, $method:ident, $request:expr) => {
            ask!($client, $method, $request, "");
        };
        ($client:ident, $method:ident, $request:expr, $variant:expr) => {
            let answer = $client.$method(rig.by(who, $request)).await;
            let answer = answer.map(|_| ()).unwrap_err();
            let other = answers.insert((stringify!($method), $variant), answer);
            assert!(other.is_none(), "two answers for one request");
        };
    }
    macro_rules! named {
        ($client:ident, $method:ident, $request:ident) => {
            let request = v1::$request {
                name: name.clone(),
                ..v1::$request::default()
            };
            ask!($client, $method, request);
        };
    }
    named!(client, get_execution, GetExecutionRequest);
    named!(client, wait_execution, WaitExecutionRequest);
    named!(client, explain_execution, ExplainExecutionRequest);
    named!(client, cancel_execution, CancelExecutionRequest);
    named!(client, pause_execution, PauseExecutionRequest);
    named!(client, resume_execution, ResumeExecutionRequest);
    named!(client, retry_now, RetryNowRequest);
    named!(client, retry_from, RetryFromRequest);
    named!(client, adopt_definition, AdoptDefinitionRequest);
    named!(client, purge_execution, PurgeExecutionRequest);
    let project = v1::ProjectExecutionRequest {
        name: name.clone(),
        vocabulary: "ioa".into(),
    };
    ask!(client, project_execution, project);
    let signal = v1::SignalExecutionRequest {
        name: name.clone(),
        signal: "go".into(),
        ..v1::SignalExecutionRequest::default()
    };
    ask!(client, signal_execution, signal);
    for branch in ["", "/branches/0", "/branches/-"] {
        let events = v1::ListEventsRequest {
            parent: name.clone(),
            branch: if branch.is_empty() {
                String::new()
            } else {
                format!("{name}{branch}")
            },
            ..v1::ListEventsRequest::default()
        };
        ask!(client, list_events, events, branch);
    }
    let step = v1::GetStepRequest {
        name: format!("{name}/steps/sign-off"),
    };
    ask!(client, get_step, step);
    let payload = v1::ReadPayloadRequest {
        name: name.clone(),
        source: Source::Input.into(),
    };
    ask!(client, read_payload, payload);
    let watch = v1::WatchExecutionsRequest {
        names: vec![name.clone()],
        ..v1::WatchExecutionsRequest::default()
    };
    ask!(client, watch_executions, watch);
    named!(recovery, verify_execution, VerifyExecutionRequest);
    named!(recovery, recover_execution, RecoverExecutionRequest);
    named!(recovery, replay_execution, ReplayExecutionRequest);
    let replay = v1::ReplayExecutionRequest {
        name: name.clone(),
        branch: format!("{name}/branches/0"),
        ..v1::ReplayExecutionRequest::default()
    };
    ask!(recovery, replay_execution, replay, "/branches/0");
    named!(recovery, export_history, ExportHistoryRequest);
    let branches = v1::ListBranchesRequest {
        parent: name.clone(),
        ..v1::ListBranchesRequest::default()
    };
    ask!(recovery, list_branches, branches);
    let approval = format!("{name}/approvals/sign-off~1");
    let get = v1::GetApprovalRequest {
        name: approval.clone(),
    };
    ask!(approvals, get_approval, get);
    let decide = v1::DecideApprovalRequest {
        name: approval,
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    ask!(approvals, decide_approval, decide);
    let escalation = format!("{name}/escalations/sign-off~1");
    let get = v1::GetEscalationRequest {
        name: escalation.clone(),
    };
    ask!(approvals, get_escalation, get);
    let resolve = v1::ResolveEscalationRequest {
        name: escalation,
        action: v1::resolution::Action::Resume.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    ask!(approvals, resolve_escalation, resolve);
    answers
}

#[tokio::test]
async fn what_another_tenant_has_is_exactly_like_what_does_not_exist() {
    let rig = rig().await;
    let theirs = every_verb(&rig, "eve", &name("theirs")).await;
    let absent = every_verb(&rig, "eve", &name("absent")).await;
    for (asked, status) in &theirs {
        assert_eq!(status.code(), Code::NotFound, "{asked:?}: {status}");
        assert_eq!(
            whole(status, ("theirs", "X")),
            whole(&absent[asked], ("absent", "X")),
            "{asked:?}"
        );
    }
    let asked: BTreeSet<_> = theirs
        .keys()
        .map(|(method, _)| (*method).to_owned())
        .collect();
    assert_eq!(asked, methods_that_name_an_execution());
    // Nothing has happened to it.
    let seen = rig.get("ada", "theirs").await.unwrap();
    assert_eq!(seen.sub_state(), v1::SubState::Waiting);
    assert_eq!(seen.pause, None);
}

#[tokio::test]
async fn etags_of_another_tenant_are_not_compared() {
    let rig = rig().await;
    let etag = rig.get("ada", "theirs").await.unwrap().etag;
    let mut client = rig.executions().await;
    for etag in [etag, "wrong".to_owned()] {
        let pause = v1::PauseExecutionRequest {
            name: name("theirs"),
            etag,
            ..v1::PauseExecutionRequest::default()
        };
        let status = client
            .pause_execution(rig.by("eve", pause))
            .await
            .unwrap_err();
        assert_eq!(reason_of(&status), "EXECUTION_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_stale_etag_says_nothing_of_the_state_to_a_caller_that_may_not_read() {
    let rules = r#"
[[rules]]
name = "stoppers"
who = { subject = "eve" }
may = "stop"

[[rules]]
name = "readers"
who = { subject = "vic" }
may = ["read", "stop"]

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = ["root", "eve", "vic"].map(|who| (who, &[] as &[&str], None));
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(RELEASE).await;
    rig.begin("root", "release", ("theirs", "")).await.unwrap();
    let mut client = rig.executions().await;
    let cancel = v1::CancelExecutionRequest {
        name: name("theirs"),
        etag: "stale".into(),
        ..v1::CancelExecutionRequest::default()
    };
    for (who, is_told) in [("vic", true), ("eve", false)] {
        let status = client.cancel_execution(rig.by(who, cancel.clone())).await;
        let status = status.unwrap_err();
        assert_eq!(reason_of(&status), "ETAG_MISMATCH", "{who}");
        let text = whole(&status, ("", ""));
        assert_eq!(text.contains("waiting"), is_told, "{who}: {text}");
    }
}

#[tokio::test]
async fn the_id_of_another_tenants_execution_is_taken_and_nothing_else_is_said() {
    let rig = rig().await;
    let taken = rig.begin("eve", "release", ("theirs", "evil")).await;
    let taken = taken.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists);
    let (reason, metadata) = error_info(&taken);
    assert_eq!(reason, "EXECUTION_ALREADY_EXISTS");
    let told: BTreeMap<_, _> = metadata.into_iter().collect();
    let expected = [
        ("answered", "true"),
        ("kind", "ALREADY_EXISTS"),
        ("provider", "b"),
        ("verb", "start"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(told, BTreeMap::from(expected));
    // The same for an execution of the caller: nothing depends on whose it is, or on its state.
    let own = rig.begin("eve", "release", ("mine", "evil")).await;
    let own = own.unwrap_err();
    let expected = whole(&own, ("mine", "X"));
    assert_eq!(whole(&taken, ("theirs", "X")), expected);
}

#[tokio::test]
async fn lists_counts_and_watches_show_what_a_tenant_has() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    for (who, expected) in [("ada", "theirs"), ("eve", "mine"), ("vic", "theirs")] {
        for parent in ["providers/-", "providers/b"] {
            let list = v1::ListExecutionsRequest {
                parent: parent.into(),
                ..v1::ListExecutionsRequest::default()
            };
            let page = client
                .list_executions(rig.by(who, list))
                .await
                .unwrap()
                .into_inner();
            let names: Vec<_> = page.executions.iter().map(|it| it.name.clone()).collect();
            assert_eq!(names, [name(expected)], "{who}");
            assert_eq!(page.unreachable, [""; 0]);
            let count = v1::CountExecutionsRequest {
                parent: parent.into(),
            };
            let counts = client
                .count_executions(rig.by(who, count))
                .await
                .unwrap()
                .into_inner();
            let all: i64 = counts.counts.iter().map(|it| it.execution_count).sum();
            assert_eq!(all, 1, "{who}");
            let watch = v1::WatchExecutionsRequest {
                parent: parent.into(),
                ..v1::WatchExecutionsRequest::default()
            };
            let stream = client.watch_executions(rig.by(who, watch)).await;
            let mut stream = stream.unwrap().into_inner();
            let mut seen = Vec::new();
            loop {
                let response = stream.message().await.unwrap().unwrap();
                if response.kind() == Kind::Bookmark {
                    break;
                }
                seen.push(response.execution.unwrap().name);
            }
            assert_eq!(seen, [name(expected)], "{who}");
        }
        // A filter cannot widen what the rules allow.
        let list = v1::ListExecutionsRequest {
            parent: "providers/-".into(),
            filter: "labels.tenant = acme OR labels.tenant = evil OR NOT labels.tenant = x".into(),
            ..v1::ListExecutionsRequest::default()
        };
        let page = client
            .list_executions(rig.by(who, list))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(page.executions.len(), 1, "{who}");
    }
    let count = v1::CountExecutionsRequest {
        parent: "providers/b".into(),
    };
    let counts = client
        .count_executions(rig.by("root", count))
        .await
        .unwrap()
        .into_inner();
    let all: i64 = counts.counts.iter().map(|it| it.execution_count).sum();
    assert_eq!(all, 2);
}

/// A position behind rows of another tenant would show that they exist.
#[tokio::test]
async fn a_list_does_not_continue_behind_rows_of_another_tenant() {
    let rig = AccessRig::with(TENANTS, &CALLERS).await;
    rig.apply(RELEASE).await;
    for number in 0..5 {
        let id = format!("theirs-{number}");
        rig.begin("ada", "release", (&id, "acme")).await.unwrap();
    }
    let mut inbox = rig.approvals().await;
    for filter in ["", "state:*", "role = ops"] {
        let list = v1::ListApprovalsRequest {
            parent: "providers/b".into(),
            filter: filter.into(),
            page_size: 1,
            ..v1::ListApprovalsRequest::default()
        };
        let page = inbox.list_approvals(rig.by("eve", list)).await;
        let nothing = v1::ListApprovalsResponse::default();
        assert_eq!(page.unwrap().into_inner(), nothing, "{filter}");
    }
    let mut client = rig.executions().await;
    for (filter, page_size) in [("", 1), ("", 3), ("sub_state = waiting", 1)] {
        let list = v1::ListExecutionsRequest {
            parent: "providers/b".into(),
            filter: filter.into(),
            page_size,
            ..v1::ListExecutionsRequest::default()
        };
        let page = client.list_executions(rig.by("eve", list)).await;
        let nothing = v1::ListExecutionsResponse::default();
        assert_eq!(page.unwrap().into_inner(), nothing, "{filter} {page_size}");
    }
}

#[tokio::test]
async fn a_filter_on_a_hidden_definition_does_not_show_that_it_is_used() {
    let rules = r#"
[[rules]]
name = "orders"
who = { role = "member" }
may = "read"
where = "definition = order"

[[rules]]
name = "admins"
who = { role = "admin" }
may = "admin"
"#;
    let rig = AccessRig::with(rules, &CALLERS).await;
    rig.apply(RELEASE).await;
    for number in 0..10 {
        let id = format!("hidden-{number}");
        rig.begin("root", "release", (&id, "acme")).await.unwrap();
    }
    let mut client = rig.approvals().await;
    let list = v1::ListApprovalsRequest {
        parent: "providers/b".into(),
        filter: "definition = release".into(),
        page_size: 1,
        ..v1::ListApprovalsRequest::default()
    };
    let page = client.list_approvals(rig.by("eve", list)).await;
    let nothing = v1::ListApprovalsResponse::default();
    assert_eq!(page.unwrap().into_inner(), nothing);
}

#[tokio::test]
async fn a_watch_reports_nothing_of_another_tenant() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let stream = client.watch_executions(rig.by("eve", watch)).await;
    let mut stream = stream.unwrap().into_inner();
    rig.begin("ada", "release", ("theirs-2", "acme"))
        .await
        .unwrap();
    let cancel = v1::CancelExecutionRequest {
        name: name("theirs"),
        ..v1::CancelExecutionRequest::default()
    };
    client
        .cancel_execution(rig.by("ada", cancel))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine-2", "evil"))
        .await
        .unwrap();
    // Changes come in order, so what follows the last start has been seen.
    loop {
        let response = stream.message().await.unwrap().unwrap();
        let shown = response.execution.map(|it| it.name).unwrap_or_default();
        assert!(!shown.contains("theirs"), "{shown}");
        if shown == name("mine-2") {
            break;
        }
    }
}

#[tokio::test]
async fn approvals_are_listed_and_watched_by_tenant() {
    let rig = rig().await;
    let mut client = rig.approvals().await;
    for (who, expected) in [("ada", "theirs"), ("eve", "mine")] {
        let list = v1::ListApprovalsRequest {
            parent: "providers/-".into(),
            ..v1::ListApprovalsRequest::default()
        };
        let page = client
            .list_approvals(rig.by(who, list))
            .await
            .unwrap()
            .into_inner();
        let of: Vec<_> = page
            .approvals
            .iter()
            .map(|it| it.execution.clone())
            .collect();
        assert_eq!(of, [name(expected)], "{who}");
        let watch = v1::WatchApprovalsRequest {
            parent: "providers/-".into(),
            ..v1::WatchApprovalsRequest::default()
        };
        let stream = client.watch_approvals(rig.by(who, watch)).await;
        let mut stream = stream.unwrap().into_inner();
        let first = stream.message().await.unwrap().unwrap();
        assert_eq!(first.approval.unwrap().execution, name(expected));
        let second = stream.message().await.unwrap().unwrap();
        assert_eq!(second.approval, None, "a bookmark");
    }
}

#[tokio::test]
async fn requests_of_one_execution_of_another_tenant_are_listed_like_those_of_none() {
    let rig = rig().await;
    let mut client = rig.approvals().await;
    let mut lists = Vec::new();
    for id in ["theirs", "absent"] {
        let filter = format!("execution = b/{id} AND state:*");
        let list = v1::ListApprovalsRequest {
            parent: "providers/-".into(),
            filter: filter.clone(),
            ..v1::ListApprovalsRequest::default()
        };
        let page = client
            .list_approvals(rig.by("eve", list))
            .await
            .unwrap()
            .into_inner();
        lists.push(format!("{page:?}"));
        let list = v1::ListEscalationsRequest {
            parent: "providers/-".into(),
            filter,
            ..v1::ListEscalationsRequest::default()
        };
        let page = client
            .list_escalations(rig.by("eve", list))
            .await
            .unwrap()
            .into_inner();
        lists.push(format!("{page:?}"));
    }
    assert_eq!(lists[0], lists[2]);
    assert_eq!(lists[1], lists[3]);
    assert!(!lists[0].contains("theirs"), "{lists:?}");
}

#[tokio::test]
async fn a_watch_by_names_does_not_tell_hidden_from_absent() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    let mut seen = Vec::new();
    for id in ["theirs", "absent"] {
        let watch = v1::WatchExecutionsRequest {
            names: vec![name(id), name("mine")],
            ..v1::WatchExecutionsRequest::default()
        };
        let stream = client.watch_executions(rig.by("eve", watch)).await;
        let mut stream = stream.unwrap().into_inner();
        let first = stream.message().await.unwrap().unwrap();
        assert_eq!(first.execution.unwrap().name, name("mine"));
        let second = stream.message().await.unwrap().unwrap();
        assert_eq!(second.kind(), Kind::Bookmark);
        seen.push((second.unreachable, second.cursor.len()));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn page_tokens_and_cursors_of_another_caller_are_of_no_use() {
    let rig = rig().await;
    rig.begin("ada", "release", ("theirs-2", "acme"))
        .await
        .unwrap();
    let mut client = rig.executions().await;
    let list = |page_token: String| v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        page_size: 1,
        page_token,
        ..v1::ListExecutionsRequest::default()
    };
    let page = client
        .list_executions(rig.by("ada", list(String::new())))
        .await;
    let token = page.unwrap().into_inner().next_page_token;
    assert!(!token.is_empty());
    client
        .list_executions(rig.by("ada", list(token.clone())))
        .await
        .unwrap();
    let invented = client
        .list_executions(rig.by("eve", list("abc".into())))
        .await
        .unwrap_err();
    for who in ["eve", "vic", "root"] {
        let status = client
            .list_executions(rig.by(who, list(token.clone())))
            .await
            .unwrap_err();
        assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN", "{who}");
        assert_eq!(whole(&status, ("", "")), whole(&invented, ("", "")));
    }
    let watch = |cursor: String| v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        cursor,
        ..v1::WatchExecutionsRequest::default()
    };
    let stream = client
        .watch_executions(rig.by("ada", watch(String::new())))
        .await;
    let mut stream = stream.unwrap().into_inner();
    let cursor = loop {
        let response = stream.message().await.unwrap().unwrap();
        if !response.cursor.is_empty() {
            break response.cursor;
        }
    };
    client
        .watch_executions(rig.by("ada", watch(cursor.clone())))
        .await
        .unwrap();
    let status = client
        .watch_executions(rig.by("eve", watch(cursor)))
        .await
        .unwrap_err();
    assert_eq!(reason_of(&status), "CURSOR_EXPIRED");
}

#[tokio::test]
async fn the_request_id_of_another_caller_means_nothing() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    let start = |tenant: &str, input: &str| v1::StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/release".into(),
        labels: [("tenant".to_owned(), tenant.to_owned())].into(),
        input: Some(v1::Payload {
            data: input.to_owned().into(),
            content_type: String::new(),
        }),
        request_id: "the-same".into(),
        ..v1::StartExecutionRequest::default()
    };
    let body = r#"{"secret": 1}"#;
    let theirs = client
        .start_execution(rig.by("ada", start("acme", body)))
        .await
        .unwrap();
    let again = client
        .start_execution(rig.by("ada", start("acme", body)))
        .await
        .unwrap();
    assert_eq!(theirs.get_ref().name, again.get_ref().name);
    // Another body under the same id is a conflict for the same caller, and nothing for another one.
    let other = client
        .start_execution(rig.by("ada", start("acme", "{}")))
        .await
        .unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    let mine = client
        .start_execution(rig.by("eve", start("evil", "{}")))
        .await
        .unwrap();
    assert_ne!(mine.get_ref().name, theirs.get_ref().name);
}

#[tokio::test]
async fn providers_that_no_rule_is_about_do_not_exist() {
    let rules = r#"
[[rules]]
name = "b-only"
who = { subject = "ada" }
may = "viewer"
where = "provider = b"
"#;
    let rig = AccessRig::with(rules, &[("ada", &[], None)]).await;
    let mut client = rig.rig.gateway.providers().await;
    let list = v1::ListProvidersRequest::default();
    let listed = client
        .list_providers(rig.by("ada", list))
        .await
        .unwrap()
        .into_inner();
    let names: Vec<_> = listed.providers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["providers/b"]);
    let get = |name: &str| v1::GetProviderRequest { name: name.into() };
    let hidden = client
        .get_provider(rig.by("ada", get("providers/m")))
        .await
        .unwrap_err();
    let absent = client
        .get_provider(rig.by("ada", get("providers/n")))
        .await
        .unwrap_err();
    assert_eq!(hidden.code(), Code::NotFound);
    assert_eq!(
        whole(&hidden, ("`m`", "X")).replace("\"m\"", "Y"),
        whole(&absent, ("`n`", "X")).replace("\"n\"", "Y")
    );
    let mut client = rig.executions().await;
    for provider in ["m", "n"] {
        let get = v1::GetExecutionRequest {
            name: format!("providers/{provider}/executions/x"),
            ..v1::GetExecutionRequest::default()
        };
        let status = client.get_execution(rig.by("ada", get)).await.unwrap_err();
        assert_eq!(reason_of(&status), "PROVIDER_NOT_FOUND");
    }
    let count = v1::CountExecutionsRequest {
        parent: "providers/-".into(),
    };
    let counted = client
        .count_executions(rig.by("ada", count))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(counted.uncounted, [""; 0]);
}

#[tokio::test]
async fn a_tenant_whose_name_is_a_pattern_gets_only_its_own() {
    let callers = [
        ("root", &["admin"] as &[&str], None),
        ("star", &["member"], Some("*")),
        ("ada", &["member"], Some("acme")),
    ];
    let rig = AccessRig::with(super::rig::TENANTS, &callers).await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs", "acme"))
        .await
        .unwrap();
    assert_eq!(
        rig.get("star", "theirs").await.unwrap_err().code(),
        Code::NotFound
    );
    let list = v1::ListExecutionsRequest {
        parent: "providers/-".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let page = rig
        .executions()
        .await
        .list_executions(rig.by("star", list))
        .await;
    assert_eq!(page.unwrap().into_inner().executions, []);
}

/// What is asked for something that is not found.
#[derive(Debug, Clone, Copy)]
enum Question {
    GetExecution,
    CancelExecution,
    GetApproval,
    DecideApproval,
    ResolveEscalation,
}

/// How long one answer takes.
async fn time_of(rig: &AccessRig, question: Question, id: &str) -> Duration {
    let (mut client, mut approvals) = (rig.executions().await, rig.approvals().await);
    let get = v1::GetExecutionRequest {
        name: name(id),
        ..v1::GetExecutionRequest::default()
    };
    let cancel = v1::CancelExecutionRequest {
        name: name(id),
        ..v1::CancelExecutionRequest::default()
    };
    let approval = v1::GetApprovalRequest {
        name: format!("{}/approvals/sign-off~1", name(id)),
    };
    let decision = v1::DecideApprovalRequest {
        name: approval.name.clone(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let resolution = v1::ResolveEscalationRequest {
        name: escalation(id),
        action: v1::resolution::Action::Resume.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    // The middle of many times, so that single slow answers do not count.
    let mut times = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        let code = match question {
            Question::GetExecution => {
                let answer = client.get_execution(rig.by("eve", get.clone())).await;
                answer.unwrap_err().code()
            }
            Question::CancelExecution => {
                let answer = client.cancel_execution(rig.by("eve", cancel.clone())).await;
                answer.unwrap_err().code()
            }
            Question::GetApproval => {
                let answer = approvals.get_approval(rig.by("eve", approval.clone()));
                answer.await.unwrap_err().code()
            }
            Question::DecideApproval => {
                let answer = approvals.decide_approval(rig.by("eve", decision.clone()));
                answer.await.unwrap_err().code()
            }
            Question::ResolveEscalation => {
                let answer = approvals.resolve_escalation(rig.by("eve", resolution.clone()));
                answer.await.unwrap_err().code()
            }
        };
        times.push(began.elapsed());
        assert_eq!(code, Code::NotFound, "{question:?}");
    }
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn not_found_takes_about_as_long_for_hidden_as_for_absent() {
    compare_times(rig().await).await;
}

#[tokio::test]
async fn not_found_takes_about_as_long_for_hidden_as_for_absent_with_an_audit_log() {
    let rules = format!("{TENANTS}{OPERATORS}");
    let rig = AccessRig::audited_with(&rules, &CALLERS).await;
    fill(&rig).await;
    compare_times(rig).await;
}

async fn compare_times(rig: AccessRig) {
    rig.escalated("theirs-escalated", "acme").await;
    // One that has ended stays in the memory of the engine for a while.
    rig.begin("ada", "release", ("theirs-ended", "acme"))
        .await
        .unwrap();
    let cancel = v1::CancelExecutionRequest {
        name: name("theirs-ended"),
        ..v1::CancelExecutionRequest::default()
    };
    let mut client = rig.executions().await;
    client
        .cancel_execution(rig.by("ada", cancel))
        .await
        .unwrap();
    for (question, hidden) in [
        (Question::GetExecution, "theirs"),
        (Question::GetExecution, "theirs-ended"),
        (Question::CancelExecution, "theirs"),
        (Question::CancelExecution, "theirs-ended"),
        (Question::GetApproval, "theirs"),
        (Question::DecideApproval, "theirs"),
        (Question::ResolveEscalation, "theirs-escalated"),
    ] {
        // Both kinds alternate, so that a busy machine slows both.
        let mut ratios = Vec::new();
        for _ in 0..5 {
            let hidden = time_of(&rig, question, hidden).await;
            let absent = time_of(&rig, question, "absent").await;
            ratios.push(hidden.as_secs_f64() / absent.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        let middle = ratios[ratios.len() / 2];
        assert!((0.7..1.4).contains(&middle), "{question:?}: {ratios:?}");
    }
}

#[tokio::test]
async fn a_provider_is_asked_the_same_for_hidden_as_for_absent() {
    let puppet = Puppet::with_approvals();
    let beside = |gateway: TestGateway| gateway.with_puppet("p", &puppet);
    let rules = format!("{TENANTS}{OPERATORS}");
    let rig = AccessRig::made(&rules, &CALLERS, false, beside).await;
    let theirs = ExecutionId::new("theirs").unwrap();
    let mut theirs = Observation::new(theirs, NativeState::new("RUNNING"));
    theirs.labels = [("tenant".to_owned(), "acme".to_owned())].into();
    puppet.show_observation(theirs);
    puppet.ask("theirs", "sign-off", "ops");
    let mut asked = Vec::new();
    for id in ["theirs", "absent"] {
        let before = puppet.all_asked();
        let execution = format!("providers/p/executions/{id}");
        for (asked, status) in every_verb(&rig, "eve", &execution).await {
            let expected = [Code::NotFound, Code::Unimplemented];
            assert!(expected.contains(&status.code()), "{asked:?}: {status}");
        }
        let mut after = puppet.all_asked();
        for (verb, count) in before {
            *after.get_mut(&verb).unwrap() -= count;
        }
        // The health is asked for beside the calls.
        after.remove(&Verb::Health);
        asked.push(after);
    }
    assert!(asked[0][&Verb::Get] > 10, "{asked:?}");
    assert_eq!(asked[0], asked[1]);
}

/// How long the answer to a call over gRPC-Web takes after its message was sent, if the head of the request was sent
/// some time before.
async fn time_after_message(rig: &AccessRig, id: &str, pause: Duration) -> Duration {
    let get = v1::GetExecutionRequest {
        name: name(id),
        ..v1::GetExecutionRequest::default()
    };
    let message = get.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let head = format!(
        "POST /stateway.v1.Executions/GetExecution HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {}\r\ncontent-type: application/grpc-web+proto\r\ncontent-length: {}\r\n\r\n",
        rig.key("eve"),
        frame.len()
    );
    let mut stream = TcpStream::connect(rig.rig.gateway.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(pause).await;
    let began = Instant::now();
    stream.write_all(&frame).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let took = began.elapsed();
    let answer = String::from_utf8_lossy(&answer);
    let is_not_found = answer.contains("grpc-status: 5") || answer.contains("grpc-status:5");
    assert!(is_not_found, "{answer}");
    took
}

#[tokio::test]
async fn not_found_is_answered_ten_milliseconds_after_the_message_at_the_earliest() {
    let rig = rig().await;
    for id in ["theirs", "absent"] {
        for pause in [0, 3, 6, 9].map(Duration::from_millis) {
            for _ in 0..5 {
                let took = time_after_message(&rig, id, pause).await;
                assert!(took >= Duration::from_millis(10), "{id} {pause:?} {took:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_hidden_definition_is_exactly_like_one_that_does_not_exist() {
    let rules = r#"
[[rules]]
name = "orders"
who = { subject = "ada" }
may = ["read", "start", "steer", "define"]
where = "provider = b AND definition = order"

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let rig = AccessRig::with(rules, &[("root", &[], None), ("ada", &[], None)]).await;
    rig.apply(ORDER).await;
    rig.apply(RELEASE).await;
    let mut definitions = rig.definitions().await;
    let mut triggers = rig.triggers().await;
    let mut executions = rig.executions().await;
    let mut answers = Vec::new();
    for id in ["release", "missing"] {
        let name = format!("definitions/{id}");
        let get = v1::GetDefinitionRequest { name: name.clone() };
        let get = definitions.get_definition(rig.by("ada", get)).await;
        let get = get.unwrap_err();
        assert_eq!(get.code(), Code::NotFound, "{get}");
        let delete = v1::DeleteDefinitionRequest {
            name: name.clone(),
            ..v1::DeleteDefinitionRequest::default()
        };
        let delete = definitions.delete_definition(rig.by("ada", delete)).await;
        let disable = v1::DisableTriggerRequest {
            name: format!("{name}/trigger"),
            ..v1::DisableTriggerRequest::default()
        };
        let disable = triggers.disable_trigger(rig.by("ada", disable)).await;
        let enable = v1::EnableTriggerRequest {
            name: format!("{name}/trigger"),
            ..v1::EnableTriggerRequest::default()
        };
        let enable = triggers.enable_trigger(rig.by("ada", enable)).await;
        let start = v1::StartExecutionRequest {
            parent: "providers/b".into(),
            definition: name,
            ..v1::StartExecutionRequest::default()
        };
        let start = executions.start_execution(rig.by("ada", start)).await;
        let of = [
            ("get", get),
            ("delete", delete.unwrap_err()),
            ("disable", disable.unwrap_err()),
            ("enable", enable.unwrap_err()),
            ("start", start.unwrap_err()),
        ];
        answers.push(of.map(|(verb, status)| (verb, whole(&status, (id, "X")))));
    }
    assert_eq!(answers[0], answers[1]);
    let list = v1::ListDefinitionsRequest {
        parent: "providers/b".into(),
        ..v1::ListDefinitionsRequest::default()
    };
    let listed = definitions.list_definitions(rig.by("ada", list)).await;
    assert!(!format!("{listed:?}").contains("release"), "{listed:?}");
    // Nothing has happened to it.
    rig.begin("root", "release", ("still-there", ""))
        .await
        .unwrap();
}

/// A definition that asks for so many approvals that they do not fit into the pages of one call.
fn many() -> String {
    let step = |number| format!("  - {{name: ask-{number}, approval: {{role: ops}}}}\n");
    let steps: String = (1..=20).map(step).collect();
    format!("name: many\nsteps:\n{steps}")
}

#[tokio::test]
async fn many_requests_of_one_execution_of_another_tenant_are_listed_like_those_of_none() {
    let rig = rig().await;
    rig.apply(&many()).await;
    rig.begin("ada", "many", ("theirs-many", "acme"))
        .await
        .unwrap();
    let mut client = rig.approvals().await;
    let list = |id: &str, page_size| v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        filter: format!("execution = b/{id} AND state:*"),
        page_size,
        ..v1::ListApprovalsRequest::default()
    };
    for page_size in [0, 1, 3] {
        for id in ["theirs-many", "absent"] {
            let page = client
                .list_approvals(rig.by("eve", list(id, page_size)))
                .await;
            let page = page.unwrap().into_inner();
            let nothing = v1::ListApprovalsResponse::default();
            assert_eq!(page, nothing, "{id} {page_size}");
        }
        let page = client
            .list_approvals(rig.by("ada", list("theirs-many", page_size)))
            .await;
        let page = page.unwrap().into_inner();
        let expected = if page_size == 0 { 20 } else { page_size };
        assert_eq!(page.approvals.len(), usize::try_from(expected).unwrap());
    }
}

#[tokio::test]
async fn an_escalation_of_another_tenant_is_exactly_like_one_that_does_not_exist() {
    let rig = AccessRig::start().await;
    let theirs = rig.escalated("theirs", "acme").await;
    let mut client = rig.approvals().await;
    let get = |name: &str| v1::GetEscalationRequest { name: name.into() };
    let resolve = |name: &str| v1::ResolveEscalationRequest {
        name: name.into(),
        action: v1::resolution::Action::Resume.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    let mut answers = Vec::new();
    for (name, id) in [
        (theirs.clone(), "theirs"),
        (theirs.replace("theirs", "absent"), "absent"),
    ] {
        let got = client.get_escalation(rig.by("eve", get(&name))).await;
        let got = got.unwrap_err();
        let resolved = client
            .resolve_escalation(rig.by("eve", resolve(&name)))
            .await;
        let resolved = resolved.unwrap_err();
        assert_eq!(
            (got.code(), resolved.code()),
            (Code::NotFound, Code::NotFound),
            "{id}"
        );
        answers.push([whole(&got, (id, "X")), whole(&resolved, (id, "X"))]);
    }
    assert_eq!(answers[0], answers[1]);
    let list = v1::ListEscalationsRequest {
        parent: "providers/b".into(),
        ..v1::ListEscalationsRequest::default()
    };
    let listed = client.list_escalations(rig.by("eve", list)).await;
    assert_eq!(listed.unwrap().into_inner().escalations, []);
    // It is there, nothing has happened to it, and its own tenant can resolve it.
    let found = client.get_escalation(rig.by("ada", get(&theirs))).await;
    let found = found.unwrap().into_inner();
    assert_eq!(found.state(), v1::escalation::State::Pending);
    // A viewer of the tenant reads it and learns why it cannot resolve it.
    let viewer = client
        .resolve_escalation(rig.by("vic", resolve(&theirs)))
        .await;
    assert_eq!(viewer.unwrap_err().code(), Code::PermissionDenied);
    let resolved = client
        .resolve_escalation(rig.by("ada", resolve(&theirs)))
        .await;
    let resolved = resolved.unwrap().into_inner();
    assert_eq!(resolved.state(), v1::escalation::State::Resolved);
    assert_eq!(resolved.step, "pay");
}

/// A watch until its first bookmark: the ids that it has shown.
async fn watched(rig: &AccessRig, who: &str, filter: &str) -> Result<Vec<String>, Status> {
    let request = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        filter: filter.into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let mut client = rig.executions().await;
    let stream = client.watch_executions(rig.by(who, request)).await;
    until_bookmark(&mut stream?.into_inner()).await
}

async fn until_bookmark(
    stream: &mut tonic::Streaming<v1::WatchExecutionsResponse>,
) -> Result<Vec<String>, Status> {
    let mut names = BTreeSet::new();
    loop {
        let response = stream.message().await?.expect("the stream continues");
        names.extend(response.execution.as_ref().map(|it| it.name.clone()));
        if response.kind() == Kind::Bookmark {
            return Ok(names.into_iter().collect());
        }
    }
}

#[tokio::test]
async fn the_bound_of_a_watch_does_not_count_what_other_tenants_have() {
    let bound = |mut gateway: TestGateway| {
        gateway.settings.watch.max_watched_executions = 3;
        gateway.settings.watch.heartbeat = Duration::from_millis(200);
        gateway
    };
    let rig = AccessRig::made(TENANTS, &CALLERS, false, bound).await;
    fill(&rig).await;
    // Watches that are open while the other tenant exceeds the bound.
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let mut client = rig.executions().await;
    let open = client.watch_executions(rig.by("eve", watch)).await;
    let mut open = open.unwrap().into_inner();
    assert_eq!(until_bookmark(&mut open).await.unwrap(), [name("mine")]);
    let watch = v1::WatchApprovalsRequest {
        parent: "providers/b".into(),
        ..v1::WatchApprovalsRequest::default()
    };
    let mut approvals = rig.approvals().await;
    let inbox = approvals
        .watch_approvals(rig.by("eve", watch.clone()))
        .await;
    let mut inbox = inbox.unwrap().into_inner();
    for number in 0..5 {
        let id = format!("theirs-{number}");
        rig.begin("ada", "release", (&id, "acme")).await.unwrap();
    }
    rig.begin("eve", "release", ("mine-2", "evil"))
        .await
        .unwrap();
    let both = [name("mine"), name("mine-2")];
    let reading = async {
        let mut seen = BTreeSet::new();
        while !both.iter().all(|name| seen.contains(name)) {
            seen.extend(until_bookmark(&mut open).await.unwrap());
            seen.insert(name("mine"));
        }
        let mut asked = BTreeSet::new();
        while asked.len() < 2 {
            let response = inbox.message().await.unwrap().unwrap();
            asked.extend(response.approval.map(|it| it.name));
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
    read.expect("both watches continue");
    // New watches, with every kind of topic.
    for filter in ["", "definition = release", "sub_state:*"] {
        let seen = watched(&rig, "eve", filter).await;
        assert_eq!(seen.unwrap(), both, "{filter}");
        let refused = watched(&rig, "ada", filter).await.unwrap_err();
        assert_eq!(reason_of(&refused), "TOO_MANY_EXECUTIONS", "{filter}");
    }
    let again = approvals
        .watch_approvals(rig.by("eve", watch.clone()))
        .await;
    assert!(again.is_ok(), "{again:?}");
    let refused = approvals.watch_approvals(rig.by("ada", watch)).await;
    assert_eq!(reason_of(&refused.unwrap_err()), "TOO_MANY_APPROVALS");
}
