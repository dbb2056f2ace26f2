//! People decide: in their own name, with the role that is asked for, once, and on the record.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::approval::State;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_engine::{PolicyVerdict, Ruling};
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, by, json_of, reason_of, time_of};

const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops}
    input: {version: '${input.version}'}
";

/// One step asks while another one runs, so the execution as a whole shows neither.
const BESIDE: &str = "\
name: beside
steps:
  - name: long
    agent: nobody
    timeout: 5m
  - name: yes
    approval: {role: legal}
";

/// The release of the review: a gate, then work by a worker.
const GATED: &str = "\
name: rel
timeout: 10m
steps:
  - {name: gate, approval: {role: rm, expiresAfter: 5m}}
  - {name: promote, agent: w, action: x, timeout: 1m, dependsOn: [gate]}
";

/// An approval that is pending while a step beside it fails.
const TWO_TRACKS: &str = "\
name: tracks
steps:
  - {name: gate, approval: {role: rm}}
  - {name: build, agent: w, action: x, timeout: 1m, onFailure: pause}
";

/// Five requests of one execution.
const COMMITTEE: &str = "\
name: committee
steps:
  - {name: a, approval: {role: ops}}
  - {name: b, approval: {role: ops}}
  - {name: c, approval: {role: ops}}
  - {name: d, approval: {role: ops}}
  - {name: e, approval: {role: ops}}
";

fn list(filter: &str) -> v1::ListApprovalsRequest {
    v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        filter: filter.into(),
        ..v1::ListApprovalsRequest::default()
    }
}

fn decide(name: &str, grant: bool) -> v1::DecideApprovalRequest {
    v1::DecideApprovalRequest {
        name: name.into(),
        decision: choice(grant).into(),
        comment: "looks good".into(),
        ..v1::DecideApprovalRequest::default()
    }
}

fn approval(execution: &str, step: &str, attempt: u32) -> String {
    format!("providers/b/executions/{execution}/approvals/{step}~{attempt}")
}

async fn asking(execution: &str) -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    let input = json!({"version": 7});
    rig.begin("release", execution, "ada", input).await;
    let waits = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until(execution, waits).await;
    rig
}

#[tokio::test]
async fn the_inbox_shows_what_a_person_needs_to_decide() {
    let rig = asking("r1").await;
    let mut client = rig.approvals().await;
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    let [row] = inbox.approvals.as_slice() else {
        panic!("{inbox:#?}");
    };
    assert_eq!(row.name, approval("r1", "sign-off", 1));
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.branch, format!("{}/branches/0", row.execution));
    assert_eq!(row.policy_rule, "");
    assert_eq!((row.role.as_str(), row.step.as_str()), ("ops", "sign-off"));
    assert_eq!(row.execution, "providers/b/executions/r1");
    assert_eq!(row.definition, "definitions/release");
    assert_eq!(
        (row.initiator.as_str(), &*row.labels["team"]),
        ("ada", "shop")
    );
    assert!(row.summary.contains("ops") && row.create_time.is_some());
    let request = v1::GetApprovalRequest {
        name: row.name.clone(),
    };
    let one = client.get_approval(request).await.unwrap().into_inner();
    assert_eq!(json_of(one.input.as_ref()), json!({"version": 7}));
    assert_eq!(one.etag, row.etag);
}

#[tokio::test]
async fn a_yes_is_on_the_record_and_lets_the_execution_go_on() {
    let rig = asking("r2").await;
    let mut client = rig.approvals().await;
    let name = approval("r2", "sign-off", 1);
    let decided = client.decide_approval(by("eve", "dev,ops", decide(&name, true)));
    let decided = decided.await.unwrap().into_inner();
    assert_eq!(decided.state(), State::Granted);
    let decision = decided.decision.clone().expect("a decision");
    assert_eq!(decision.decided_by, "eve");
    assert_eq!(decision.comment, "looks good");
    assert!(time_of(decision.decide_time.as_ref()) <= jiff::Timestamp::now());
    rig.until("r2", |view| view.native_state == "completed")
        .await;
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    assert_eq!(inbox.approvals, []);
    let filter = "execution = providers/b/executions/r2";
    let all = client
        .list_approvals(list(filter))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(all.approvals[0].decision, Some(decision));
    let filter = format!("{filter} AND state = REJECTED");
    let none = client.list_approvals(list(&filter)).await.unwrap();
    assert_eq!(none.into_inner().approvals, []);
}

