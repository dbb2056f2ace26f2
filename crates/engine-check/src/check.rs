//! Compares the log with what was acknowledged to clients and workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stateway_engine::{EventRecord, Steer};
use stateway_machine::{Fact, Task};

use crate::client::{Reply, Request, Wish, padded, payload};
use crate::worker::{AnswerKind, SentAnswer};
use crate::world::{REQUEST_MEMORY, World};

impl World {
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let audit = self.disk.audit(self.clock.wall(), REQUEST_MEMORY);
        let audit = audit.map_err(|error| error.to_string())?;
        if let Some(first) = audit.first() {
            return Err(format!("the store contradicts itself: {first}"));
        }
        let events = self.disk.events();
        let events = events.map_err(|error| format!("the log cannot be read: {error}"))?;
        self.totals.add_to("log: events", events.len() as u64);
        self.note_events(&events);
        let log = Log::new(&events);
        for request in &self.book.requests {
            log.holds(request, self.book.inputs.get(&request.key.id))?;
            self.is_kept(request, &log)?;
        }
        let stored = self.disk.numbers().map_err(|error| error.to_string())?;
        let stored: BTreeSet<i64> = stored.into_iter().collect();
        for sent in &self.sent {
            // Compared by number: after the clock was set back, a schedule can use the id of a purged
            // execution again.
            if stored.contains(&sent.given.token.number()) {
                log.holds_answer(sent)?;
            } else if sent.accepted {
                self.may_be_gone(&sent.given.execution)?;
            }
        }
        log.hand_outs_alternate()
    }

    /// Adds the log to the trace, and what contradicts it.
    pub(crate) fn note_log(&mut self) {
        let events = self.disk.events().unwrap_or_default();
        self.note_events(&events);
        let audit = self.disk.audit(self.clock.wall(), REQUEST_MEMORY);
        for found in audit.unwrap_or_default() {
            self.trace.note(format_args!("{found}"));
        }
    }

    fn note_events(&mut self, events: &[EventRecord]) {
        for record in events {
            self.trace.note(format_args!(
                "{} {} {} {} {} {} {:?}",
                record.position,
                record.execution,
                record.branch,
                record.event.sequence,
                record.event.at.as_millisecond(),
                record.event.fact.name(),
                record.event.fact.step(),
            ));
        }
    }

    /// The execution of an acknowledged request is stored, or a purge may have removed it.
    fn is_kept(&self, request: &Request, log: &Log<'_>) -> Result<(), String> {
        let executions = match &request.acknowledged {
            Some(Reply::Execution(execution)) => std::slice::from_ref(execution),
            Some(Reply::Published(started)) => started,
            Some(Reply::Done) | None => return Ok(()),
        };
        for execution in executions {
            if !log.has(execution) {
                self.may_be_gone(execution)?;
            }
        }
        Ok(())
    }

    fn may_be_gone(&self, execution: &Arc<str>) -> Result<(), String> {
        if self.book.removable.contains(execution) {
            return Ok(());
        }
        Err(format!("{execution} was acknowledged and is gone"))
    }
}

/// The events of all executions.
struct Log<'e> {
    of: BTreeMap<&'e str, Vec<&'e EventRecord>>,
    /// Executions whose log begins with a copy of another one's.
    forks: BTreeSet<&'e str>,
}

impl<'e> Log<'e> {
    fn new(events: &'e [EventRecord]) -> Self {
        let mut of: BTreeMap<&str, Vec<&EventRecord>> = BTreeMap::new();
        let mut forks = BTreeSet::new();
        for record in events {
            of.entry(&record.execution).or_default().push(record);
            if matches!(record.event.fact, Fact::ExecutionForked { .. }) {
                forks.insert(&*record.execution);
            }
        }
        Self { of, forks }
    }

    fn has(&self, execution: &str) -> bool {
        self.of.contains_key(execution)
    }

    fn count(&self, execution: &str, wanted: impl Fn(&EventRecord) -> bool) -> usize {
        let events = self.of.get(execution).into_iter().flatten();
        events.filter(|record| wanted(record)).count()
    }

