//! Policy rules and budgets: what is decided before a task is handed out or a call is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::resolution::Action;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_engine::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{BuiltInRig, TestWorker, by};

const DEPLOY: &str = "\
name: deploy
steps:
  - name: build
    agent: builder
    action: build it
    timeout: 5m
  - name: promote
    agent: deployer
    action: promote it
    dependsOn: [build]
    timeout: 5m
";

const FROZEN: &str = r#"
[[policy]]
name = "builds-are-free"
when = 'step = "build"'
decision = "allow"

[[policy]]
name = "freeze"
when = 'definition = "deploy" AND labels.team = "shop" AND step = "promote"'
decision = "deny"
message = "no releases this week"
"#;

const SIGNED_OFF: &str = r#"
[[policy]]
name = "sign-off"
when = 'role = "deployer"'
decision = "require-approval"
role = "release-managers"
expires_after = "4h"
"#;

fn offer(id: &str) -> v1::Offer {
    v1::Offer {
        worker_id: id.into(),
        roles: vec!["builder".into(), "deployer".into()],
        capacity: 4,
        ..v1::Offer::default()
    }
}

/// A gateway with these rules, a worker for every task, and an execution whose build is done.
async fn built(rules: &str, definition: &str) -> (BuiltInRig, TestWorker) {
    let rig = BuiltInRig::configured(rules, |_| {}).await;
    let worker = build(&rig, definition, "d1").await;
    (rig, worker)
}

async fn build(rig: &BuiltInRig, definition: &str, id: &str) -> TestWorker {
    rig.apply(definition).await;
    let mut worker = rig.work(offer("w")).await.unwrap();
    rig.begin("deploy", id, "ada", json!({})).await;
    let task = worker.task().await;
    assert_eq!(task.step, "build");
    worker.complete(&task, &json!("image-7"));
    worker
}

fn is(state: &'static str) -> impl Fn(&v1::Execution) -> bool {
    move |view| view.native_state == state
}

/// Every event of an execution: its type, step and summary.
async fn history(rig: &BuiltInRig, id: &str) -> Vec<(String, String, String)> {
    let request = v1::ListEventsRequest {
        parent: format!("providers/b/executions/{id}"),
        page_size: 100,
        ..v1::ListEventsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let events = client.list_events(request).await.unwrap().into_inner();
    let events = events.events.into_iter();
    events
        .map(|event| (event.native_type, event.step, event.summary))
        .collect()
}

async fn decisions(rig: &BuiltInRig, id: &str) -> Vec<(String, String)> {
    let history = history(rig, id).await.into_iter();
    let decided = history.filter(|(kind, ..)| kind == "PolicyDecided");
    decided.map(|(_, step, summary)| (step, summary)).collect()
}

async fn execution(rig: &BuiltInRig, id: &str) -> v1::Execution {
    let request = v1::GetExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        ..v1::GetExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.get_execution(request).await.unwrap().into_inner()
}

/// The requests that wait for a decision.
async fn inbox(rig: &BuiltInRig) -> Vec<v1::Approval> {
    let request = v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        ..v1::ListApprovalsRequest::default()
    };
    let mut client = rig.approvals().await;
    let inbox = client.list_approvals(request).await.unwrap();
    inbox.into_inner().approvals
}