#[tokio::test]
async fn nobody_decides_about_their_own_or_without_the_role() {
    let rig = asking("r3").await;
    let mut client = rig.approvals().await;
    let name = approval("r3", "sign-off", 1);
    for (actor, roles, reason) in [
        ("ada", "ops", "SELF_APPROVAL"),
        ("eve", "dev", "ROLE_REQUIRED"),
        ("eve", "", "ROLE_REQUIRED"),
    ] {
        let refused = client.decide_approval(by(actor, roles, decide(&name, true)));
        let status = refused.await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{reason}");
        assert_eq!(reason_of(&status), reason);
    }
    let still = client.list_approvals(list("role = ops")).await.unwrap();
    assert_eq!(still.into_inner().approvals.len(), 1);
}

#[tokio::test]
async fn a_decision_is_made_once_and_repeated_safely() {
    let rig = asking("r4").await;
    let mut client = rig.approvals().await;
    let name = approval("r4", "sign-off", 1);
    let yes = v1::DecideApprovalRequest {
        request_id: "d-1".into(),
        ..decide(&name, true)
    };
    let first = client.decide_approval(by("eve", "ops", yes.clone())).await;
    let first = first.unwrap().into_inner();
    let again = client.decide_approval(by("eve", "ops", yes.clone())).await;
    assert_eq!(again.unwrap().into_inner().decision, first.decision);
    let other = v1::DecideApprovalRequest {
        decision: v1::decide_approval_request::Choice::Reject.into(),
        ..yes
    };
    let status = client.decide_approval(by("eve", "ops", other)).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(reason_of(&status), "REQUEST_ID_REUSED");
    // Also when the execution has ended: the same again is no news, another one comes too late.
    rig.until("r4", |view| view.native_state == "completed")
        .await;
    let same = client.decide_approval(by("eve", "ops", decide(&name, true)));
    assert_eq!(same.await.unwrap().into_inner().decision, first.decision);
    let late = client.decide_approval(by("tom", "ops", decide(&name, false)));
    let status = late.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "ALREADY_DECIDED");
}

#[tokio::test]
async fn a_repeated_decision_is_answered_like_the_first_although_its_etag_is_old() {
    let rig = asking("r4e").await;
    let mut client = rig.approvals().await;
    let name = approval("r4e", "sign-off", 1);
    let get = v1::GetApprovalRequest { name: name.clone() };
    let pending = client.get_approval(get).await.unwrap().into_inner();
    let yes = v1::DecideApprovalRequest {
        request_id: "d-1".into(),
        etag: pending.etag,
        comment: "looks right".into(),
        ..decide(&name, true)
    };
    let first = client.decide_approval(by("eve", "ops", yes.clone())).await;
    let first = first.unwrap().into_inner();
    rig.until("r4e", |view| view.native_state == "completed")
        .await;
    let again = client.decide_approval(by("eve", "ops", yes.clone())).await;
    assert_eq!(again.unwrap().into_inner().decision, first.decision);
    let reused = v1::DecideApprovalRequest {
        decision: v1::decide_approval_request::Choice::Reject.into(),
        ..yes.clone()
    };
    let status = client.decide_approval(by("eve", "ops", reused)).await;
    assert_eq!(reason_of(&status.unwrap_err()), "REQUEST_ID_REUSED");
    // Another request id makes another request, whose etag is checked.
    let other = v1::DecideApprovalRequest {
        request_id: "d-2".into(),
        decision: v1::decide_approval_request::Choice::Reject.into(),
        ..yes
    };
    let status = client.decide_approval(by("eve", "ops", other)).await;
    assert_eq!(reason_of(&status.unwrap_err()), "ALREADY_DECIDED");
}

