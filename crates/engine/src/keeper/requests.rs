//! Requests: a repeated request has no further effect.

use std::sync::Arc;

use stateway_machine::{Data, Excess, ExecutionState, Plan, State, Verb, check_payload};
use tokio::sync::oneshot;

use super::outbox::Effect;
use super::{Ask, Keeper, Live};
use crate::error::{EngineError, ErrorKind, Result};
use crate::news::Removed;
use crate::request::{Purged, RequestKey, Start, Steer};
use crate::store::Turn;
use crate::view::{Origin, Parent};
use crate::worker::Answer;
use jiff::Timestamp;

/// The most labels of an execution.
const MOST_LABELS: usize = 64;

/// The value that is stored with a request that was not about an execution; the numbers of executions begin at 1.
pub(super) const NO_EXECUTION: i64 = 0;

impl Keeper {
    pub(super) fn ask(&mut self, ask: Ask) {
        let (answer, done) = match ask {
            Ask::Start { start, answer } => (answer, self.start(start)),
            Ask::Steer {
                id,
                steer,
                actor,
                request,
                answer,
            } => {
                let done = self.once(&id, &request, |keeper, number| {
                    keeper.steer(number, steer, &actor, &request.id)?;
                    Ok(number)
                });
                (answer, done)
            }
            Ask::Command {
                id,
                verb,
                branch,
                request,
                answer,
            } => {
                let done = self.once(&id, &request, |keeper, number| {
                    keeper.check_branch(number, branch, &verb)?;
                    keeper.command(number, &request.id, verb)?;
                    Ok(number)
                });
                (answer, done)
            }
            Ask::RetryFrom {
                id,
                from,
                actor,
                request,
                answer,
            } => {
                let done = self.once(&id, &request, |keeper, number| {
                    keeper.retry_from(number, &from, &actor, &request.id)
                });
                (answer, done)
            }
        };
        self.reply(answer, done);
    }

    /// Answers with the execution as it is when the turn ends, or with why not.
    pub(super) fn reply(&mut self, answer: oneshot::Sender<Answer>, done: Result<i64>) {
        match done {
            Ok(number) => {
                self.executions.touch(number);
                self.outbox.reply(number, answer);
            }
            Err(error) => self.outbox.answer(answer, Err(error)),
        }
    }

    /// Does something to an execution, unless this request did it before.
    pub(super) fn once(
        &mut self,
        id: &str,
        request: &RequestKey,
        work: impl FnOnce(&mut Self, i64) -> Result<i64>,
    ) -> Result<i64> {
        if let Some(number) = self.seen(request)? {
            self.load_number(number)?;
            return Ok(number);
        }
        let number = self.number_of(id)?;
        self.load_number(number)?;
        let number = work(self, number)?;
        self.remember(request, number);
        Ok(number)
    }

    /// A decision names the branch of the log that its request belongs to; on another branch the
    /// same step and attempt is another request.
    fn check_branch(&self, number: i64, branch: Option<u32>, verb: &Verb) -> Result<()> {
        let present = self.executions.get(number).map(|live| live.state.branch());
        if branch.is_none() || branch == present {
            return Ok(());
        }
        let (reason, hint) = match verb {
            Verb::ResolveEscalation { .. } => (
                "STALE_ESCALATION",
                "{ListEscalations} shows what is pending.",
            ),
            _ => ("STALE_APPROVAL", "{ListApprovals} shows what is pending."),
        };
        let message = "the request belongs to a branch that the execution has left";
        Err(EngineError::new(ErrorKind::FailedPrecondition, reason, message).hint(hint))
    }

    /// The execution that this very request was about, if it came before.
    pub(super) fn seen(&self, request: &RequestKey) -> Result<Option<i64>> {
        let being_written = || {
            let under_way = self.under_way.as_ref()?;
            under_way.requests.get(&request.id).copied()
        };
        let before = match self.outbox.request(&request.id).or_else(being_written) {
            Some(before) => Some(before),
            None => {
                // The answer does not depend on the turn that is being written, so the caller does not wait for it.
                let found = if self.store.is_away() {
                    self.reader.answered(&request.id)?
                } else {
                    self.store.answered(&request.id)?
                };
                found.map(|found| (found.body, found.number))
            }
        };
        match before {
            Some((body, number)) if request.repeats(&body) => Ok(Some(number)),
            Some(_) => Err(EngineError::request_reused()),
            None => Ok(None),
        }
    }

    pub(super) fn remember(&mut self, request: &RequestKey, number: i64) {
        self.outbox.remember(request, number, self.now.wall);
    }

