//! What a command leads to. Pure: the clock's reading comes as an argument, ids come inside the
//! command, and nothing is done; what has to be done follows from the state that the events make.
//!
//! A command is first admitted (is this verb considered in this state?), then answered with its
//! own events, and then the execution is advanced as far as it goes by itself: consequences of
//! failures, steps that became ready, the next thing to undo, the end.

mod advance;
mod approval;
mod lifecycle;
mod person;
mod revision;
mod settle;
mod signal;
mod start;
mod task;
mod timer;
mod undo;

pub use signal::MAX_SIGNALS;

use jiff::Timestamp;

use crate::admission::admit;
use crate::backoff::whole;
use crate::event::Fact;
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Command, Event, Rejection, State, Verb};

/// The events a command leads to, or why it is refused. No events means: it is so already.
///
/// # Errors
/// A [`Rejection`]; the state stays as it is.
pub fn decide(state: &State, command: Command, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    admit(state, command.verb.name())?;
    let mut draft = Draft::new(state, command.id, whole(now));
    answer(&mut draft, command.verb)?;
    advance::advance(&mut draft);
    Ok(draft.into_events())
}

fn answer(draft: &mut Draft<'_>, verb: Verb) -> Result<(), Rejection> {
    match verb {
        Verb::Create {
            execution,
            correlation,
            initiator,
            input,
        } => {
            lifecycle::create(draft, execution, correlation, initiator, input);
            Ok(())
        }
        Verb::Trigger { by } => lifecycle::trigger(draft, by),
        Verb::GrantSlot => lifecycle::grant_slot(draft),
        Verb::AssignTask { task, worker } => task::assign(draft, task, worker),
        Verb::ReleaseTask { task } => task::release(draft, task),
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
        } => task::finish_child(draft, step, attempt, outcome),
        Verb::FireTimer { timer } => timer::fire(draft, &timer),
        Verb::SendSignal { name, id, payload } => signal::send(draft, name, id, payload),
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
        Verb::RetryNow { step } => person::retry_now(draft, &step),
        Verb::ResolveEscalation {
            step,
            resolution,
            by,
            comment,
        } => person::resolve(draft, step, resolution, by, comment),
        Verb::Cancel { mode, by, comment } => lifecycle::cancel(draft, mode, by, comment),
        Verb::OfferDefinition { definition } => revision::offer(draft, &definition),
        Verb::OpenBranch {
            branch,
            cutoff,
            by,
            redo,
        } => lifecycle::open_branch(draft, branch, cutoff, by, redo),
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
fn find(draft: &Draft<'_>, step: &std::sync::Arc<str>) -> Result<StepIx, Rejection> {
    let found = draft.head().plan.find(step);
    found.ok_or_else(|| Rejection::UnknownStep {
        step: std::sync::Arc::clone(step),
    })
}
