//! Where two accounts differ, in words.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::account::{Account, Leg, LegKind, StepAccount};
use super::drive::Driven;
use super::{Divergence, DivergenceKind, StepRow};
use stateway_machine::{ExecutionState, Fact, Plan};

/// The longest value that is shown whole.
const LONGEST_SHOWN: usize = 120;

/// Both sides of a comparison.
pub(super) struct Sides<'a> {
    pub(super) was: &'a Account,
    pub(super) is: &'a Account,
    pub(super) old: &'a Plan,
    pub(super) new: &'a Plan,
    pub(super) driven: &'a Driven,
}

/// Every step that either side has, in the order of the recorded run.
pub(super) fn rows(sides: &Sides<'_>) -> Vec<StepRow> {
    let mut seen = BTreeSet::new();
    let all = sides.was.order.iter().chain(&sides.is.order);
    let all = all.filter(|step| seen.insert(Arc::clone(step)));
    let words = |account: &Account, step: &Arc<str>| {
        let found = account.steps.get(step);
        found.map(StepAccount::words).unwrap_or_default()
    };
    all.map(|step| StepRow {
        step: Arc::clone(step),
        recorded: words(sides.was, step),
        derived: words(sides.is, step),
    })
    .collect()
}

/// Every difference, in the order of the recorded run; the outcome last.
pub(super) fn divergences(sides: &Sides<'_>) -> Vec<Divergence> {
    let paths = sides
        .was
        .steps
        .keys()
        .filter_map(|step| step_path(sides, step));
    let mut paths: Vec<_> = paths.collect();
    // Of what shows at the same event, what the shadow does first comes first.
    paths.sort_by_key(|(derived_at, _)| *derived_at);
    let mut found: Vec<_> = paths
        .into_iter()
        .map(|(_, divergence)| divergence)
        .collect();
    for (step, was) in &sides.was.steps {
        if let Some(is) = sides.is.steps.get(step) {
            found.extend(step_input(step, was, is));
        } else if has(sides.new, step) {
            found.push(Divergence {
                kind: DivergenceKind::Path,
                sequence: was.legs.first().map_or(0, |leg| leg.sequence),
                step: Arc::clone(step),
                recorded: was.words(),
                derived: "never starts".to_owned(),
            });
        }
    }
    found.extend(definitions(sides));
    found.extend(extra_steps(sides));
    found.extend(order(sides));
    found.extend(refused(sides));
    found.sort_by_key(|divergence| divergence.sequence);
    found.extend(outcome(sides));
    found
}

/// Steps that only one of the definitions has.
fn definitions(sides: &Sides<'_>) -> Vec<Divergence> {
    let mut found = Vec::new();
    for step in &sides.old.definition().steps {
        if !has(sides.new, &step.name) {
            let was = sides.was.steps.get(step.name.as_str());
            found.push(Divergence {
                kind: DivergenceKind::StepRemoved,
                sequence: first(was),
                step: step.name.as_str().into(),
                recorded: was.map_or_else(|| "never started".to_owned(), StepAccount::words),
                derived: "is not in the definition".to_owned(),
            });
        }
    }
    for step in &sides.new.definition().steps {
        if !has(sides.old, &step.name) {
            let is = sides.is.steps.get(step.name.as_str());
            found.push(Divergence {
                kind: DivergenceKind::StepAdded,
                sequence: is.map_or_else(|| sides.was.last(), |is| begun(sides, is)),
                step: step.name.as_str().into(),
                recorded: "was not in the definition".to_owned(),
                derived: is.map_or_else(|| "never starts".to_owned(), StepAccount::words),
            });
        }
    }
    found
}

fn first(account: Option<&StepAccount>) -> u64 {
    account
        .and_then(|account| account.legs.first())
        .map_or(0, |leg| leg.sequence)
}

/// Where the recorded run was when the shadow started a step.
fn begun(sides: &Sides<'_>, is: &StepAccount) -> u64 {
    let first = is.legs.first();
    first.map_or_else(|| sides.was.last(), |leg| sides.was.by(leg.at))
}

/// Steps of both definitions that only the shadow starts.
fn extra_steps(sides: &Sides<'_>) -> Vec<Divergence> {
    let new = sides.is.steps.iter();
    let new = new.filter(|(step, _)| !sides.was.steps.contains_key(*step) && has(sides.old, step));
    new.map(|(step, is)| Divergence {
        kind: DivergenceKind::Path,
        sequence: begun(sides, is),
        step: Arc::clone(step),
        recorded: "never started".to_owned(),
        derived: is.words(),
    })
    .collect()
}