async fn decide(rig: &BuiltInRig, name: &str, grant: bool) {
    let request = v1::DecideApprovalRequest {
        name: name.into(),
        decision: choice(grant).into(),
        comment: "checked".into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    let request = by("bea", "release-managers", request);
    client.decide_approval(request).await.unwrap();
}

/// No task is on its way to the worker: the refusal of a token that does not exist comes first.
async fn gets_nothing(worker: &mut TestWorker) {
    worker.say(Said::Released(v1::TaskReleased {
        begun: false,
        task_token: "nonsense".into(),
    }));
    loop {
        match worker.next().await.expect("an answer") {
            v1::stream_tasks_response::Message::Refused(refused)
                if refused.task_token == "nonsense" =>
            {
                return;
            }
            v1::stream_tasks_response::Message::Task(task) => {
                panic!("{} was handed out", task.step)
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_denied_task_is_escalated_with_the_name_of_the_rule() {
    let (rig, mut worker) = built(FROZEN, DEPLOY).await;
    rig.until("d1", is("escalated")).await;
    gets_nothing(&mut worker).await;
    let shown = execution(&rig, "d1").await;
    assert_eq!(shown.sub_state(), v1::SubState::Error);
    let error = shown.last_error.expect("an error");
    assert_eq!(
        (error.category().label(), error.native_code.as_str()),
        ("governance", "policy_denied")
    );
    assert_eq!(
        error.message,
        "denied by the policy rule `freeze`: no releases this week"
    );
    let request = v1::ListEscalationsRequest {
        parent: "providers/-".into(),
        ..v1::ListEscalationsRequest::default()
    };
    let mut client = rig.approvals().await;
    let escalations = client.list_escalations(request).await.unwrap();
    assert_eq!(escalations.into_inner().escalations.len(), 1);
    assert_eq!(
        decisions(&rig, "d1").await,
        [
            (
                "build".to_owned(),
                "allowed by policy rule builds-are-free".to_owned()
            ),
            (
                "promote".to_owned(),
                "denied by policy rule freeze: no releases this week".to_owned()
            ),
        ]
    );
}

#[tokio::test]
async fn a_task_that_no_rule_matches_is_handed_out_and_nothing_is_recorded() {
    let rules = FROZEN.replace("labels.team = \"shop\"", "labels.team = \"other\"");
    let rules = rules.replace("step = \"build\"", "step = \"nothing\"");
    let (rig, mut worker) = built(&rules, DEPLOY).await;
    let task = worker.task().await;
    worker.complete(&task, &json!(null));
    rig.until("d1", is("completed")).await;
    assert_eq!(decisions(&rig, "d1").await, []);
}

#[tokio::test]
async fn a_task_that_needs_an_approval_is_handed_out_once_it_is_granted() {
    let (rig, mut worker) = built(SIGNED_OFF, DEPLOY).await;
    rig.until("d1", is("awaiting_approval")).await;
    gets_nothing(&mut worker).await;
    let inbox_before = inbox(&rig).await;
    let [asked] = inbox_before.as_slice() else {
        panic!("{inbox_before:#?}");
    };
    assert_eq!(
        (asked.role.as_str(), asked.step.as_str()),
        ("release-managers", "promote")
    );
    assert!(asked.expire_time.is_some());
    decide(&rig, &asked.name, true).await;
    let task = worker.task().await;
    assert_eq!((&*task.step, task.attempt), ("promote", 1));
    worker.complete(&task, &json!(null));
    rig.until("d1", is("completed")).await;
    assert_eq!(inbox(&rig).await, []);
    let events = history(&rig, "d1").await;
    let of_promote = events.iter().filter(|(_, step, _)| step == "promote");
    let kinds: Vec<_> = of_promote.map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "StepStarted",
            "PolicyDecided",
            "ApprovalGranted",
            "TaskAssigned",
            "StepCompleted"
        ]
    );
    assert_eq!(
        decisions(&rig, "d1").await,
        [(
            "promote".to_owned(),
            "policy rule sign-off requires an approval by release-managers".to_owned()
        )]
    );
}

#[tokio::test]
async fn a_rejection_follows_the_failure_policy_of_the_definition() {
    let with_undo = format!(
        "{DEPLOY}failurePolicy: compensate\ncompensation: [{{step: build, agent: builder}}]\n"
    );
    let (rig, mut worker) = built(SIGNED_OFF, &with_undo).await;
    rig.until("d1", is("awaiting_approval")).await;
    decide(&rig, &inbox(&rig).await[0].name, false).await;
    let undo = worker.task().await;
    assert_eq!((&*undo.step, undo.compensation), ("build", true));
    worker.complete(&undo, &json!(null));
    rig.until("d1", is("rolled_back")).await;

    let (rig, mut worker) = built(SIGNED_OFF, DEPLOY).await;
    rig.until("d1", is("awaiting_approval")).await;
    decide(&rig, &inbox(&rig).await[0].name, false).await;
    rig.until("d1", is("failed")).await;
    let shown = execution(&rig, "d1").await;
    assert_eq!(shown.reason().label(), "REJECTED");
    gets_nothing(&mut worker).await;
}

#[tokio::test]
async fn a_required_approval_that_expires_is_escalated() {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = Clock::manual(begin);
    let hand = clock.clone();
    let rig = BuiltInRig::configured(SIGNED_OFF, |config| config.clock = clock).await;
    let mut worker = build(&rig, DEPLOY, "d1").await;
    rig.until("d1", is("awaiting_approval")).await;
    let four_hours = Duration::from_secs(4 * 3_600).as_millis();
    hand.advance(i64::try_from(four_hours).unwrap());
    rig.until("d1", is("escalated")).await;
    let error = execution(&rig, "d1").await.last_error.expect("an error");
    assert_eq!(error.message, "nobody decided in time");
    gets_nothing(&mut worker).await;
}

#[tokio::test]
async fn reassigning_an_expired_approval_asks_the_other_role_and_never_hands_the_task_out() {
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let hand = clock.clone();
    let rig = BuiltInRig::configured(SIGNED_OFF, |config| config.clock = clock).await;
    let mut worker = build(&rig, DEPLOY, "d1").await;
    rig.until("d1", is("awaiting_approval")).await;
    for (attempt, action, role, asked) in [
        (1, Action::Reassign, "chief", "chief"),
        (2, Action::Resume, "", "chief"),
    ] {
        hand.advance(4 * 3_600 * 1_000);
        rig.until("d1", is("escalated")).await;
        resolve(&rig, attempt, action, role).await;
        rig.until("d1", is("awaiting_approval")).await;
        gets_nothing(&mut worker).await;
        let inbox = inbox(&rig).await;
        assert_eq!(
            (inbox[0].role.as_str(), inbox[0].policy_rule.as_str()),
            (asked, "sign-off")
        );
    }
    let decided = decisions(&rig, "d1").await;
    let decided: Vec<_> = decided
        .iter()
        .map(|(_, summary)| summary.as_str())
        .collect();
    assert_eq!(
        decided,
        [
            "policy rule sign-off requires an approval by release-managers",
            "policy rule sign-off requires an approval by chief",
            "policy rule sign-off requires an approval by chief",
        ]
    );
    let request = v1::DecideApprovalRequest {
        name: inbox(&rig).await[0].name.clone(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    client
        .decide_approval(by("bea", "chief", request))
        .await
        .unwrap();
    let task = worker.task().await;
    assert_eq!((&*task.step, task.attempt), ("promote", 3));
}

async fn resolve(rig: &BuiltInRig, attempt: u32, action: Action, role: &str) {
    let request = v1::ResolveEscalationRequest {
        name: format!("providers/b/executions/d1/escalations/promote~{attempt}"),
        action: action.into(),
        role: role.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    let mut client = rig.approvals().await;
    let request = by("eve", "operator", request);
    client.resolve_escalation(request).await.unwrap();
}

#[tokio::test]
async fn a_reassigned_step_is_judged_by_the_role_of_the_definition_too() {
    let definition = DEPLOY.replace("    dependsOn", "    onFailure: escalate\n    dependsOn");
    let rules = "[[policy]]\nname = \"builders\"\nwhen = 'role = \"builder\" AND step = \
                 \"promote\"'\ndecision = \"require-approval\"\nrole = \"chief\"\n";
    let rig = BuiltInRig::configured(&format!("{SIGNED_OFF}{rules}"), |_| {}).await;
    let mut worker = build(&rig, &definition, "d1").await;
    rig.until("d1", is("awaiting_approval")).await;
    decide(&rig, &inbox(&rig).await[0].name, false).await;
    rig.until("d1", is("escalated")).await;
    resolve(&rig, 1, Action::Reassign, "builder").await;
    for (role, rule) in [("release-managers", "sign-off"), ("chief", "builders")] {
        rig.until("d1", is("awaiting_approval")).await;
        gets_nothing(&mut worker).await;
        let asked = inbox(&rig).await.remove(0);
        assert_eq!(
            (asked.role.as_str(), asked.policy_rule.as_str()),
            (role, rule)
        );
        let request = v1::DecideApprovalRequest {
            name: asked.name,
            decision: v1::decide_approval_request::Choice::Grant.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let mut client = rig.approvals().await;
        client
            .decide_approval(by("bea", role, request))
            .await
            .unwrap();
    }
    let task = worker.task().await;
    assert_eq!((&*task.step, task.attempt), ("promote", 2));
}

/// A server that counts the calls and answers each with 200.
async fn counting_server() -> (String, Arc<AtomicU32>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4_096];
            // Whatever the request is, the answer is the same.
            let _ = stream.read(&mut request).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            let _ = stream.write_all(answer).await;
        }
    });
    (url, calls)
}

#[tokio::test]
async fn an_http_step_is_judged_before_the_call() {
    let (url, calls) = counting_server().await;
    let rules = format!(
        "http = {{ allow = [\"{url}\"] }}\n\
         [[policy]]\nname = \"calls\"\n\
         when = 'kind = \"http\" AND action = \"POST {url}/pay\"'\n\
         decision = \"require-approval\"\nrole = \"release-managers\"\n\
         [[policy]]\nname = \"no-other-calls\"\nwhen = 'kind = \"http\"'\ndecision = \"deny\"\n"
    );
    let rig = BuiltInRig::configured(&rules, |_| {}).await;
    for path in ["pay", "refund"] {
        let step = format!("{{name: a, timeout: 5s, http: {{url: '{url}/{path}'}}}}");
        rig.apply(&format!("name: {path}\nsteps: [{step}]\n")).await;
        rig.begin(path, path, "ada", json!({})).await;
    }
    rig.until("refund", is("escalated")).await;
    rig.until("pay", is("awaiting_approval")).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    decide(&rig, &inbox(&rig).await[0].name, true).await;
    rig.until("pay", is("completed")).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(
        decisions(&rig, "refund").await,
        [(
            "a".to_owned(),
            "denied by policy rule no-other-calls".to_owned()
        )]
    );
}

fn complete_with(worker: &TestWorker, task: &v1::Task, usage: v1::Usage) {
    worker.say(Said::Completed(v1::TaskCompleted {
        task_token: task.task_token.clone(),
        output: None,
        usage: Some(usage),
    }));
}

#[tokio::test]
async fn a_used_up_budget_refuses_the_next_task() {
    for (budget, message) in [
        (
            "maxTokens: 1000",
            "the execution has used 1200 of at most 1000 tokens",
        ),
        ("maxCost: 2.5", "the execution has cost 2.75 of at most 2.5"),
    ] {
        let rig = BuiltInRig::configured("", |_| {}).await;
        rig.apply(&format!("{DEPLOY}{budget}\n")).await;
        let mut worker = rig.work(offer("w")).await.unwrap();
        rig.begin("deploy", "d1", "ada", json!({})).await;
        let task = worker.task().await;
        let usage = v1::Usage {
            input_token_count: 1_000,
            output_token_count: 200,
            cost_micros: 2_750_000,
        };
        complete_with(&worker, &task, usage);
        rig.until("d1", is("escalated")).await;
        gets_nothing(&mut worker).await;
        let error = execution(&rig, "d1").await.last_error.expect("an error");
        assert_eq!(
            (error.category().label(), error.native_code.as_str()),
            ("governance", "budget_exceeded")
        );
        assert_eq!(
            (error.message.as_str(), error.step.as_str()),
            (message, "promote")
        );
        // A person who may decide about the step lets its next attempt run.
        resolve(&rig, 1, Action::Resume, "").await;
        let task = worker.task().await;
        assert_eq!((&*task.step, task.attempt), ("promote", 2));
    }
}

#[tokio::test]
async fn a_used_up_budget_of_a_step_refuses_its_next_attempt() {
    let rig = BuiltInRig::configured("", |_| {}).await;
    let definition = "name: ask\nsteps:\n  - {name: a, agent: builder, timeout: 5m, maxCost: 1, \
                      retryPolicy: {maxRetries: 3, initialDelay: 1ms, maxDelay: 1ms}}\n";
    rig.apply(definition).await;
    let mut worker = rig.work(offer("w")).await.unwrap();
    rig.begin("ask", "a1", "ada", json!({})).await;
    let task = worker.task().await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: task.task_token,
        category: v1::ErrorCategory::Transient.into(),
        usage: Some(v1::Usage {
            cost_micros: 1_000_000,
            ..v1::Usage::default()
        }),
        ..v1::TaskFailed::default()
    }));
    rig.until("a1", is("escalated")).await;
    let error = execution(&rig, "a1").await.last_error.expect("an error");
    assert_eq!(error.message, "the step has cost 1 of at most 1");
    assert_eq!(error.native_code, "budget_exceeded");
}