#[tokio::test]
async fn a_stale_or_unknown_request_is_refused() {
    let rig = asking("r5").await;
    let mut client = rig.approvals().await;
    let stale = approval("r5", "sign-off", 2);
    let refused = client.decide_approval(by("eve", "ops", decide(&stale, true)));
    let status = refused.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "STALE_APPROVAL");
    let etag = v1::DecideApprovalRequest {
        etag: "old".into(),
        ..decide(&approval("r5", "sign-off", 1), true)
    };
    let status = client.decide_approval(by("eve", "ops", etag)).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(reason_of(&status), "ETAG_MISMATCH");
    for (name, code) in [
        (stale, Code::NotFound),
        (approval("nobody", "sign-off", 1), Code::NotFound),
        (
            "providers/b/executions/r5".to_owned(),
            Code::InvalidArgument,
        ),
    ] {
        let status = client.get_approval(v1::GetApprovalRequest { name }).await;
        assert_eq!(status.unwrap_err().code(), code);
    }
    let status = client.list_approvals(list("colour = red")).await;
    assert_eq!(reason_of(&status.unwrap_err()), "INVALID_FILTER");
}

#[tokio::test]
async fn an_approval_beside_running_work_is_in_the_inbox_and_pages_follow() {
    let rig = BuiltInRig::start().await;
    rig.apply(BESIDE).await;
    rig.apply(RELEASE).await;
    for id in ["p1", "p2", "p3"] {
        rig.begin("beside", id, "ada", json!({})).await;
    }
    rig.begin("release", "q1", "ada", json!({"version": 1}))
        .await;
    let asks = |view: &v1::Execution| view.steps.iter().any(|step| step.name == "yes");
    for id in ["p1", "p2", "p3"] {
        let view = rig.until(id, asks).await;
        assert_eq!(view.native_state, "running");
    }
    let mut client = rig.approvals().await;
    let mut found = Vec::new();
    let mut request = v1::ListApprovalsRequest {
        page_size: 2,
        ..list("role = legal")
    };
    loop {
        let page = client
            .list_approvals(request.clone())
            .await
            .unwrap()
            .into_inner();
        found.extend(page.approvals.into_iter().map(|row| row.execution));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    found.sort();
    let expected = ["p1", "p2", "p3"].map(|id| format!("providers/b/executions/{id}"));
    assert_eq!(found, expected);
    request.filter = "role = ops".into();
    let status = client.list_approvals(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
}

/// Five requests of each of two executions.
async fn two_committees() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(COMMITTEE).await;
    for id in ["c1", "c2"] {
        rig.begin("committee", id, "ada", json!({})).await;
        rig.until(id, |view| view.waits.len() == 5).await;
    }
    rig
}

fn of_committees(executions: &[&str]) -> Vec<String> {
    let steps = |id| ["a", "b", "c", "d", "e"].map(|step| approval(id, step, 1));
    executions.iter().flat_map(|id| steps(id)).collect()
}

#[tokio::test]
async fn a_page_never_has_more_than_was_asked_for() {
    let rig = two_committees().await;
    let mut client = rig.approvals().await;
    for (filter, executions) in [
        ("", ["c2", "c1"].as_slice()),
        ("state = PENDING OR state = GRANTED", &["c2", "c1"]),
        ("execution = b/c1", &["c1"]),
    ] {
        for page_size in [1, 2, 3, 5, 7] {
            let mut request = v1::ListApprovalsRequest {
                page_size,
                ..list(filter)
            };
            let mut found = Vec::new();
            loop {
                let page = client.list_approvals(request.clone()).await.unwrap();
                let page = page.into_inner();
                assert!(page.approvals.len() <= page_size as usize, "{filter}");
                found.extend(page.approvals.into_iter().map(|row| row.name));
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break;
                }
            }
            let expected = of_committees(executions);
            assert_eq!(found, expected, "{filter} in pages of {page_size}");
        }
    }
}