/// The first difference in what happens to a step.
fn step_path(sides: &Sides<'_>, step: &Arc<str>) -> Option<(u64, Divergence)> {
    let (was, is) = (sides.was.steps.get(step)?, sides.is.steps.get(step)?);
    let mut pairs = was.legs.iter().zip(&is.legs);
    let differs = pairs.position(|(was, is)| was.words != is.words);
    let shorter = was.legs.len().min(is.legs.len());
    let uneven = (was.legs.len() != is.legs.len()).then_some(shorter);
    let place = differs.or(uneven)?;
    let (then, now) = (was.legs.get(place), is.legs.get(place));
    let pauses = |leg: Option<&Leg>| leg.is_some_and(|leg| leg.kind == LegKind::Pause);
    let (kind, recorded, derived) = match (then, now) {
        (Some(then), Some(now)) if pauses(Some(then)) && pauses(Some(now)) => (
            DivergenceKind::BackOff,
            then.words.clone(),
            now.words.clone(),
        ),
        _ => {
            let retries = was.attempts != is.attempts;
            let kind = if retries {
                DivergenceKind::Retries
            } else {
                DivergenceKind::Path
            };
            (kind, was.words_from(place), is.words_from(place))
        }
    };
    // What only the shadow does shows where the recorded run was at that time.
    let sequence = match (then, now) {
        (Some(then), _) => then.sequence,
        (None, Some(now)) => sides.was.by(now.at),
        (None, None) => 0,
    };
    let derived_at = now.or_else(|| is.legs.last()).map_or(0, |leg| leg.sequence);
    let divergence = Divergence {
        kind,
        sequence,
        step: Arc::clone(step),
        recorded,
        derived,
    };
    Some((derived_at, divergence))
}

/// The first attempt with another input.
fn step_input(step: &Arc<str>, was: &StepAccount, is: &StepAccount) -> Option<Divergence> {
    let mut pairs = was.inputs.iter().zip(&is.inputs);
    let ((sequence, attempt, then), (_, _, now)) = pairs.find(|(was, is)| was.2 != is.2)?;
    Some(Divergence {
        kind: DivergenceKind::Input,
        sequence: *sequence,
        step: Arc::clone(step),
        recorded: format!("input of attempt {attempt}: {}", shown(&then.to_string())),
        derived: format!("input: {}", shown(&now.to_string())),
    })
}

/// Steps that both runs start, in another order.
fn order(sides: &Sides<'_>) -> Option<Divergence> {
    let common = |of: &Account, other: &Account| -> Vec<Arc<str>> {
        let both = of.order.iter();
        both.filter(|step| other.steps.contains_key(*step))
            .cloned()
            .collect()
    };
    let (then, now) = (common(sides.was, sides.is), common(sides.is, sides.was));
    let place = then.iter().zip(&now).position(|(then, now)| then != now)?;
    Some(Divergence {
        kind: DivergenceKind::Order,
        sequence: first(sides.was.steps.get(&then[place])),
        step: Arc::clone(&then[place]),
        recorded: then.join(", "),
        derived: now.join(", "),
    })
}

/// Commands that the recorded run accepted and the shadow rejects.
fn refused(sides: &Sides<'_>) -> Vec<Divergence> {
    let refused = sides.driven.refused.iter();
    refused
        .map(|refused| Divergence {
            kind: DivergenceKind::Refused,
            sequence: refused.sequence,
            step: "".into(),
            recorded: format!("{} was accepted", refused.verb),
            derived: format!("is rejected: {}", refused.why),
        })
        .collect()
}

fn outcome(sides: &Sides<'_>) -> Option<Divergence> {
    let (was, is) = (sides.was, sides.is);
    let same = was.state == is.state && was.reason == is.reason && was.output == is.output;
    (!same).then(|| Divergence {
        kind: DivergenceKind::Outcome,
        sequence: was.last(),
        step: "".into(),
        recorded: ending(was, &[]),
        derived: ending(is, &sides.driven.unrecorded),
    })
}

/// Where an execution ended, in words.
pub(super) fn ending(account: &Account, open: &[super::Unrecorded]) -> String {
    let mut words = account.state.to_string();
    if let Some(reason) = account.reason
        && !reason.as_str().eq_ignore_ascii_case(&words)
    {
        words = format!("{words} ({reason})");
    }
    if !account.state.is_terminal()
        && let Some(first) = open.first()
    {
        let step = if first.step.is_empty() {
            "the execution".to_owned()
        } else {
            format!("`{}`", first.step)
        };
        return format!("open, {words}: {step} has no recorded result");
    }
    if !account.left.is_empty() {
        return format!("{words}, not rolled back: {}", account.left.join(", "));
    }
    match (&account.output, account.state) {
        (Some(output), ExecutionState::Completed) => {
            format!("{words} with {}", shown(&output.to_string()))
        }
        _ => words,
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// Events of the recorded run that no shadow follows.
pub(super) fn notes(events: &[stateway_machine::Event]) -> Vec<String> {
    let noted = events.iter().filter_map(|event| {
        let n = event.sequence;
        match &event.fact {
            Fact::RevisionAdopted { revision, .. } => Some(format!(
                "event {n}: the recorded run adopted revision {revision}; the shadow has one \
                 definition throughout"
            )),
            Fact::ExecutionRecovered { .. } => Some(format!(
                "event {n}: the recorded run was repaired; a shadow needs no repair"
            )),
            _ => None,
        }
    });
    noted.collect()
}

fn has(plan: &Plan, step: &str) -> bool {
    plan.step_definition(step).is_some()
}
