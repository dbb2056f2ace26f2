//! What a turn leads to: what it writes, and what may be seen once that is on disk.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::error::{EngineError, Result};
use crate::news::Removed;
use crate::request::RequestKey;
use crate::store::{Answered, Turn};
use crate::view::View;
use crate::worker::{Answer, WorkerMessage};

/// Something that may be seen once the turn is on disk.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An answer to a caller.
    Answer(Box<dyn Deliver>),
    /// A message to a worker.
    Tell(mpsc::UnboundedSender<WorkerMessage>, WorkerMessage),
    /// An execution as it is now, for its watchers.
    Changed(Arc<View>),
    /// An execution that was removed from disk, for its watchers.
    Removed(Arc<Removed>),
    /// Events are on disk up to this position.
    Committed(i64),
}

/// An answer and its receiver.
pub(crate) trait Deliver: std::fmt::Debug + Send {
    /// Sends the answer. A caller that has gone away is no failure.
    fn deliver(self: Box<Self>);

    /// Sends an error instead, because the turn was not written. An answer that was an error
    /// already stays.
    fn fail(self: Box<Self>, error: EngineError);
}

#[derive(Debug)]
struct Ready<T> {
    answer: oneshot::Sender<Result<T>>,
    value: Result<T>,
}

impl<T: std::fmt::Debug + Send> Deliver for Ready<T> {
    fn deliver(self: Box<Self>) {
        drop(self.answer.send(self.value));
    }

    fn fail(self: Box<Self>, error: EngineError) {
        drop(self.answer.send(self.value.and(Err(error))));
    }
}

/// Request ids, with the digest of the request and the execution.
pub(super) type Requests = HashMap<Arc<str>, ([u8; 16], i64)>;

/// The effects of the current turn.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// What the turn writes.
    pub(super) turn: Turn,
    effects: Vec<Effect>,
    /// Callers that are answered with an execution as it is when the turn ends.
    replies: Vec<(i64, oneshot::Sender<Answer>)>,
    /// The request ids of this turn.
    requests: Requests,
    /// Executions whose change is to be sent to watchers.
    changed: Vec<Changed>,
}

/// An execution whose change is to be sent to watchers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    pub(super) number: i64,
    /// The execution waits for a person, or did so before the change.
    pub(super) inbox: bool,
}

impl Outbox {
    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Answers a caller once the turn is on disk.
    pub(super) fn answer<T: std::fmt::Debug + Send + 'static>(
        &mut self,
        answer: oneshot::Sender<Result<T>>,
        value: Result<T>,
    ) {
        self.push(Effect::Answer(Box::new(Ready { answer, value })));
    }

    /// Answers a caller with an execution as it is when the turn ends.
    pub(super) fn reply(&mut self, number: i64, answer: oneshot::Sender<Answer>) {
        self.replies.push((number, answer));
    }

    pub(super) fn take_replies(&mut self) -> Vec<(i64, oneshot::Sender<Answer>)> {
        std::mem::take(&mut self.replies)
    }

    /// Sends a worker a message once the turn is on disk.
    pub(super) fn tell(
        &mut self,
        worker: &mpsc::UnboundedSender<WorkerMessage>,
        message: WorkerMessage,
    ) {
        self.push(Effect::Tell(worker.clone(), message));
    }

    /// Notes that the change of an execution is to be sent to watchers.
    pub(super) fn changed(&mut self, changed: Changed) {
        self.changed.push(changed);
    }

    /// Whether a change waits for the next turn to be sent to watchers.
    pub(super) const fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(super) fn take_changed(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changed)
    }

    /// Remembers that a request was about an execution.
    pub(super) fn remember(&mut self, request: &RequestKey, number: i64, at: Timestamp) {
        self.remember_answered(Answered {
            id: Arc::clone(&request.id),
            body: request.body,
            number,
            at,
        });
    }

    pub(super) fn remember_answered(&mut self, answered: Answered) {
        let known = (answered.body, answered.number);
        self.requests.insert(Arc::clone(&answered.id), known);
        self.turn.requests.push(answered);
    }

    /// The digest and the execution of a request of this turn.
    pub(super) fn request(&self, id: &str) -> Option<([u8; 16], i64)> {
        self.requests.get(id).copied()
    }

    /// What the turn writes, and its request ids, which are found in the store once it is written.
    pub(super) fn take_turn(&mut self) -> (Turn, Requests) {
        let requests = std::mem::take(&mut self.requests);
        (std::mem::take(&mut self.turn), requests)
    }

    /// Gives the lists of a written turn back, so that another turn need not allocate them.
    pub(super) fn recycle(&mut self, mut turn: Turn) {
        if self.turn.is_empty() {
            turn.clear();
            self.turn = turn;
        }
    }

    /// Puts the effects of a turn back that was not written.
    pub(super) fn return_effects(&mut self, effects: Vec<Effect>) {
        self.effects.splice(..0, effects);
    }

    /// The changes that become visible because the turn is on disk.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Drops the turn, which could not be written. Callers get the error; workers learn the state
    /// of their tasks when they reconnect.
    pub(super) fn fail(&mut self, error: &EngineError) -> Vec<Effect> {
        let refused = self.replies.drain(..).map(|(_, answer)| {
            let value = Err(error.clone());
            Effect::Answer(Box::new(Ready { answer, value }) as Box<dyn Deliver>)
        });
        let mut effects: Vec<Effect> = refused.collect();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Answer(answer) => {
                    let error = error.clone();
                    effects.push(Effect::Answer(Box::new(Refused { answer, error })));
                }
                // A session that has ended stays ended: its worker has to reconnect.
                Effect::Tell(_, WorkerMessage::Closed { .. }) => effects.push(effect),
                _ => {}
            }
        }
        *self = Self::default();
        effects
    }
}

