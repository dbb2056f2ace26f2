//! Steps: what a description shows as pending, and what the history shows of timers and of steps that
//! ended. Pure.

mod pending;

use std::collections::BTreeMap;

use stateway_model::{ExecutionId, RetryBasis, Wait, WaitKind};
use stateway_provider_api::{NativeState, RetryEvidence, RetryPhase, StepObservation};

use crate::api::enums::v1::WorkflowExecutionStatus;
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::facts::{Activity, Child, Ended, Facts, Timer};
use crate::id::is_uuid;
use crate::qualifier::{KIND, NEXT_ATTEMPT, RETRY_STATE};
use crate::task_queue::Queues;

/// The most steps that are shown after their end, newest first.
const MOST_ENDED: usize = 100;

/// The name of the step that stands for the workflow's own code.
pub(crate) const WORKFLOW_TASK: &str = "workflow-task";

/// The steps of an open run: pending ones from the description, the others from the history.
pub(crate) fn open_run(
    described: &DescribeWorkflowExecutionResponse,
    facts: &Facts,
    queues: &Queues,
) -> Vec<StepObservation> {
    let mut steps = from_history(facts, |ended| ended.is_some());
    // A paused workflow holds its tasks back: they do not wait for a worker.
    let info = described.workflow_execution_info.as_ref();
    let is_paused = info.is_some_and(|it| it.status() == WorkflowExecutionStatus::Paused);
    // What is pending and not in the window comes last.
    let mut unplaced = i64::MAX / 2;
    for pending in &described.pending_activities {
        let place = facts.open_activity(&pending.activity_id);
        let place = place.unwrap_or_else(|| {
            unplaced += 1;
            unplaced
        });
        let mut step = pending::activity(pending, queues);
        if is_paused {
            step.waits.clear();
        }
        steps.insert(place, step);
    }
    for pending in &described.pending_children {
        let known = facts.children.get(&pending.initiated_id);
        let since = known.and_then(|child| child.since);
        steps.insert(pending.initiated_id, pending::child(pending, since));
    }
    for (event, open) in facts.timers.iter().filter(|(_, it)| it.ended.is_none()) {
        steps.insert(*event, timer(open));
    }
    let task = described.pending_workflow_task.as_ref();
    let task = task.map(|task| {
        let mut step = pending::workflow_task(task, described, facts, queues);
        if is_paused {
            step.waits.clear();
        }
        step
    });
    distinct(steps.into_values().chain(task).collect())
}

/// The steps of a run that is over. What was open then is shown as the history left it.
pub(crate) fn closed_run(facts: &Facts) -> Vec<StepObservation> {
    distinct(from_history(facts, |_| true).into_values().collect())
}

fn from_history(
    facts: &Facts,
    is_wanted: impl Fn(Option<&Ended>) -> bool,
) -> BTreeMap<i64, StepObservation> {
    let mut steps = BTreeMap::new();
    for (event, it) in &facts.activities {
        if is_wanted(it.ended.as_ref()) {
            steps.insert(*event, activity(it));
        }
    }
    for (event, it) in &facts.timers {
        if is_wanted(it.ended.as_ref()) {
            steps.insert(*event, timer(it));
        }
    }
    for (event, it) in &facts.children {
        if is_wanted(it.ended.as_ref()) {
            steps.insert(*event, child(it));
        }
    }
    while steps.len() > MOST_ENDED {
        steps.pop_first();
    }
    steps
}

fn activity(of: &Activity) -> StepObservation {
    let mut step = ended_step(
        activity_name(&of.id, &of.kind),
        "activity",
        of.ended.as_ref(),
        {
            if of.started.is_some() {
                "STARTED"
            } else {
                "SCHEDULED"
            }
        },
    );
    step.start_time = of.started;
    let phase = match &of.ended {
        Some(ended) if ended.error.is_some() => RetryPhase::Exhausted,
        _ => RetryPhase::UnderWay,
    };
    step.retry = Some(RetryEvidence {
        phase,
        last_error: step.last_error.clone(),
        ..RetryEvidence::reported(of.attempt)
    });
    step
}

