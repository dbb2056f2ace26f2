//! One step.

use super::fields::Fields;
use super::{StepPlaces, budget, escalation, http, policy, template, value};
use crate::definition::{Approval, OnFailure, OnTimeout, StepKind};
use crate::diagnostic::{Position, Problems};
use crate::limits::{MAX_CORRECTIONS, MAX_HAND_OUTS};
use crate::rule::Rule;
use crate::shape::{APPROVAL, STEP};
use crate::source::{Node, NodeValue};
use crate::{Condition, Reference, Step};

/// The blocks that say what a step does. Without any of them it is a task.
const BLOCKS: [&str; 5] = ["http", "sleep", "signal", "approval", "workflow"];
/// Fields that only a task has.
const TASK_FIELDS: [&str; 7] = [
    "agent",
    "action",
    "skill",
    "modelPolicy",
    "maxHandOuts",
    "maxCost",
    "maxTokens",
];
/// Blocks whose steps never wait for a worker or a free slot.
const UNQUEUED_BLOCKS: [&str; 4] = ["sleep", "signal", "approval", "workflow"];
/// Other spellings of `onFailure` that are accepted.
const FAILURE_WORDS: [(&str, OnFailure); 3] = [
    ("fail_workflow", OnFailure::Abort),
    ("pause_workflow", OnFailure::Pause),
    ("continue", OnFailure::Skip),
];

pub(super) fn step(node: &Node, problems: &mut Problems) -> Option<(Step, StepPlaces)> {
    let fields = Fields::read(node, &STEP, problems)?;
    let mut places = StepPlaces {
        name: fields.get("name").map_or(node.at, |node| node.at),
        timeout: fields.place("timeout").unwrap_or(node.at),
        then: fields.place("then").unwrap_or(node.at),
        output_schema: fields.place("outputSchema").unwrap_or(node.at),
        ..StepPlaces::default()
    };
    let step = Step {
        // A step without a name was reported; it stays, so that its other fields are checked too.
        name: fields.name("name", problems).unwrap_or_default(),
        kind: kind(&fields, node, &mut places, problems),
        depends_on: depends_on(&fields, &mut places, problems),
        when: when(&fields, &mut places, problems),
        input: fields
            .get("input")
            .and_then(|node| template(node, &mut places.references, problems)),
        timeout: fields.duration("timeout", problems),
        queue_timeout: fields.duration("queueTimeout", problems),
        max_hand_outs: fields
            .get("maxHandOuts")
            .and_then(|node| value::number(node, "maxHandOuts", 1..=MAX_HAND_OUTS, problems)),
        heartbeat_timeout: fields.duration("heartbeatTimeout", problems),
        retry_policy: fields
            .get("retryPolicy")
            .and_then(|node| policy::retry(node, problems)),
        on_failure: fields.word("onFailure", &FAILURE_WORDS, problems),
        then: fields.word("then", &[], problems),
        escalation: escalation(&fields, problems),
        budget: budget::budget(&fields, problems),
        on_timeout: fields
            .word("onTimeout", &[], problems)
            .unwrap_or(OnTimeout::Fail),
        output_schema: fields.get("outputSchema").map(Node::to_json),
        max_correction_attempts: fields
            .count("maxCorrectionAttempts", MAX_CORRECTIONS, problems)
            .unwrap_or_default(),
        read_only: fields.flag("readOnly", problems).unwrap_or_default(),
    };
    Some((step, places))
}

