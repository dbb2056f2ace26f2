//! Policy and budgets: what is decided before a task is handed out, and that it is decided once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use stateway_engine::{Decide, Policy, PolicyQuestion, PolicyVerdict, Ruling};
use stateway_machine::{ExecutionState, Fact, PolicyDecision};
use stateway_model::{ErrorCategory, Reason, SubState, Usage};

use crate::lab::Lab;
use crate::time::pass;

const SECOND: i64 = 1_000;
const ONE: &str = "name: one\nsteps: [{name: a, agent: x, timeout: 1h}]";

/// One rule for everything, which counts how often it is asked and can be changed.
#[derive(Debug, Default)]
struct OneRule {
    verdict: Mutex<Option<PolicyVerdict>>,
    asked: AtomicU32,
}

impl OneRule {
    fn new(verdict: PolicyVerdict) -> Arc<Self> {
        Arc::new(Self {
            verdict: Mutex::new(Some(verdict)),
            asked: AtomicU32::new(0),
        })
    }

    fn is_now(&self, verdict: Option<PolicyVerdict>) {
        *self.verdict.lock().unwrap() = verdict;
    }
}

impl Policy for OneRule {
    fn decide(&self, _: &PolicyQuestion<'_>) -> Option<Ruling> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let verdict = self.verdict.lock().unwrap().clone()?;
        let rule = "the-rule".into();
        Some(Ruling { rule, verdict })
    }
}

fn approval(expires_after: Option<Duration>) -> PolicyVerdict {
    PolicyVerdict::RequireApproval {
        role: "managers".into(),
        expires_after,
    }
}

fn lab(rule: &Arc<OneRule>) -> Lab {
    let rule = Arc::clone(rule);
    Lab::with(|config| config.policy = Some(rule))
}

async fn decide(lab: &Lab, id: &Arc<str>, grant: bool) {
    let decide = Decide {
        step: "a".into(),
        attempt: 1,
        branch: None,
        grant,
        roles: vec!["managers".into()],
        comment: "".into(),
    };
    let request = lab.key(7);
    let decided = lab
        .engine
        .decide(id.clone(), decide, "bea".into(), request)
        .await;
    decided.unwrap();
}

async fn decisions(lab: &Lab, id: &Arc<str>) -> Vec<PolicyDecision> {
    let history = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    let facts = history.into_iter().map(|record| record.event.fact);
    let decisions = facts.filter_map(|fact| match fact {
        Fact::PolicyDecided { rule, decision, .. } => {
            assert_eq!(&*rule, "the-rule");
            Some(decision)
        }
        _ => None,
    });
    decisions.collect()
}

/// How many times a task was handed out.
async fn hand_outs(lab: &Lab, id: &Arc<str>) -> usize {
    let history = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    let assigned = |fact: &Fact| matches!(fact, Fact::TaskAssigned { .. });
    let facts = history.iter().map(|record| &record.event.fact);
    facts.filter(|fact| assigned(fact)).count()
}

#[tokio::test]
async fn an_allowed_task_is_handed_out_once_and_its_answer_counts() {
    let rule = OneRule::new(PolicyVerdict::Allow);
    let lab = lab(&rule);
    lab.apply(ONE).await;
    let mut worker = lab.worker("w1", &["x"], 2);
    let started = lab.start("one", json!(null)).await;
    let task = worker.task().await;
    worker.done(&task, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    assert_eq!(decisions(&lab, &started.id).await, [PolicyDecision::Allow]);
    assert_eq!(rule.asked.load(Ordering::SeqCst), 1);
    assert_eq!(hand_outs(&lab, &started.id).await, 1);
}

#[tokio::test]
async fn a_denied_task_is_escalated_and_nobody_gets_it() {
    let message = "not on Friday".into();
    let rule = OneRule::new(PolicyVerdict::Deny { message });
    let lab = lab(&rule);
    lab.apply(ONE).await;
    let _worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let view = lab
        .until(&started.id, |view| view.state == ExecutionState::Escalated)
        .await;
    let error = view.last_error.expect("an error");
    assert_eq!(error.category, Some(ErrorCategory::Governance));
    assert_eq!(
        error.message,
        "denied by the policy rule `the-rule`: not on Friday"
    );
    assert_eq!(hand_outs(&lab, &started.id).await, 0);
}

#[tokio::test]
async fn a_task_that_needs_an_approval_is_handed_out_after_it_and_asks_once() {
    let rule = OneRule::new(approval(None));
    let lab = lab(&rule);
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, retryPolicy: {maxRetries: 1, initialDelay: 1ms}}]").await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let asks = ExecutionState::AwaitingApproval;
    lab.until(&started.id, |view| view.state == asks).await;
    assert_eq!(hand_outs(&lab, &started.id).await, 0);
    decide(&lab, &started.id, true).await;
    let task = worker.task().await;
    worker.failed(&task, ErrorCategory::Transient);
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 2, "approved for every attempt");
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
    assert_eq!(decisions(&lab, &started.id).await.len(), 1);
}