    /// A request is in the log once if it was acknowledged, and not more than once in any case.
    fn holds(
        &self,
        request: &Request,
        input: Option<&stateway_machine::Data>,
    ) -> Result<(), String> {
        let id = &request.key.id;
        let acknowledged = request.acknowledged.is_some();
        let (what, count) = match &request.wish {
            Wish::Start { .. } => {
                let created = |record: &EventRecord| match &record.event.fact {
                    Fact::ExecutionCreated { input: got, .. } => {
                        record.event.causation == *id && Some(got) == input
                    }
                    _ => false,
                };
                let own = self.of.keys().filter(|id| !self.forks.contains(*id));
                let count: usize = own.map(|execution| self.count(execution, created)).sum();
                // A purge removes the event too.
                let execution = match &request.acknowledged {
                    Some(Reply::Execution(execution)) => self.has(execution),
                    _ => false,
                };
                if !execution {
                    return at_most_one(id, "executions", count);
                }
                ("executions", count)
            }
            Wish::Steer {
                execution,
                steer: Steer::Signal { .. },
            } if self.has(execution) => {
                let received = |record: &EventRecord| match &record.event.fact {
                    Fact::SignalReceived { id: got, .. } => got == id,
                    _ => false,
                };
                ("signals", self.count(execution, received))
            }
            Wish::Decide {
                execution,
                step,
                attempt,
                branch,
                grant,
            } if self.has(execution) => {
                let decided = |record: &EventRecord| {
                    let of = match &record.event.fact {
                        Fact::ApprovalGranted { step, attempt, .. } => (step, attempt, true),
                        Fact::ApprovalRejected { step, attempt, .. } => (step, attempt, false),
                        _ => return false,
                    };
                    of == (step, attempt, *grant) && record.branch == *branch
                };
                // A second person may agree with the first: one decision for both.
                ("decisions", self.count(execution, decided))
            }
            _ => return Ok(()),
        };
        if acknowledged && count == 0 {
            return Err(format!(
                "{id} was acknowledged, and the log has no {what} of it"
            ));
        }
        at_most_one(id, what, count)
    }

    /// An answer is in the log once if it was accepted, and not more than once in any case.
    fn holds_answer(&self, sent: &SentAnswer) -> Result<(), String> {
        let SentAnswer {
            given,
            said,
            nonce,
            accepted,
        } = sent;
        let task = &given.task;
        let output = if *said == AnswerKind::Large {
            padded(*nonce)
        } else {
            payload(*nonce)
        };
        let message = format!("nonce {nonce}");
        let said_so = |record: &EventRecord| match (&record.event.fact, said) {
            (
                Fact::StepCompleted {
                    step, output: got, ..
                },
                AnswerKind::Completed | AnswerKind::Large,
            ) => *step == task.step && *got == output,
            (
                Fact::AttemptFailed { step, failure, .. }
                | Fact::StepCompensationFailed { step, failure, .. },
                AnswerKind::Failed,
            ) => *step == task.step && *failure.message == *message,
            _ => false,
        };
        let compensated = |record: &EventRecord| match &record.event.fact {
            Fact::StepCompensated { step, attempt } => {
                *step == task.step && *attempt == task.attempt
            }
            _ => false,
        };
        let count = match said {
            AnswerKind::Released | AnswerKind::Oversize | AnswerKind::Deep => return Ok(()),
            // A compensation has no output; an attempt of it completes once on each branch.
            AnswerKind::Completed | AnswerKind::Large if task.undo => {
                let count = self.count(&given.execution, compensated);
                return if *accepted && count == 0 {
                    Err(format!(
                        "{} was accepted and is not in the log",
                        given.token
                    ))
                } else {
                    Ok(())
                };
            }
            AnswerKind::Completed | AnswerKind::Large | AnswerKind::Failed => {
                self.count(&given.execution, said_so)
            }
        };
        if *accepted && count == 0 {
            return Err(format!(
                "answer {nonce} to {} was accepted and is not in the log",
                given.token
            ));
        }
        at_most_one(&given.token.to_string(), "answers", count)
    }

    /// A task that a worker has is not given to another one before it is released, and a step
    /// completes once on a branch.
    fn hand_outs_alternate(&self) -> Result<(), String> {
        for (execution, events) in &self.of {
            let mut held: BTreeSet<(u32, &Task)> = BTreeSet::new();
            let mut completed: BTreeSet<(u32, &str)> = BTreeSet::new();
            for record in events.iter().filter(|_| !self.forks.contains(execution)) {
                let wrong = match &record.event.fact {
                    Fact::TaskAssigned { task, .. } => !held.insert((record.branch, task)),
                    Fact::TaskReleased { task, .. } => {
                        held.remove(&(record.branch, task));
                        false
                    }
                    Fact::StepCompleted { step, .. } => !completed.insert((record.branch, step)),
                    _ => false,
                };
                if wrong {
                    return Err(format!(
                        "{execution} event {}: {} a second time",
                        record.event.sequence,
                        record.event.fact.name()
                    ));
                }
            }
        }
        Ok(())
    }
}

fn at_most_one(id: &str, what: &str, count: usize) -> Result<(), String> {
    if count > 1 {
        return Err(format!("{id} is in the log {count} times ({what})"));
    }
    Ok(())
}
