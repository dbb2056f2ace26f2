//! The events that a command leads to. Pure: the time is an argument, ids are part of the command, and
//! nothing is carried out. The obligations follow from the state after the events.
//!
//! A command is first admitted (is this verb considered in this state?), then answered with its
//! own events, and then the execution is advanced as far as it goes by itself: consequences of
//! failures, steps that became ready, the next compensation, the end.

mod advance;
mod approval;
mod budget;
mod cancel;
mod compensation;
mod duty;
mod lifecycle;
mod person;
mod policy;
mod revision;
mod settle;
mod signal;
mod start;
mod task;
mod timer;

pub(crate) use compensation::{has_effects, is_retried as is_undo_retried, policy as undo_policy};
pub use person::{Resolver, check_resolves_all};

use std::sync::Arc;

use jiff::Timestamp;

use crate::admission::admit;
use crate::backoff::whole;
use crate::event::Fact;
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Command, Event, Rejection, State, Verb};

/// Returns the events that a command leads to. No events: the command has no effect, as it was applied
/// before.
///
/// # Errors
/// A [`Rejection`]; the state stays as it is.
pub fn decide(state: &State, command: Command, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    admit(state, command.verb.name())?;
    let mut draft = Draft::new(state, command.id, whole(now));
    attribute(&mut draft, &command.verb);
    answer(&mut draft, command.verb)?;
    advance::advance(&mut draft);
    Ok(draft.into_events())
}

/// Notes who acts and, for what workers and the engine do, the event they react to: the newest one
/// about the step, or the newest of all.
fn attribute(draft: &mut Draft<'_>, verb: &Verb) {
    if let Some(by) = verb.by() {
        return draft.acted_by(Arc::clone(by));
    }
    let run = verb
        .step()
        .and_then(|step| draft.head().plan.find(step))
        .map(|ix| draft.run(ix));
    let cause = run.map_or(draft.head().sequence, |run| run.last_event);
    let worker = match verb {
        Verb::AssignTask { worker, .. } => Some(Arc::clone(worker)),
        Verb::ReleaseTask { lost: false, .. }
        | Verb::RecordHeartbeat { .. }
        | Verb::CompleteTask { .. }
        | Verb::FailTask { .. } => run.and_then(|run| run.worker.clone()),
        _ => None,
    };
    draft.caused_by(cause);
    if let Some(worker) = worker {
        draft.acted_by(worker);
    }
}

fn answer(draft: &mut Draft<'_>, verb: Verb) -> Result<(), Rejection> {
    match verb {
        Verb::Create {
            execution,
            correlation,
            initiator,
            input,
            redone_by,
        } => {
            let people = lifecycle::People {
                initiator,
                redone_by,
            };
            lifecycle::create(draft, execution, correlation, people, input);
            Ok(())
        }
        Verb::Trigger { by } => lifecycle::trigger(draft, by),
        Verb::GrantSlot => lifecycle::grant_slot(draft),
        Verb::AssignTask {
            task,
            worker,
            identity,
        } => task::assign(draft, task, worker, identity),
        Verb::ReleaseTask { task, lost } => task::release(draft, task, lost),
        Verb::DecidePolicy {
            task,
            rule,
            decision,
        } => policy::decide(draft, task, rule, decision),
        Verb::RecordHeartbeat {
            step,
            attempt,
            progress,
        } => task::heartbeat(draft, step, attempt, progress),
        Verb::CompleteTask {
            task,
            output,
            usage,
        } => task::complete(draft, task, output, usage),
        Verb::FailTask {
            task,
            failure,
            usage,
        } => task::fail(draft, task, failure, usage),
        Verb::FinishChild {
            step,
            attempt,
            outcome,
            usage,
        } => task::finish_child(draft, step, attempt, outcome, usage),
        Verb::FireTimer { timer, note } => timer::fire(draft, &timer, &note),
        Verb::SendSignal {
            name,
            id,
            payload,
            by: _,
        } => signal::send(draft, name, id, payload),
        Verb::DecideApproval {
            step,
            attempt,
            grant,
            by,
            roles,
            comment,
        } => approval::decide(
            draft,
            approval::Vote {
                step,
                attempt,
                grant,
                by,
                roles,
                comment,
            },
        ),
        Verb::Pause { by, comment } => lifecycle::pause(draft, by, comment),
        Verb::Resume { by } => lifecycle::resume(draft, by),
        Verb::RetryNow { step, by: _ } => person::retry_now(draft, &step),
        Verb::RetryAll { by: _ } => person::retry_all(draft),
        Verb::ResolveEscalation {
            step,
            attempt,
            resolution,
            by,
            roles,
            operators,
            comment,
            compensate,
        } => person::resolve(
            draft,
            person::Resolve {
                step,
                attempt,
                resolution,
                by,
                roles,
                operators,
                comment,
                compensate,
            },
        ),
        Verb::Cancel { mode, by, comment } => cancel::cancel(draft, mode, by, comment),
        Verb::OfferDefinition { definition, by } => revision::offer(draft, &definition, by),
        Verb::OpenBranch {
            branch,
            cutoff,
            by,
            redo,
            reopened,
            spent,
            spent_by_step,
        } => lifecycle::open_branch(
            draft,
            lifecycle::Opening {
                branch,
                cutoff,
                by,
                redo,
                reopened,
                spent,
                spent_by_step,
            },
        ),
        Verb::Fork {
            from,
            branch,
            cutoff,
            by,
            redo,
        } => lifecycle::fork(draft, from, (branch, cutoff), by, redo),
        Verb::Recover {
            reason,
            from,
            cutoff,
            again,
            left,
            by,
        } => {
            let branch = draft.head().branch;
            draft.push(Fact::ExecutionRecovered {
                reason,
                from,
                branch,
                cutoff,
                again,
                left,
                by,
            });
            Ok(())
        }
    }
}

/// The step of this name.
fn find(draft: &Draft<'_>, step: &Arc<str>) -> Result<StepIx, Rejection> {
    let found = draft.head().plan.find(step);
    found.ok_or_else(|| Rejection::UnknownStep {
        step: Arc::clone(step),
    })
}