fn child(of: &Child) -> StepObservation {
    let name = child_name(&of.workflow_id);
    let mut step = ended_step(name, "child", of.ended.as_ref(), "STARTED");
    step.start_time = of.since;
    step.child = ExecutionId::new(&of.workflow_id).ok();
    step
}

fn timer(of: &Timer) -> StepObservation {
    if let (Some(local), None) = (&of.retries, &of.ended) {
        let native = NativeState::new("STARTED")
            .with(KIND, "local-activity")
            .with(NEXT_ATTEMPT, "set");
        let mut step = StepObservation::new(local.name.clone(), native);
        step.last_error = Some(local.error.clone());
        step.retry = Some(RetryEvidence {
            phase: RetryPhase::BetweenAttempts,
            next_attempt_time: of.fires,
            last_error: Some(local.error.clone()),
            basis: RetryBasis::Inferred,
            ..RetryEvidence::reported(local.attempt)
        });
        return step;
    }
    let name = format!("timer:{}", of.id);
    let mut step = ended_step(name, "timer", of.ended.as_ref(), "STARTED");
    step.start_time = of.since;
    if of.ended.is_none() {
        step.waits = vec![Wait {
            since: of.since,
            deadline: of.fires,
            detail: of.summary.clone().unwrap_or_default(),
            ..Wait::new(WaitKind::Timer, of.id.clone())
        }];
    }
    if let Some(summary) = &of.summary {
        step.notes.push(summary.clone());
    }
    step
}

fn ended_step(name: String, kind: &str, ended: Option<&Ended>, open_word: &str) -> StepObservation {
    let word = ended.map_or(open_word, |ended| ended.word);
    let mut native = NativeState::new(word).with(KIND, kind);
    if let Some(state) = ended.and_then(|ended| ended.retry_state.as_ref()) {
        native = native.with(RETRY_STATE, state.clone());
    }
    let mut step = StepObservation::new(name, native);
    step.end_time = ended.and_then(|ended| ended.at);
    step.last_error = ended.and_then(|ended| ended.error.clone());
    step
}

/// The name of an activity's step: its id, with its type where the SDK made up the id.
pub(crate) fn activity_name(id: &str, kind: &str) -> String {
    let made_up = id.bytes().all(|byte| byte.is_ascii_digit()) || is_uuid(id);
    if made_up && !kind.is_empty() {
        format!("{kind}#{id}")
    } else {
        id.to_owned()
    }
}

/// The name of a child's step.
pub(crate) fn child_name(workflow_id: &str) -> String {
    format!("child:{workflow_id}")
}

/// Names are unique within an execution; an activity id may be used again after its end.
fn distinct(mut steps: Vec<StepObservation>) -> Vec<StepObservation> {
    let mut uses: BTreeMap<String, u32> = BTreeMap::new();
    // The newest use keeps the name, because it is the one to act on.
    for step in steps.iter_mut().rev() {
        let times = uses.entry(step.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            step.name = format!("{}~{times}", step.name);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_the_sdk_made_up_is_shown_with_the_type() {
        assert_eq!(activity_name("charge", "flaky"), "charge");
        assert_eq!(activity_name("7", "flaky"), "flaky#7");
        let uuid = "01a1e1af-a730-7a2f-9258-5d9e1c37b7b5";
        assert_eq!(activity_name(uuid, "flaky"), format!("flaky#{uuid}"));
        assert_eq!(activity_name("7", ""), "7");
    }

    #[test]
    fn the_newest_step_keeps_a_name_that_is_used_twice() {
        let step = |word: &str| StepObservation::new("pay", NativeState::new(word));
        let steps = distinct(vec![step("COMPLETED"), step("STARTED")]);
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["pay~2", "pay"]);
    }
}