#[tokio::test]
async fn a_decision_between_two_pages_hides_no_other_request() {
    let rig = two_committees().await;
    let mut client = rig.approvals().await;
    let mut request = v1::ListApprovalsRequest {
        page_size: 2,
        ..list("")
    };
    let first = client.list_approvals(request.clone()).await.unwrap();
    let first = first.into_inner();
    let expected = of_committees(&["c2", "c1"]);
    assert_eq!(first.approvals.len(), 2);
    for row in &first.approvals {
        let granted = by("eve", "ops", decide(&row.name, true));
        client.decide_approval(granted).await.unwrap();
    }
    request.page_token = first.next_page_token;
    request.page_size = 100;
    let rest = client.list_approvals(request).await.unwrap().into_inner();
    let rest: Vec<_> = rest.approvals.into_iter().map(|row| row.name).collect();
    assert_eq!(rest, expected[2..]);
}

#[tokio::test]
async fn what_was_decided_is_listed_over_all_executions() {
    let rig = asking("d1").await;
    let input = json!({"version": 8});
    rig.begin("release", "d2", "ada", input.clone()).await;
    rig.begin("release", "d3", "ada", input).await;
    let waits = |view: &v1::Execution| view.native_state == "awaiting_approval";
    let mut client = rig.approvals().await;
    for (id, grant) in [("d1", true), ("d2", false)] {
        rig.until(id, waits).await;
        let decision = decide(&approval(id, "sign-off", 1), grant);
        client
            .decide_approval(by("eve", "ops", decision))
            .await
            .unwrap();
    }
    let mut listed = async |filter: &str| -> Vec<(String, State)> {
        let answer = client.list_approvals(list(filter)).await.unwrap();
        let rows = answer.into_inner().approvals;
        rows.iter()
            .map(|row| (row.execution.clone(), row.state()))
            .collect()
    };
    let (granted, rejected) = (
        ("providers/b/executions/d1".to_owned(), State::Granted),
        ("providers/b/executions/d2".to_owned(), State::Rejected),
    );
    assert_eq!(
        listed("state = GRANTED OR state = REJECTED").await,
        [rejected.clone(), granted.clone()]
    );
    assert_eq!(listed("state = granted").await, [granted]);
    assert_eq!(listed("state = rejected AND role = ops").await, [rejected]);
    assert_eq!(
        listed("(state = GRANTED OR state = REJECTED) AND definition = other").await,
        []
    );
}

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