    pub(super) fn start(&mut self, start: Start) -> Result<i64> {
        if let Some(number) = self.seen(&start.request)?
            && !self.remove_empty_row(number)?
        {
            self.load_number(number)?;
            return Ok(number);
        }
        if start.labels.len() > MOST_LABELS {
            return Err(EngineError::new(
                ErrorKind::InvalidArgument,
                "TOO_MANY_LABELS",
                format_args!("an execution has at most {MOST_LABELS} labels"),
            ));
        }
        let plan = self.current_plan(&start.definition)?;
        let id = match start.id {
            Some(id) => {
                self.check_free(&id)?;
                id
            }
            None => self.config.ids.next(self.now.wall),
        };
        let birth = NewExecution {
            create: Verb::Create {
                execution: Arc::clone(&id),
                correlation: Arc::clone(&id),
                initiator: start.actor,
                input: start.input,
                redone_by: Vec::new(),
            },
            id,
            definition: start.definition,
            labels: Arc::new(start.labels),
            parent: None,
            depth: 0,
            not_before: start.not_before.filter(|due| *due > self.now.wall),
        };
        let number = self.create(plan, birth, &start.request.id)?;
        self.remember(&start.request, number);
        Ok(number)
    }

    /// Whether a new execution may have this id.
    pub(super) fn check_free(&mut self, id: &str) -> Result<()> {
        usable_id(id)?;
        if !self.is_taken(id)? {
            return Ok(());
        }
        Err(EngineError::new(
            ErrorKind::AlreadyExists,
            "EXECUTION_ALREADY_EXISTS",
            format_args!("there is an execution `{id}` already"),
        )
        .hint("Choose another id, or leave the id out."))
    }

    /// Whether there is an execution of this id. A row without an event is none: nothing of it was
    /// ever acknowledged or can be known, so it makes room.
    pub(super) fn is_taken(&mut self, id: &str) -> Result<bool> {
        if self.executions.number_of(id).is_some() {
            return Ok(true);
        }
        // The executions of the turn that is being written are in memory.
        let found = if self.store.is_away() {
            self.reader.number_of(id)?
        } else {
            self.store.number_of(id)?
        };
        let Some(number) = found else {
            return Ok(false);
        };
        Ok(!self.remove_empty_row(number)?)
    }

    /// Whether all there is of an execution is a row; such a row is removed.
    fn remove_empty_row(&mut self, number: i64) -> Result<bool> {
        let row = self.store.id_of(number)?;
        if self.executions.contains(number) || row.is_none() || self.store.head(number)?.is_some() {
            return Ok(false);
        }
        tracing::warn!(number, "a row without a log is replaced by a new execution");
        self.remove_executions(&[number])?;
        self.executions.clear_damaged(number);
        Ok(true)
    }

    /// Makes an execution known and, unless it is put off, lets it take its place in the queue.
    pub(super) fn create(
        &mut self,
        plan: Arc<Plan>,
        birth: NewExecution,
        cause: &Arc<str>,
    ) -> Result<i64> {
        let number = self.executions.next_number();
        let not_before = birth.not_before;
        let origin = Origin {
            number,
            id: Arc::clone(&birth.id),
            definition: birth.definition,
            labels: birth.labels,
            parent: birth.parent,
            depth: birth.depth,
            not_before,
            forked_from: None,
        };
        self.executions
            .keep(Live::new(Arc::new(origin), State::new(plan), [0; 16]));
        let by = birth.create.by().cloned().unwrap_or_default();
        let mut made = self.command(number, cause, birth.create);
        if made.is_ok() && not_before.is_none() {
            made = self.command(number, cause, Verb::Trigger { by });
        }
        if let Err(error) = made {
            self.executions.forget(number);
            return Err(error);
        }
        Ok(number)
    }

    fn steer(
        &mut self,
        number: i64,
        steer: Steer,
        actor: &Arc<str>,
        cause: &Arc<str>,
    ) -> Result<()> {
        let by = Arc::clone(actor);
        let verb = match steer {
            Steer::Signal { name, payload } => Verb::SendSignal {
                name,
                id: Arc::clone(cause),
                payload,
                by,
            },
            Steer::Cancel { mode, cause } => Verb::Cancel {
                mode,
                by,
                comment: cause,
            },
            Steer::Pause { cause } => Verb::Pause { by, comment: cause },
            Steer::Resume => {
                // Recovering may write; a resume that is refused writes nothing.
                if self.state_of(number) != Some(ExecutionState::Escalated) {
                    self.repair_before(number)?;
                }
                Verb::Resume { by }
            }
            Steer::RetryNow { step } if step.is_empty() => Verb::RetryAll { by },
            Steer::RetryNow { step } => Verb::RetryNow { step, by },
        };
        self.command(number, cause, verb).map(drop)
    }

    fn state_of(&self, number: i64) -> Option<ExecutionState> {
        self.executions.get(number).map(|live| live.state.state())
    }

