//! Hand-outs, lost workers, policy decisions and budgets in a shadow.

use std::sync::Arc;
use std::time::Duration;

use stateway_machine::{Event, Fact, PolicyDecision, Resolution, StepTimer, Task, Verb, later};
use stateway_replay::rederive;

use super::{BUDGET, costs, differences, open, shadow};
use crate::kit::Run;

#[test]
fn a_shorter_queue_timeout_than_the_wait_for_a_worker_fails_the_attempt() {
    let source = "name: one\nsteps: [{name: a, queueTimeout: 10m, onFailure: skip, \
                  retryPolicy: {maxRetries: 0}}]";
    let mut run = Run::started(source);
    run.wait(Duration::from_secs(120));
    run.assign("a", "w1");
    run.release("a");
    run.wait(Duration::from_secs(120));
    run.assign("a", "w2");
    run.done("a");
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    let found = shadow(&run, &source.replace("10m", "1m"));
    assert_eq!(
        differences(&found)[0],
        "path @8 a: completed | no worker took it, skipped (failure)"
    );
}

#[test]
fn each_wait_for_a_worker_has_a_timer_of_its_own() {
    let source = "name: one\nsteps: [{name: a, queueTimeout: 1m, onFailure: skip, \
                  retryPolicy: {maxRetries: 0}}]";
    let mut run = Run::started(source);
    // The first timer is due and does not fire before a worker takes the task; the second does.
    run.wait(Duration::from_secs(90));
    run.assign("a", "w1");
    run.release("a");
    run.fire("a", StepTimer::Queue);
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
}

#[test]
fn lost_workers_are_lost_again_and_fewer_may_be_lost() {
    let source = "name: one\nsteps: [{name: a, maxHandOuts: 3, heartbeatTimeout: 1m, \
                  onFailure: skip, retryPolicy: {maxRetries: 0}}]";
    let mut run = Run::started(source);
    run.assign("a", "w1");
    run.lose("a");
    run.assign("a", "w2");
    // This worker is lost because it is silent.
    run.fire("a", StepTimer::Heartbeat);
    run.assign("a", "w3");
    run.done("a");
    let same = shadow(&run, source);
    assert_eq!(differences(&same), [""; 0]);
    let workers = |events: &[Event]| -> Vec<Arc<str>> {
        let taken = events.iter().filter_map(|event| match &event.fact {
            Fact::TaskAssigned { worker, .. } => Some(Arc::clone(worker)),
            _ => None,
        });
        taken.collect()
    };
    assert_eq!(workers(&same.events), workers(&run.events));
    let found = shadow(&run, &source.replace("maxHandOuts: 3", "maxHandOuts: 2"));
    assert_eq!(
        differences(&found)[0],
        "path @10 a: completed | workers lost, skipped (failure)"
    );
    // With more workers than were lost, the recording ends before another one takes the task.
    let mut run = Run::started(&source.replace("maxHandOuts: 3", "maxHandOuts: 1"));
    run.assign("a", "w1");
    run.lose("a");
    let found = shadow(&run, source);
    assert_eq!(open(&found), ["`a`, attempt 1: no answer is recorded"]);
}

#[test]
fn policy_rules_decide_as_they_did() {
    let source = "name: one\nsteps: [{name: a}, {name: b, dependsOn: [a], onFailure: skip}]";
    let mut run = Run::started(source);
    let due = run.now + Duration::from_secs(600);
    let (role, task) = (Arc::from("boss"), run.task("a"));
    run.ok(Verb::DecidePolicy {
        task,
        rule: "spending".into(),
        decision: PolicyDecision::RequireApproval {
            role,
            due: Some(due),
        },
    });
    run.wait(Duration::from_secs(60));
    run.vote("a", 1, true, "eve").unwrap();
    run.assign("a", "w1");
    run.done("a");
    run.ok(Verb::DecidePolicy {
        task: Task::of("b", 1),
        rule: "night".into(),
        decision: PolicyDecision::Deny { message: "".into() },
    });
    let same = shadow(&run, source);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(
        same.steps[0].derived,
        "attempt 1, needs an approval by boss (spending), granted, completed"
    );
    assert_eq!(
        same.steps[1].derived,
        "attempt 1, denied by policy, escalated"
    );
    // The request stands as long in a shadow that asks later.
    let source = "name: one\nsteps: [{name: z, sleep: 1h}, {name: a, dependsOn: [z]}, \
                  {name: b, dependsOn: [a]}]";
    let asked = shadow(&run, source);
    let expires = asked.events.iter().find_map(|event| match &event.fact {
        Fact::PolicyDecided {
            decision: PolicyDecision::RequireApproval { due, .. },
            ..
        } => Some((*due)? - event.at),
        _ => None,
    });
    assert_eq!(expires.unwrap().get_seconds(), 600);
}