#[tokio::test]
async fn a_decision_is_replayed_as_recorded_whatever_the_rules_are_then() {
    let rule = OneRule::new(approval(None));
    let lab = lab(&rule);
    lab.apply(ONE).await;
    let _worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let asks = ExecutionState::AwaitingApproval;
    lab.until(&started.id, |view| view.state == asks).await;
    rule.is_now(None);
    let lab = lab.crash();
    let view = lab.get(&started.id).await;
    assert_eq!(view.state, asks);
    let mut worker = lab.worker("w2", &["x"], 1);
    assert_eq!(hand_outs(&lab, &started.id).await, 0);
    decide(&lab, &started.id, true).await;
    let task = worker.task().await;
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
    assert_eq!(decisions(&lab, &started.id).await.len(), 1);
}

#[tokio::test]
async fn an_approval_that_a_policy_requires_expires_into_an_escalation() {
    let rule = OneRule::new(approval(Some(Duration::from_secs(60))));
    let (mut lab, clock) = Lab::by_hand();
    let with_rule = Arc::clone(&rule);
    lab.config.policy = Some(with_rule);
    let lab = lab.restart();
    lab.apply(ONE).await;
    let _worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let asks = ExecutionState::AwaitingApproval;
    lab.until(&started.id, |view| view.state == asks).await;
    pass(&lab, &clock, 60 * SECOND).await;
    let view = lab.get(&started.id).await;
    assert_eq!(
        (view.state, view.sub_state),
        (ExecutionState::Escalated, SubState::Error)
    );
    let message = view.last_error.expect("an error").message;
    assert_eq!(message, "nobody decided in time");
}

#[tokio::test]
async fn a_compensation_is_not_judged() {
    let rule = OneRule::new(PolicyVerdict::Allow);
    let lab = lab(&rule);
    lab.apply("name: one\nfailurePolicy: compensate\nsteps: [{name: a, agent: x, timeout: 1h}, {name: b, agent: x, timeout: 1h, dependsOn: [a]}]\ncompensation: [{step: a, agent: x}]").await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    rule.is_now(Some(PolicyVerdict::Deny { message: "".into() }));
    worker.failed(&b, ErrorCategory::Validation);
    let undo = worker.task().await;
    assert!(undo.task.undo);
    worker.done(&undo, json!(null));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.reason, Some(Reason::RolledBack));
}

#[tokio::test]
async fn a_used_up_budget_refuses_the_next_hand_out() {
    for (whole, of_b, what) in [
        (
            "maxTokens: 100\n",
            "",
            "the execution has used 120 of at most 100 tokens",
        ),
        (
            "maxCost: 0.5\n",
            "",
            "the execution has cost 0.6 of at most 0.5",
        ),
    ] {
        let lab = Lab::new();
        lab.apply(&format!(
            "name: one\n{whole}steps: [{{name: a, agent: x, timeout: 1h}}, {{name: b, agent: x, timeout: 1h, dependsOn: [a]{of_b}}}]"
        ))
        .await;
        let mut worker = lab.worker("w1", &["x"], 1);
        let started = lab.start("one", json!(null)).await;
        let a = worker.task().await;
        let usage = Usage {
            input_tokens: 100,
            output_tokens: 20,
            cost_micros: 600_000,
        };
        worker.done_with(&a, json!(1), usage);
        let view = lab
            .until(&started.id, |view| view.state == ExecutionState::Escalated)
            .await;
        let error = view.last_error.expect("an error");
        assert_eq!(error.category, Some(ErrorCategory::Governance));
        assert_eq!((&*error.message, &*error.step), (what, "b"));
        assert_eq!(error.native_code, "budget_exceeded");
    }
}

#[tokio::test]
async fn a_used_up_budget_of_a_step_refuses_its_next_attempt() {
    let lab = Lab::new();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, maxTokens: 50, retryPolicy: {maxRetries: 3, initialDelay: 1ms}}]").await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let a = worker.task().await;
    let failure = stateway_machine::Failure::reported(ErrorCategory::Transient, "no");
    let usage = Usage {
        input_tokens: 40,
        output_tokens: 10,
        cost_micros: 0,
    };
    let answers = worker.session.answers();
    let failed = stateway_engine::Outcome::Failed(failure);
    answers.settle(a.token.clone(), failed, Some(usage));
    let view = lab
        .until(&started.id, |view| view.state == ExecutionState::Escalated)
        .await;
    let error = view.last_error.expect("an error");
    assert_eq!(error.message, "the step has used 50 of at most 50 tokens");
    assert_eq!(error.native_code, "budget_exceeded");
}
