//! Warnings: settings that are allowed and probably not meant.

use crate::decode::{Draft, StepPlaces};
use crate::definition::{OnTimeout, StepKind};
use crate::diagnostic::Problems;
use crate::limits::MANY_STEPS;
use crate::rule::Rule;
use crate::{Definition, Step};

pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    let steps = &draft.definition.steps;
    if steps.len() > MANY_STEPS {
        problems.warning(
            Rule::ManySteps,
            draft.steps[MANY_STEPS].name,
            format!("the workflow has {} steps", steps.len()),
            "Use at most ten steps, and call other definitions with `workflow:` steps.",
        );
    }
    for (step, places) in steps.iter().zip(&draft.steps) {
        step_lints(step, places, &draft.definition, problems);
    }
}

fn step_lints(step: &Step, places: &StepPlaces, workflow: &Definition, problems: &mut Problems) {
    let name = &step.name;
    if can_hang(step) {
        let rest = if workflow.timeout.is_some() {
            "only the workflow's timeout ends it"
        } else {
            "it can hang forever"
        };
        let field = if matches!(step.kind, StepKind::Approval(_)) {
            "expiresAfter"
        } else {
            "timeout"
        };
        problems.warning(
            Rule::MissingTimeout,
            places.name,
            format!("`{name}` has no timeout: {rest}"),
            format!("Add `{field}`, for example `{field}: 5m`."),
        );
    }
    if matches!(&step.kind, StepKind::Task { agent, .. } if agent.is_empty()) {
        problems.warning(
            Rule::MissingAgent,
            places.name,
            format!("`{name}` names no agent: any worker may take it"),
            "Add `agent` with the role that should do it.",
        );
    }
    waits_for_itself(step, places, workflow, problems);
    ignored_timeout(step, places, problems);
    contradictions(step, places, workflow, problems);
}

fn can_hang(step: &Step) -> bool {
    match &step.kind {
        StepKind::Sleep { .. } => false,
        StepKind::Approval(approval) => approval.expires_after.is_none() && step.timeout.is_none(),
        _ => step.timeout.is_none(),
    }
}

/// A child of the same definition waits for a slot while its parent has one and waits for the child.
fn waits_for_itself(
    step: &Step,
    places: &StepPlaces,
    workflow: &Definition,
    problems: &mut Problems,
) {
    let (Some(name), Some(most)) = (&workflow.name, workflow.concurrency) else {
        return;
    };
    if !matches!(&step.kind, StepKind::Workflow { definition } if definition == name) {
        return;
    }
    problems.warning(
        Rule::WaitsForItself,
        places.name,
        format!(
            "`{}` starts `{name}` again, and at most {most} executions of `{name}` run at a time: a child \
             can wait for its own parent forever",
            step.name
        ),
        "Remove `concurrency`, or move the limited part to a definition of its own.",
    );
}

/// A timeout that nothing applies.
fn ignored_timeout(step: &Step, places: &StepPlaces, problems: &mut Problems) {
    let (why, hint) = match &step.kind {
        _ if step.timeout.is_none() => return,
        StepKind::Sleep { .. } => ("a sleep ends by itself", "Remove it."),
        StepKind::Approval(approval) if approval.expires_after.is_some() => (
            "`expiresAfter` decides",
            "Remove one of the two; `timeout` counts where `expiresAfter` is not given.",
        ),
        _ => return,
    };
    let message = format!("`timeout` of `{}` has no effect: {why}", step.name);
    problems.warning(Rule::Contradiction, places.timeout, message, hint);
}

fn contradictions(
    step: &Step,
    places: &StepPlaces,
    workflow: &Definition,
    problems: &mut Problems,
) {
    let mut useless = |what: &str, hint: &str| {
        let message = format!("`{}`: {what}", step.name);
        problems.warning(Rule::Contradiction, places.name, message, hint);
    };
    let judged = step.max_correction_attempts > 0 || step.output_schema.is_some();
    if judged && !step.kind.answers() {
        useless(
            "a step of this kind has no output to validate",
            "Remove `outputSchema` and `maxCorrectionAttempts`.",
        );
    }
    if step.max_correction_attempts > 0 && matches!(step.kind, StepKind::Workflow { .. }) {
        useless(
            "the output of a child execution is not corrected",
            "Remove `maxCorrectionAttempts`, or set it in the child's own steps.",
        );
    }
    if step.heartbeat_timeout.is_some() && !matches!(step.kind, StepKind::Task { .. }) {
        useless(
            "`heartbeatTimeout` is only for tasks",
            "Remove it, or use `timeout`.",
        );
    }
    if step.on_timeout == OnTimeout::Escalate
        && step.timeout.is_none()
        && !can_time_out_in_queue(step, workflow)
    {
        useless(
            "`onTimeout` has no effect without a timeout",
            "Add `timeout` or `queueTimeout`.",
        );
    }
}

fn can_time_out_in_queue(step: &Step, workflow: &Definition) -> bool {
    let queued = matches!(step.kind, StepKind::Task { .. } | StepKind::Http { .. });
    queued && step.queue_timeout.or(workflow.queue_timeout).is_some()
}