async fn retry_from(rig: &BuiltInRig, id: &str, step: &str) -> v1::Execution {
    let request = v1::RetryFromRequest {
        name: format!("providers/b/executions/{id}"),
        origin: Some(v1::retry_from_request::Origin::Step(step.into())),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let answer = client.retry_from(by("ops", "", request)).await;
    answer.unwrap().into_inner()
}

async fn get(rig: &BuiltInRig, name: &str) -> v1::Approval {
    let request = v1::GetApprovalRequest { name: name.into() };
    let answer = rig.approvals().await.get_approval(request).await;
    answer.unwrap().into_inner()
}

fn names(answer: v1::ListApprovalsResponse) -> Vec<(String, State)> {
    let rows = answer.approvals.into_iter();
    rows.map(|row| (row.name.clone(), row.state())).collect()
}

/// The gate is granted and the step behind it fails, or is completed.
async fn granted(id: &str, succeeds: bool) -> (BuiltInRig, TestWorker) {
    let rig = BuiltInRig::start().await;
    rig.apply(GATED).await;
    let mut worker = worker(&rig).await;
    rig.begin("rel", id, "dev", json!({})).await;
    rig.until(id, |view| view.native_state == "awaiting_approval")
        .await;
    let grant = v1::DecideApprovalRequest {
        comment: "first".into(),
        request_id: "the-first-grant".into(),
        ..decide(&approval(id, "gate", 1), true)
    };
    let mut client = rig.approvals().await;
    client
        .decide_approval(by("bob", "rm", grant))
        .await
        .unwrap();
    let task = worker.task().await;
    if succeeds {
        worker.complete(&task, &json!({}));
    } else {
        worker.fail(&task, v1::ErrorCategory::AgentError);
    }
    rig.until(id, |view| view.end_time.is_some()).await;
    (rig, worker)
}

#[tokio::test]
async fn a_decision_keeps_its_name_when_a_branch_asks_again() {
    let (rig, _worker) = granted("rel", false).await;
    let mut client = rig.approvals().await;
    let (old, new) = (
        approval("rel", "gate", 1),
        format!("{}~b1", approval("rel", "gate", 1)),
    );
    retry_from(&rig, "rel", "gate").await;
    rig.until("rel", |view| view.native_state == "awaiting_approval")
        .await;
    let decided = client
        .list_approvals(list("state = GRANTED OR state = REJECTED"))
        .await;
    assert_eq!(
        names(decided.unwrap().into_inner()),
        [(old.clone(), State::Granted)]
    );
    let pending = client.list_approvals(list("")).await.unwrap().into_inner();
    assert_eq!(names(pending), [(new.clone(), State::Pending)]);
    let both = "execution = providers/b/executions/rel";
    let both = client.list_approvals(list(both)).await.unwrap();
    assert_eq!(
        names(both.into_inner()),
        [(new.clone(), State::Pending), (old.clone(), State::Granted)]
    );

    // A late repeat of the old decision, with and without its request id, answers the old approval.
    let late = v1::DecideApprovalRequest {
        comment: "first".into(),
        request_id: "the-first-grant".into(),
        ..decide(&old, true)
    };
    for late in [late, decide(&old, true)] {
        let answer = client.decide_approval(by("bob", "rm", late)).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!(
            (answer.name.as_str(), answer.state()),
            (&*old, State::Granted)
        );
        assert_eq!(answer.decision.unwrap().comment, "first");
    }
    // Another decision about it is rejected, with the person who decided.
    for (actor, grant) in [("bob", false), ("tom", true)] {
        let other = client.decide_approval(by(actor, "rm", decide(&old, grant)));
        let status = other.await.unwrap_err();
        assert_eq!(reason_of(&status), "ALREADY_DECIDED");
        assert!(status.message().contains("`bob`"), "{}", status.message());
    }
    let asked = get(&rig, &new).await;
    assert_eq!(asked.state(), State::Pending);
    assert_eq!(asked.branch, format!("{}/branches/1", asked.execution));
    let request = v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        filter: format!(
            "execution = {:?} AND step = {:?}",
            asked.execution, asked.step
        ),
        ..v1::ListApprovalsRequest::default()
    };
    let listed = client.list_approvals(request).await.unwrap().into_inner();
    let [_, earlier] = listed.approvals.as_slice() else {
        panic!("{:#?}", listed.approvals);
    };
    assert_eq!(
        (earlier.name.as_str(), earlier.state()),
        (&*old, State::Granted)
    );

    let granted = client.decide_approval(by("bob", "rm", decide(&new, true)));
    let granted = granted.await.unwrap().into_inner();
    assert_eq!(
        (granted.name.as_str(), granted.state()),
        (&*new, State::Granted)
    );
    assert_eq!(get(&rig, &old).await.decision.unwrap().comment, "first");
}

#[tokio::test]
async fn a_success_is_forked_and_its_decision_stays_with_it() {
    let (rig, _worker) = granted("rel", true).await;
    let mut client = rig.approvals().await;
    let old = approval("rel", "gate", 1);
    let fork = retry_from(&rig, "rel", "gate").await;
    let id = fork.name.rsplit('/').next().unwrap().to_owned();
    assert_ne!(id, "rel");
    rig.until(&id, |view| view.native_state == "awaiting_approval")
        .await;
    let decided = client
        .list_approvals(list("state = GRANTED OR state = REJECTED"))
        .await;
    assert_eq!(
        names(decided.unwrap().into_inner()),
        [(old.clone(), State::Granted)]
    );
    let late = client.decide_approval(by("bob", "rm", decide(&old, true)));
    assert_eq!(late.await.unwrap().into_inner().name, old);
    let pending = client.list_approvals(list("")).await.unwrap().into_inner();
    let asked = approval(&id, "gate", 1);
    assert_eq!(names(pending), [(asked.clone(), State::Pending)]);
    // The person who had the work run again does not decide about it.
    let own = client.decide_approval(by("ops", "rm", decide(&asked, true)));
    assert_eq!(reason_of(&own.await.unwrap_err()), "SELF_APPROVAL");
}