#[tokio::test]
async fn a_used_up_budget_starts_no_child() {
    let rig = BuiltInRig::configured("", |_| {}).await;
    rig.apply("name: kid\nsteps: [{name: k, agent: builder, timeout: 5m}]\n")
        .await;
    let parent = "name: parent\nmaxTokens: 1000\nsteps:\n  - {name: a, agent: builder, timeout: \
                  5m}\n  - {name: c, workflow: kid, timeout: 5m, dependsOn: [a]}\n";
    rig.apply(parent).await;
    let mut worker = rig.work(offer("w")).await.unwrap();
    rig.begin("parent", "p1", "ada", json!({})).await;
    let task = worker.task().await;
    let usage = v1::Usage {
        input_token_count: 1_000,
        ..v1::Usage::default()
    };
    complete_with(&worker, &task, usage);
    rig.until("p1", is("escalated")).await;
    gets_nothing(&mut worker).await;
    let shown = execution(&rig, "p1").await;
    let error = shown.last_error.expect("an error");
    assert_eq!(
        (error.step.as_str(), error.native_code.as_str()),
        ("c", "budget_exceeded")
    );
}

#[tokio::test]
async fn a_steps_budget_counts_what_the_step_cost_before_retry_from() {
    let rig = BuiltInRig::configured("", |_| {}).await;
    let definition = "name: ask\nsteps: [{name: a, agent: builder, timeout: 5m, maxTokens: 100}]\n";
    rig.apply(definition).await;
    let mut worker = rig.work(offer("w")).await.unwrap();
    rig.begin("ask", "a1", "ada", json!({})).await;
    for _ in 0..2 {
        let task = worker.task().await;
        worker.say(Said::Failed(v1::TaskFailed {
            task_token: task.task_token,
            category: v1::ErrorCategory::AgentError.into(),
            usage: Some(v1::Usage {
                input_token_count: 50,
                ..v1::Usage::default()
            }),
            ..v1::TaskFailed::default()
        }));
        rig.until("a1", is("failed")).await;
        rig.retry_from("a1", "a", "eve").await;
    }
    rig.until("a1", is("escalated")).await;
    gets_nothing(&mut worker).await;
    let error = execution(&rig, "a1").await.last_error.expect("an error");
    assert_eq!(error.message, "the step has used 100 of at most 100 tokens");
}

const fn choice(grant: bool) -> v1::decide_approval_request::Choice {
    if grant {
        v1::decide_approval_request::Choice::Grant
    } else {
        v1::decide_approval_request::Choice::Reject
    }
}