fn kind(
    fields: &Fields<'_>,
    node: &Node,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> StepKind {
    let blocks: Vec<&str> = BLOCKS
        .into_iter()
        .filter(|block| fields.has(block))
        .collect();
    let said = fields.text("kind", problems);
    if let [first, second, ..] = blocks[..] {
        let at = fields.place(second).unwrap_or(node.at);
        let hint = "Split it into two steps, and list the first one in `dependsOn` of the second.";
        problems.error(
            Rule::StepKind,
            at,
            format!("a step is both `{first}` and `{second}`"),
            hint,
        );
    }
    let block = blocks.first().copied();
    check_said(said.as_deref(), block, fields, node, problems);
    if let Some(block) = block {
        check_task_fields(block, fields, node, problems);
        check_queue_timeout(block, fields, node, problems);
    }
    block
        .and_then(|block| of_block(block, fields, places, problems))
        .unwrap_or_else(|| task(fields, problems))
}

fn check_task_fields(block: &str, fields: &Fields<'_>, node: &Node, problems: &mut Problems) {
    for extra in TASK_FIELDS.into_iter().filter(|field| fields.has(field)) {
        let at = fields.place(extra).unwrap_or(node.at);
        let hint = format!("Remove `{extra}`, or `{block}` to make the step a task.");
        problems.error(
            Rule::StepKind,
            at,
            format!("a `{block}` step has no `{extra}`"),
            hint,
        );
    }
}

fn check_queue_timeout(block: &str, fields: &Fields<'_>, node: &Node, problems: &mut Problems) {
    if UNQUEUED_BLOCKS.contains(&block) && fields.has("queueTimeout") {
        problems.error(
            Rule::Contradiction,
            fields.place("queueTimeout").unwrap_or(node.at),
            format!("a `{block}` step never waits for a worker"),
            "Remove `queueTimeout`, or use `timeout`.",
        );
    }
}

fn check_said(
    said: Option<&str>,
    block: Option<&str>,
    fields: &Fields<'_>,
    node: &Node,
    problems: &mut Problems,
) {
    let Some(said) = said else { return };
    let at = fields.get("kind").map_or(node.at, |node| node.at);
    if said != "task" && !BLOCKS.contains(&said) {
        let hint = format!("Use one of: task, {}.", BLOCKS.join(", "));
        problems.error(
            Rule::UnknownWord,
            at,
            format!("`{said}` is not a step kind"),
            hint,
        );
    } else if said != block.unwrap_or("task") {
        let hint = format!("Add a `{said}:` block, or change `kind`.");
        let message = format!(
            "`kind` is `{said}`, but the step is of kind `{}`",
            block.unwrap_or("task")
        );
        problems.error(Rule::StepKind, at, message, hint);
    }
}

fn task(fields: &Fields<'_>, problems: &mut Problems) -> StepKind {
    StepKind::Task {
        agent: fields.text("agent", problems).unwrap_or_default(),
        action: fields.text("action", problems).unwrap_or_default(),
        skill: fields.text("skill", problems).unwrap_or_default(),
        model_policy: fields.text("modelPolicy", problems).unwrap_or_default(),
    }
}

fn of_block(
    block: &str,
    fields: &Fields<'_>,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> Option<StepKind> {
    let node = fields.get(block)?;
    match block {
        "http" => http::http(node, places, problems),
        "sleep" => Some(StepKind::Sleep {
            lasts: value::duration(node, block, problems)?,
        }),
        "signal" => Some(StepKind::Signal {
            name: value::name(node, block, problems)?,
        }),
        "approval" => approval(node, problems).map(StepKind::Approval),
        _ => Some(StepKind::Workflow {
            definition: value::name(node, block, problems)?,
        }),
    }
}

fn approval(node: &Node, problems: &mut Problems) -> Option<Approval> {
    let fields = Fields::read(node, &APPROVAL, problems)?;
    let on_expiry = fields.get("onExpiry");
    let approves = on_expiry.is_some_and(|node| {
        matches!(&node.value, NodeValue::Text(text) if text.starts_with("approve") || text == "grant")
    });
    if approves {
        let at = on_expiry.map_or(node.at, |node| node.at);
        let hint = "Use `escalate`, `fail` or `cancel`.";
        problems.error(
            Rule::ApprovalByTimeout,
            at,
            "a timeout cannot grant an approval",
            hint,
        );
        return None;
    }
    Some(Approval {
        role: fields.name("role", problems)?,
        expires_after: fields.duration("expiresAfter", problems),
        on_expiry: fields.word("onExpiry", &[], problems).unwrap_or_default(),
        on_reject: fields.word("onReject", &[], problems).unwrap_or_default(),
    })
}

fn depends_on(
    fields: &Fields<'_>,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> Vec<String> {
    let mut names = Vec::new();
    for node in fields.list("dependsOn", problems) {
        if let Some(name) = value::name(node, "dependsOn", problems) {
            names.push(name);
            places.depends_on.push(node.at);
        }
    }
    names
}

fn when(
    fields: &Fields<'_>,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> Option<Condition> {
    let node = fields.get("when")?;
    let source = fields.text("when", problems)?;
    match Condition::parse(&source) {
        Ok(condition) => {
            places
                .conditions
                .extend(located(&condition.references(), node.at));
            Some(condition)
        }
        Err(reason) => {
            let hint = "Compare references and values: `${steps.check.output.ok} == true && \
                        ${input.total} > 100`.";
            problems.error(Rule::BadCondition, node.at, reason, hint);
            None
        }
    }
}

fn located(references: &[&Reference], at: Position) -> Vec<(Reference, Position)> {
    references
        .iter()
        .map(|reference| ((*reference).clone(), at))
        .collect()
}