#[tokio::test]
async fn a_pending_request_moves_to_the_new_branch_under_a_new_name() {
    let rig = BuiltInRig::start().await;
    rig.apply(TWO_TRACKS).await;
    let mut worker = worker(&rig).await;
    rig.begin("tracks", "t1", "dev", json!({})).await;
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::AgentError);
    rig.until("t1", |view| view.native_state == "paused").await;
    retry_from(&rig, "t1", "build").await;
    let task = worker.task().await;
    let (old, new) = (
        approval("t1", "gate", 1),
        format!("{}~b1", approval("t1", "gate", 1)),
    );
    assert_eq!(get(&rig, &old).await.state(), State::Withdrawn);
    let mut client = rig.approvals().await;
    let stale = client.decide_approval(by("bob", "rm", decide(&old, true)));
    let status = stale.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "STALE_APPROVAL");
    assert_eq!(get(&rig, &new).await.state(), State::Pending);
    let granted = client.decide_approval(by("bob", "rm", decide(&new, true)));
    assert_eq!(granted.await.unwrap().into_inner().state(), State::Granted);
    worker.complete(&task, &json!({}));
    rig.until("t1", |view| view.native_state == "completed")
        .await;
    assert_eq!(get(&rig, &old).await.state(), State::Withdrawn);
    let withdrawn = client.list_approvals(list("state = withdrawn")).await;
    assert_eq!(
        names(withdrawn.unwrap().into_inner()),
        [(old, State::Withdrawn)]
    );
}

#[tokio::test]
async fn the_second_of_two_deciders_learns_who_decided() {
    let rig = asking("r6").await;
    let mut client = rig.approvals().await;
    let name = approval("r6", "sign-off", 1);
    let etag = get(&rig, &name).await.etag;
    let with = |grant| v1::DecideApprovalRequest {
        etag: etag.clone(),
        ..decide(&name, grant)
    };
    client
        .decide_approval(by("olga", "ops", with(true)))
        .await
        .unwrap();
    let second = client.decide_approval(by("eve", "ops", with(false))).await;
    let status = second.unwrap_err();
    assert_eq!(reason_of(&status), "ALREADY_DECIDED");
    assert!(status.message().contains("`olga` has granted"));
    // The first decider's own repeat, in another spelling of the name, is accepted.
    let again = client.decide_approval(by("Olga", "ops", with(true))).await;
    assert_eq!(again.unwrap().into_inner().state(), State::Granted);
}

const CHAIN: &str = "\
name: chain
steps:
  - {name: build, agent: builder, timeout: 5m}
  - {name: pack, agent: packer, timeout: 5m, dependsOn: [build]}
  - {name: gate, approval: {role: ops}, dependsOn: [pack]}
";

fn offer_of(worker_id: &str, role: &str) -> v1::Offer {
    v1::Offer {
        worker_id: worker_id.into(),
        roles: vec![role.into()],
        capacity: 1,
        ..v1::Offer::default()
    }
}

/// The id of a worker is random by default, so the identity of its connection counts too: of every
/// attempt, of every step upstream, and of a connection that takes over the id of another worker.
#[tokio::test]
async fn nobody_decides_about_work_that_was_done_in_their_name() {
    let rig = BuiltInRig::start().await;
    rig.apply(CHAIN).await;
    let mut tom = rig.work_as("tom", offer_of("", "builder")).await.unwrap();
    rig.begin("chain", "c1", "ada", json!({})).await;
    let task = tom.task().await;
    tom.say(Said::Offer(v1::Offer::default()));
    tom.say(Said::Released(v1::TaskReleased {
        task_token: task.task_token,
        begun: false,
    }));
    let mut dan = rig
        .work_as("dan", offer_of("w-1", "builder"))
        .await
        .unwrap();
    dan.task().await;
    let mut kim = rig
        .work_as("kim", offer_of("w-1", "builder"))
        .await
        .unwrap();
    let task = kim.task().await;
    kim.complete(&task, &json!({}));
    let mut lea = rig.work_as("lea", offer_of("", "packer")).await.unwrap();
    let task = lea.task().await;
    lea.complete(&task, &json!({}));
    rig.until("c1", |view| view.native_state == "awaiting_approval")
        .await;
    let mut client = rig.approvals().await;
    let name = approval("c1", "gate", 1);
    for actor in ["tom", "Dan", "kim", "LEA", "w-1", "ada"] {
        let own = client.decide_approval(by(actor, "ops", decide(&name, true)));
        let status = own.await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{actor}");
        assert_eq!(reason_of(&status), "SELF_APPROVAL", "{actor}");
    }
    let granted = client.decide_approval(by("eve", "ops", decide(&name, true)));
    assert_eq!(granted.await.unwrap().into_inner().state(), State::Granted);
}