#[test]
fn a_smaller_budget_stops_the_shadow_where_it_is_used_up() {
    let mut run = Run::started(BUDGET);
    run.assign("a", "w1");
    costs(&mut run, "a", 3);
    run.assign("b", "w1");
    costs(&mut run, "b", 1);
    assert_eq!(differences(&shadow(&run, BUDGET)), [""; 0]);
    let found = shadow(&run, &BUDGET.replace("maxCost: 5", "maxCost: 3"));
    assert_eq!(
        differences(&found)[0],
        "path @11 b: completed | budget used up, escalated"
    );
    // A worker that was refused the task is refused again.
    let mut run = Run::started(&BUDGET.replace("maxCost: 5", "maxCost: 3"));
    run.assign("a", "w1");
    costs(&mut run, "a", 3);
    run.assign("b", "w1");
    let same = rederive(&run.plan, &run.events, &run.plan).unwrap();
    assert_eq!(differences(&same), [""; 0]);
}

#[test]
fn timeouts_stand_still_during_a_pause_in_both() {
    let source = "name: one\nsteps: [{name: a, timeout: 10m, onFailure: skip}]";
    let mut run = Run::started(source);
    run.assign("a", "w1");
    run.wait(Duration::from_secs(300));
    run.pause();
    run.wait(Duration::from_secs(3_600));
    run.resume();
    run.wait(Duration::from_secs(200));
    run.done("a");
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    let found = shadow(&run, &source.replace("10m", "6m"));
    assert_eq!(
        differences(&found)[0],
        "path @8 a: completed | timed out, skipped (failure)"
    );
}

#[test]
fn a_shorter_timeout_than_an_answer_took_is_a_timeout() {
    let source = "name: one\nsteps: [{name: a, timeout: 10m, onFailure: skip}]";
    let mut run = Run::started(source);
    // The wait for a worker does not count.
    run.wait(Duration::from_secs(600));
    run.assign("a", "w1");
    run.wait(Duration::from_secs(120));
    run.done("a");
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    let found = shadow(&run, &source.replace("10m", "1m"));
    assert_eq!(
        differences(&found)[0],
        "path @6 a: completed | timed out, skipped (failure)"
    );
    // With a longer timeout the attempt stays open: the recording does not say how it ends.
    let mut run = Run::started(source);
    run.assign("a", "w1");
    run.fire("a", StepTimer::Timeout);
    let found = shadow(&run, &source.replace("10m", "20m"));
    assert_eq!(open(&found), ["`a`, attempt 1: no answer is recorded"]);
}

#[test]
fn an_expired_approval_is_asked_for_again_as_it_was() {
    let source = "name: one\nsteps: [{name: a}]";
    let mut run = Run::started(source);
    run.ok(Verb::DecidePolicy {
        task: Task::of("a", 1),
        rule: "spending".into(),
        decision: PolicyDecision::RequireApproval {
            role: "boss".into(),
            due: Some(later(run.now, Duration::from_secs(60))),
        },
    });
    run.fire("a", StepTimer::Expiry);
    run.wait(Duration::from_secs(30));
    run.resolve("a", Resolution::Resume);
    run.wait(Duration::from_secs(30));
    run.vote("a", 2, true, "bob").unwrap();
    run.assign("a", "w");
    run.done("a");
    let same = shadow(&run, source);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(same.derived_outcome, "completed with {\"a\":{}}");
}

#[test]
fn a_child_that_the_budget_refused_is_refused_again() {
    let source = "name: one\nmaxTokens: 10\nsteps: [{name: a}, {name: kid, workflow: child, \
                  dependsOn: [a]}]";
    let mut run = Run::started(source);
    run.assign("a", "w");
    run.ok(Verb::CompleteTask {
        task: Task::of("a", 1),
        output: serde_json::json!({}).into(),
        usage: Some(stateway_model::Usage {
            input_tokens: 10,
            ..stateway_model::Usage::default()
        }),
    });
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
}