/// An answer whose turn could not be written.
#[derive(Debug)]
struct Refused {
    answer: Box<dyn Deliver>,
    error: EngineError,
}

impl Deliver for Refused {
    fn deliver(self: Box<Self>) {
        self.answer.fail(self.error);
    }

    fn fail(self: Box<Self>, _: EngineError) {
        self.answer.fail(self.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> EngineError {
        EngineError::from_store(&crate::StoreError::Full)
    }

    fn show(effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Answer(answer) = effect {
                answer.deliver();
            }
        }
    }

    #[test]
    fn an_answer_of_a_turn_that_was_not_written_is_the_error_of_the_store() {
        let mut outbox = Outbox::default();
        let (answer, mut answered) = oneshot::channel();
        let (reply, mut replied) = oneshot::channel();
        outbox.answer(answer, Ok(7));
        outbox.reply(1, reply);
        let effects = outbox.fail(&full());
        assert!(answered.try_recv().is_err(), "nothing is sent by itself");
        show(effects);
        let expected = full();
        let got = answered.try_recv().expect("an answer").expect_err("fails");
        assert_eq!(got.reason, expected.reason);
        assert_eq!(got.retry_after, Some(crate::error::TRY_AGAIN));
        let got = replied.try_recv().expect("an answer").expect_err("fails");
        assert_eq!(got.reason, expected.reason);
    }

    #[test]
    fn a_session_that_ended_in_a_turn_that_was_not_written_is_closed_all_the_same() {
        let mut outbox = Outbox::default();
        let (worker, _messages) = mpsc::unbounded_channel();
        let reason = "LEASE_EXPIRED";
        outbox.tell(&worker, WorkerMessage::Closed { reason });
        let task: crate::worker::TaskToken = "1.0.1.d.a".parse().expect("a token");
        outbox.tell(&worker, WorkerMessage::Accepted { token: task });
        let effects = outbox.fail(&full());
        assert!(matches!(
            effects[..],
            [Effect::Tell(_, WorkerMessage::Closed { .. })]
        ));
    }

    #[test]
    fn a_refusal_stays_what_it_is_when_the_turn_is_not_written() {
        let mut outbox = Outbox::default();
        let (answer, mut answered) = oneshot::channel::<Result<()>>();
        outbox.answer(answer, Err(EngineError::request_reused()));
        show(outbox.fail(&full()));
        let got = answered.try_recv().expect("an answer").expect_err("fails");
        assert_eq!(got.reason, EngineError::request_reused().reason);
    }

    #[test]
    fn a_request_of_the_turn_is_known_until_the_turn_is_taken() {
        let mut outbox = Outbox::default();
        let request = RequestKey {
            id: "r".into(),
            body: [1; 16],
        };
        outbox.remember(&request, 5, Timestamp::UNIX_EPOCH);
        assert_eq!(outbox.request("r"), Some(([1; 16], 5)));
        let (turn, requests) = outbox.take_turn();
        assert_eq!((turn.requests.len(), requests.len()), (1, 1));
        assert_eq!(outbox.request("r"), None);
    }
}