const INNER: &str = "\
name: inner
steps: [{name: gate, approval: {role: ops}}]
";
const OUTER: &str = "\
name: outer
steps: [{name: call, workflow: inner}]
";

#[tokio::test]
async fn whoever_had_a_parent_run_again_does_not_decide_in_its_child() {
    let rig = BuiltInRig::start().await;
    rig.apply(INNER).await;
    rig.apply(OUTER).await;
    rig.begin("outer", "p1", "ada", json!({})).await;
    let waits = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until("p1~call~1", waits).await;
    retry_from(&rig, "p1", "call").await;
    rig.until("p1~call~1~b1", waits).await;
    let mut client = rig.approvals().await;
    let name = approval("p1~call~1~b1", "gate", 1);
    for actor in ["ops", "Ops", "ada"] {
        let own = client.decide_approval(by(actor, "ops", decide(&name, true)));
        let status = own.await.unwrap_err();
        assert_eq!(reason_of(&status), "SELF_APPROVAL", "{actor}");
    }
    let granted = client.decide_approval(by("eve", "ops", decide(&name, true)));
    assert_eq!(granted.await.unwrap().into_inner().state(), State::Granted);
}

#[tokio::test]
async fn two_spellings_of_a_name_are_one_person() {
    let rig = asking("r7").await;
    let mut client = rig.approvals().await;
    let name = approval("r7", "sign-off", 1);
    let own = client.decide_approval(by("ADA", "ops", decide(&name, true)));
    assert_eq!(reason_of(&own.await.unwrap_err()), "SELF_APPROVAL");
}

/// A rule that asks for an approval before any task of the role `w` runs.
#[derive(Debug)]
struct AskFirst;

impl stateway_engine::Policy for AskFirst {
    fn decide(&self, asked: &stateway_engine::PolicyQuestion<'_>) -> Option<Ruling> {
        (asked.role == "w").then(|| Ruling {
            rule: "large-orders".into(),
            verdict: PolicyVerdict::RequireApproval {
                role: "cfo".into(),
                expires_after: None,
            },
        })
    }
}

#[tokio::test]
async fn an_approval_that_a_policy_rule_asks_for_names_the_rule() {
    let rig = BuiltInRig::with(|config| config.policy = Some(std::sync::Arc::new(AskFirst))).await;
    rig.apply("name: order\nsteps: [{name: pay, agent: w, action: x, timeout: 1m}]\n")
        .await;
    let mut worker = worker(&rig).await;
    rig.begin("order", "o1", "ada", json!({"amount": 9})).await;
    rig.until("o1", |view| view.native_state == "awaiting_approval")
        .await;
    let mut client = rig.approvals().await;
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    let [row] = inbox.approvals.as_slice() else {
        panic!("{inbox:#?}");
    };
    assert_eq!(row.name, approval("o1", "pay", 1));
    assert_eq!(
        (row.policy_rule.as_str(), &*row.role),
        ("large-orders", "cfo")
    );
    assert!(row.summary.contains("policy rule `large-orders`"));
    let one = get(&rig, &row.name).await;
    assert_eq!((&one.etag, &one.policy_rule), (&row.etag, &row.policy_rule));
    let granted = client.decide_approval(by("eve", "cfo", decide(&row.name, true)));
    let granted = granted.await.unwrap().into_inner();
    assert_eq!(granted.state(), State::Granted);
    assert_eq!(granted.policy_rule, "large-orders");
    let task = worker.task().await;
    assert_eq!((task.step.as_str(), task.attempt), ("pay", 1));
    worker.complete(&task, &json!({}));
    rig.until("o1", |view| view.native_state == "completed")
        .await;
}