    /// Removes one finished execution, with all that belongs to it.
    pub(super) fn remove(&mut self, id: &str) -> Result<()> {
        let number = self.number_of(id)?;
        let kept = self.store.kept(number)?;
        // One that is not on disk yet has only just begun.
        let ended = kept.is_some_and(|kept| kept.status.ended.is_some());
        let open = self
            .executions
            .get(number)
            .is_some_and(|live| !live.state.state().is_terminal() || live.is_unwritten());
        // Nothing ever happened to one without an event.
        let empty = self.state_of(number).is_none() && self.store.head(number)?.is_none();
        if !empty && (open || !ended) {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "NOT_FINISHED",
                format_args!("the execution `{id}` has not finished"),
            )
            .hint("Cancel it first, or wait for its end."));
        }
        let needed = match self.needed_by_sinks() {
            Some(after) => self.store.has_events_after(number, after)?,
            None => false,
        };
        if needed {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "EVENTS_NOT_DELIVERED",
                format_args!("a webhook has not received all events of the execution `{id}` yet"),
            )
            .hint("Wait until the webhook has received them, or remove the webhook from the configuration."));
        }
        self.remove_executions(&[number])
    }

    /// Removes executions from disk and from memory, and reports that to their watchers. The removal is a turn of
    /// its own, so that what follows reads the store without them, and the report does not wait for the end of the
    /// present turn.
    pub(super) fn remove_executions(&mut self, numbers: &[i64]) -> Result<()> {
        let mut removed = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(id) = self.store.id_of(*number)? {
                removed.push(Arc::new(Removed {
                    number: *number,
                    id,
                }));
            }
        }
        self.write_alone(&Turn {
            removed: numbers.to_vec(),
            ..Turn::default()
        })?;
        // What is in memory of them must not become readable again when it leaves memory.
        for number in numbers {
            self.executions.forget(*number);
        }
        for removed in removed {
            self.executions.removed(&removed.id);
            self.shown.push(Effect::Removed(removed));
        }
        Ok(())
    }

    pub(super) fn purge(&mut self, ended_before: Timestamp, limit: usize) -> Result<Purged> {
        let needed = self.needed_by_sinks();
        let mut numbers = self.store.ended(ended_before, needed, limit)?;
        let full = numbers.len() == limit;
        // One that was opened again in this very turn still looks ended on disk, and what is about
        // to be written of one must not outlive it.
        numbers.retain(|number| {
            self.executions
                .get(*number)
                .is_none_or(|live| live.state.state().is_terminal() && !live.is_unwritten())
        });
        let held_back = match needed {
            Some(after) => self.store.held_back(ended_before, after, limit)?,
            None => 0,
        };
        if !numbers.is_empty() {
            self.remove_executions(&numbers)?;
        }
        Ok(Purged {
            executions: numbers.len() as u64,
            more: full,
            held_back,
        })
    }
}

/// The longest id someone may give, so that those of its children are ids too.
const LONGEST_ID: usize = 128;

/// Ids with a `~` are the engine's own: of children and of scheduled starts. A control character cannot be read in a
/// list, and not every store has a zero byte in its texts.
fn usable_id(id: &str) -> Result<()> {
    let control = id.char_indices().find(|(_, letter)| letter.is_control());
    let (why, hint) = if id.len() > LONGEST_ID {
        let why = format!("an execution id has at most {LONGEST_ID} bytes");
        (why, "Use a shorter id, or leave the id out.")
    } else if let Some((place, letter)) = control {
        let why = format!(
            "an execution id must not contain control characters: U+{:04X} at byte {place} of the id",
            u32::from(letter)
        );
        (why, "Remove the character, or leave the id out.")
    } else if id.contains('~') {
        let why = "an execution id must not contain `~`: the engine uses it in the ids of children";
        (
            why.to_owned(),
            "Use another character, or leave the id out.",
        )
    } else {
        return Ok(());
    };
    let refused = EngineError::new(ErrorKind::InvalidArgument, "INVALID_EXECUTION_ID", why);
    Err(refused.hint(hint))
}

/// The initial state of a new execution.
pub(super) struct NewExecution {
    pub(super) id: Arc<str>,
    pub(super) definition: Arc<str>,
    /// The command that creates the execution.
    pub(super) create: Verb,
    pub(super) labels: Arc<std::collections::BTreeMap<String, String>>,
    pub(super) parent: Option<Parent>,
    pub(super) depth: u32,
    pub(super) not_before: Option<Timestamp>,
}

/// Refuses a payload that is longer or deeper than allowed.
pub(crate) fn bounded(data: &Data, most: usize) -> Result<()> {
    let Err(excess) = check_payload(data, most) else {
        return Ok(());
    };
    let reason = match excess {
        Excess::Bytes { .. } => "PAYLOAD_TOO_LARGE",
        Excess::Depth { .. } => "PAYLOAD_TOO_DEEP",
    };
    let message = format_args!("a payload has {excess}");
    Err(EngineError::new(ErrorKind::InvalidArgument, reason, message).hint(excess.remedy()))
}
