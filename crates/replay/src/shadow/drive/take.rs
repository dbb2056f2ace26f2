//! Converts the next recorded input to its command.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_model::Usage;

use super::next::{Due, ShadowAction};
use super::{Rerun, later};
use crate::shadow::recorded::{Deed, HandOut, RecordedAnswer};
use stateway_machine::{Command, PolicyDecision, Task, Verb, WaitFor};

/// What is to be done.
pub(super) enum Taking {
    Command(Verb, Arc<str>),
    /// A branch at the beginning: who opened it may decide until its place in the log.
    Early(Verb, Arc<str>),
    Continue {
        by: Option<Arc<str>>,
        spent: (Usage, BTreeMap<Arc<str>, Usage>),
        forked: bool,
    },
}

impl Rerun<'_> {
    pub(super) fn take(&mut self, next: &Due) -> Option<Taking> {
        if matches!(next.what, ShadowAction::Act) {
            return self.take_act();
        }
        let Command { verb, id } = self.take_reply(next)?;
        Some(Taking::Command(verb, id))
    }

    fn take_act(&mut self) -> Option<Taking> {
        let act = self.recorded.acts.pop_front()?;
        Some(match act.deed {
            Deed::Command(verb) => Taking::Command(verb, act.cause),
            Deed::Branch(verb, still) => {
                // The shadow leaves out events that change nothing, such as heartbeats; one of them
                // may have been the last before the branch.
                self.state.set_updated(later(self.clock, -still));
                Taking::Command(self.numbered(verb), act.cause)
            }
            Deed::Early(verb) => Taking::Early(self.numbered(verb), act.cause),
            Deed::Continue {
                by,
                spent,
                spent_by_step,
                forked,
            } => Taking::Continue {
                by,
                spent: (spent, spent_by_step),
                forked,
            },
        })
    }

    /// Branches are numbered in the order in which the shadow opens them.
    fn numbered(&self, mut verb: Verb) -> Verb {
        if let Verb::OpenBranch { branch, .. } = &mut verb {
            *branch = self.state.branch() + 1;
        }
        verb
    }

    fn take_reply(&mut self, next: &Due) -> Option<Command> {
        match &next.what {
            ShadowAction::Act => None,
            ShadowAction::HandOut(task) => self.take_hand_out(task),
            ShadowAction::Answer(task) => {
                let reply = self.recorded.results.remove(task)?;
                let verb = self.answer(task.clone(), reply.what);
                Some(Command::new(reply.cause, verb))
            }
            ShadowAction::Decision(task) => {
                let reply = self.recorded.decisions.get_mut(task)?.pop_front()?;
                let verb = Verb::DecideApproval {
                    step: Arc::clone(&task.step),
                    attempt: task.attempt,
                    grant: reply.what.grant,
                    by: reply.what.by,
                    roles: vec![reply.what.role],
                    comment: reply.what.comment,
                };
                Some(Command::new(reply.cause, verb))
            }
            ShadowAction::Resolution(step) => self.take_resolution(step),
            ShadowAction::Resume => {
                let reply = self.recorded.resumes.pop_front()?;
                Some(Command::new(reply.cause, Verb::Resume { by: reply.what }))
            }
            ShadowAction::Hurry(task) => {
                let reply = self.recorded.hurried.remove(task)?;
                let (step, by) = (Arc::clone(&task.step), reply.what);
                Some(Command::new(reply.cause, Verb::RetryNow { step, by }))
            }
            ShadowAction::Fire(timer, _) => Some(Command::new("timer", Verb::fire(timer.clone()))),
        }
    }

    fn take_hand_out(&mut self, task: &Task) -> Option<Command> {
        let reply = self.recorded.hand_outs.get_mut(task)?.pop_front()?;
        let task = task.clone();
        let verb = match reply.what {
            HandOut::Assigned { worker, identity } => Verb::AssignTask {
                task,
                worker,
                identity,
            },
            HandOut::Released { lost } => Verb::ReleaseTask { task, lost },
            HandOut::Policy {
                rule,
                mut decision,
                lasts,
            } => {
                if let PolicyDecision::RequireApproval { due, .. } = &mut decision {
                    *due = lasts.map(|lasts| later(self.clock, lasts));
                }
                Verb::DecidePolicy {
                    task,
                    rule,
                    decision,
                }
            }
        };
        Some(Command::new(reply.cause, verb))
    }

    /// A person who decided then had the role for it, whatever role the step names now.
    fn take_resolution(&mut self, step: &Arc<str>) -> Option<Command> {
        let reply = self.recorded.resolutions.get_mut(step)?.pop_front()?;
        let run = self.state.step(step)?;
        let role = run.escalation_role.cloned().unwrap_or_default();
        let verb = Verb::ResolveEscalation {
            step: Arc::clone(step),
            attempt: run.attempt,
            resolution: reply.what.resolution,
            by: reply.what.by,
            roles: vec![Arc::clone(&role)],
            operators: vec![role],
            comment: reply.what.comment,
            compensate: reply.what.compensate,
        };
        Some(Command::new(reply.cause, verb))
    }

    fn answer(&self, task: Task, taken: RecordedAnswer) -> Verb {
        let wait = self.state.step(&task.step).and_then(|run| run.wait);
        let child = matches!(wait, Some(WaitFor::Child(_)));
        let (outcome, usage) = match taken {
            RecordedAnswer::Completed(output, usage) => (Ok(output), usage),
            RecordedAnswer::Failed(failure, usage) | RecordedAnswer::Refused(failure, usage) => {
                (Err(failure), usage)
            }
        };
        match outcome {
            outcome if child => Verb::FinishChild {
                step: task.step,
                attempt: task.attempt,
                outcome,
                usage: usage.unwrap_or_default(),
            },
            Ok(output) => Verb::CompleteTask {
                task,
                output,
                usage,
            },
            Err(failure) => Verb::FailTask {
                task,
                failure,
                usage,
            },
        }
    }
}
