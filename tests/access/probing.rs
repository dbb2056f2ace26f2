//! A tenant that asks for what another tenant has: every answer is the answer for something that does not
//! exist.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stateway_client::v1;
use stateway_client::v1::read_payload_request::Source;
use stateway_client::v1::watch_executions_response::Kind;
use tonic::{Code, Status};

use super::rig::{AccessRig, RELEASE, name, whole};
use crate::support::reason_of;

async fn rig() -> AccessRig {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs", "acme"))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine", "evil")).await.unwrap();
    rig
}

/// Every method that names one execution, with the answer for it.
async fn every_verb(rig: &AccessRig, who: &str, id: &str) -> BTreeMap<&'static str, Status> {
    let mut answers = BTreeMap::new();
    let mut client = rig.executions().await;
    let mut recovery = rig.recovery().await;
    let mut approvals = rig.approvals().await;
    let name = name(id);
    macro_rules! ask {
        ($client:ident, $method:ident, $request:expr) => {
            let answer = $client.$method(rig.by(who, $request)).await;
            let answer = answer.map(|_| ()).unwrap_err();
            answers.insert(stringify!($method), answer);
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
        ask!(client, list_events, events);
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
    named!(recovery, replay_execution, ReplayExecutionRequest);
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
    let theirs = every_verb(&rig, "eve", "theirs").await;
    let absent = every_verb(&rig, "eve", "absent").await;
    for (method, status) in &theirs {
        assert_eq!(status.code(), Code::NotFound, "{method}: {status}");
        assert_eq!(
            whole(status, ("theirs", "X")),
            whole(&absent[method], ("absent", "X")),
            "{method}"
        );
    }
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

/// The middle of many times, so that single slow answers do not count.
async fn median(rig: &AccessRig, id: &str) -> Duration {
    let mut client = rig.executions().await;
    let mut times = Vec::new();
    for _ in 0..200 {
        let get = v1::GetExecutionRequest {
            name: name(id),
            ..v1::GetExecutionRequest::default()
        };
        let request = rig.by("eve", get);
        let began = Instant::now();
        client.get_execution(request).await.unwrap_err();
        times.push(began.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn not_found_takes_about_as_long_for_hidden_as_for_absent() {
    let rig = rig().await;
    // Both kinds alternate, so that a busy machine slows both.
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let (hidden, absent) = (median(&rig, "theirs").await, median(&rig, "absent").await);
        ratios.push(hidden.as_secs_f64() / absent.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios[ratios.len() / 2];
    assert!((0.5..2.0).contains(&middle), "{ratios:?}");
}