/// Rules that change while an approved attempt waits for its worker.
#[derive(Debug, Default)]
struct Changing {
    second: std::sync::atomic::AtomicBool,
}

impl stateway_engine::Policy for Changing {
    fn decide(&self, _: &stateway_engine::PolicyQuestion<'_>) -> Option<Ruling> {
        let second = self.second.load(std::sync::atomic::Ordering::SeqCst);
        let (rule, role) = if second {
            ("frozen", "ceo")
        } else {
            ("large-orders", "cfo")
        };
        Some(Ruling {
            rule: rule.into(),
            verdict: PolicyVerdict::RequireApproval {
                role: role.into(),
                expires_after: None,
            },
        })
    }
}

#[tokio::test]
async fn a_request_without_a_decision_decides_nothing() {
    let rig = asking("r1").await;
    let name = approval("r1", "sign-off", 1);
    let mut client = rig.approvals().await;
    let forgotten = v1::DecideApprovalRequest {
        name: name.clone(),
        ..v1::DecideApprovalRequest::default()
    };
    let status = client.decide_approval(by("eve", "ops", forgotten)).await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(get(&rig, &name).await.state(), State::Pending);
}

/// Waits until a policy rule asks for an approval.
async fn asked_by(rig: &BuiltInRig, rule: &str) {
    let mut client = rig.approvals().await;
    for _ in 0..2_000 {
        let pending = client.list_approvals(list("")).await.unwrap().into_inner();
        if pending.approvals.iter().any(|one| one.policy_rule == rule) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("rule {rule} does not ask");
}

#[tokio::test]
async fn a_second_rule_about_one_attempt_asks_under_a_name_of_its_own() {
    let policy = std::sync::Arc::new(Changing::default());
    let rules = std::sync::Arc::clone(&policy);
    let rig = BuiltInRig::with(|config| config.policy = Some(rules)).await;
    rig.apply("name: order\nsteps: [{name: pay, agent: w, action: x, timeout: 1m}]\n")
        .await;
    let mut worker = worker(&rig).await;
    rig.begin("order", "o2", "ada", json!({})).await;
    asked_by(&rig, "large-orders").await;
    policy
        .second
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let mut client = rig.approvals().await;
    let first = approval("o2", "pay", 1);
    client
        .decide_approval(by("eve", "cfo", decide(&first, true)))
        .await
        .unwrap();
    asked_by(&rig, "frozen").await;
    let second = format!("{first}.2");
    let pending = client.list_approvals(list("")).await.unwrap().into_inner();
    assert_eq!(names(pending), [(second.clone(), State::Pending)]);
    // The person has both roles; a repeat of the first decision stays with the first request.
    let again = client.decide_approval(by("eve", "cfo,ceo", decide(&first, true)));
    let again = again.await.unwrap().into_inner();
    assert_eq!(
        (again.name, again.policy_rule.as_str()),
        (first.clone(), "large-orders")
    );
    assert_eq!(get(&rig, &second).await.state(), State::Pending);
    let unknown = client.decide_approval(by("eve", "ceo", decide(&format!("{first}.3"), true)));
    assert_eq!(unknown.await.unwrap_err().code(), Code::NotFound);
    let granted = client.decide_approval(by("eve", "ceo", decide(&second, true)));
    let granted = granted.await.unwrap().into_inner();
    assert_eq!(
        (granted.state(), &*granted.policy_rule),
        (State::Granted, "frozen")
    );
    assert_eq!(worker.task().await.attempt, 1);
    let all = "execution = providers/b/executions/o2";
    let all = client.list_approvals(list(all)).await.unwrap();
    assert_eq!(
        names(all.into_inner()),
        [(second, State::Granted), (first, State::Granted)]
    );
}

const fn choice(grant: bool) -> v1::decide_approval_request::Choice {
    if grant {
        v1::decide_approval_request::Choice::Grant
    } else {
        v1::decide_approval_request::Choice::Reject
    }
}
