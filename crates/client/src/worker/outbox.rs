//! The messages that a worker has to send, in order, however slowly the gateway reads.
//!
//! It contains at most one message for each task, the offer and one heartbeat of the worker: an
//! answer or a release replaces the heartbeats of its task, and a newer heartbeat of a task
//! replaces an older one. A handler that reports progress faster than the gateway reads costs no
//! memory.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::AtomicWaker;
use stateway_proto::v1::stream_tasks_request::Message;
use stateway_proto::v1::{self, StreamTasksRequest};

/// More than any gateway hands out to one worker. Beyond that the session is given up.
const MOST_MESSAGES: usize = 65_536;

/// The worker's end.
pub(super) struct Outbox(Arc<Shared>);

/// The connection's end.
pub(super) struct Outgoing(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    /// How many of them are heartbeats. Without any, there is nothing to look for.
    heartbeats: usize,
    is_closed: bool,
}

/// A new outbox and the stream of what is put into it.
pub(super) fn outbox() -> (Outbox, Outgoing) {
    let shared = Arc::new(Shared::default());
    (Outbox(shared.clone()), Outgoing(shared))
}

impl Outbox {
    /// Sends a message after those that wait; what it replaces is not sent any more.
    pub(super) fn send(&self, message: Message) {
        let mut queue = self.0.lock();
        if queue.messages.len() >= MOST_MESSAGES {
            *queue = Queue {
                is_closed: true,
                ..Queue::default()
            };
        }
        if !queue.is_closed {
            queue.put(message);
        }
        drop(queue);
        self.0.waker.wake();
    }

    /// Gives tasks back.
    pub(super) fn release(&self, tokens: impl IntoIterator<Item = String>, begun: bool) {
        for task_token in tokens {
            self.send(Message::Released(v1::TaskReleased { task_token, begun }));
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.waker.wake();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn put(&mut self, message: Message) {
        // The newest offer and the newest heartbeat of a task say everything.
        let place = match (&message, heartbeat_of(&message)) {
            (_, Some(token)) => self.heartbeat(token),
            (Message::Offer(_), _) => {
                let is_offer = |waiting: &Message| matches!(waiting, Message::Offer(_));
                self.messages.iter().position(is_offer)
            }
            _ => None,
        };
        if let Some(place) = place {
            self.messages[place] = message;
            return;
        }
        if heartbeat_of(&message).is_some() {
            self.heartbeats += 1;
        } else if let Some(token) = token_of(&message)
            && let Some(place) = self.heartbeat(token)
        {
            self.messages.remove(place);
            self.heartbeats -= 1;
        }
        self.messages.push_back(message);
    }

    /// The place of the heartbeat of a task.
    fn heartbeat(&self, token: &str) -> Option<usize> {
        if self.heartbeats == 0 {
            return None;
        }
        let mut waiting = self.messages.iter();
        waiting.position(|waiting| heartbeat_of(waiting) == Some(token))
    }

    fn take(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.heartbeats -= usize::from(heartbeat_of(&message).is_some());
        Some(message)
    }
}

/// The task of a heartbeat; empty for a heartbeat of the worker itself.
fn heartbeat_of(message: &Message) -> Option<&str> {
    match message {
        Message::Heartbeat(heartbeat) => Some(&heartbeat.task_token),
        _ => None,
    }
}

/// The task that a message ends.
fn token_of(message: &Message) -> Option<&str> {
    match message {
        Message::Completed(done) => Some(&done.task_token),
        Message::Failed(failed) => Some(&failed.task_token),
        Message::Released(released) => Some(&released.task_token),
        Message::Heartbeat(_) | Message::Offer(_) => None,
    }
}

impl Stream for Outgoing {
    type Item = StreamTasksRequest;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<StreamTasksRequest>> {
        // Registered before the look, so that nothing is missed in between.
        self.0.waker.register(context.waker());
        let mut queue = self.0.lock();
        match queue.take() {
            Some(message) => Poll::Ready(Some(StreamTasksRequest {
                message: Some(message),
            })),
            None if queue.is_closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn heartbeat(token: &str, detail: &str) -> Message {
        Message::Heartbeat(v1::TaskHeartbeat {
            task_token: token.into(),
            detail: detail.into(),
            ..v1::TaskHeartbeat::default()
        })
    }

    fn done(token: &str) -> Message {
        Message::Completed(v1::TaskCompleted {
            task_token: token.into(),
            ..v1::TaskCompleted::default()
        })
    }

    fn sent(outgoing: &mut Outgoing) -> Vec<Message> {
        let next = || outgoing.next().now_or_never().flatten();
        std::iter::from_fn(next)
            .map(|request| request.message.unwrap())
            .collect()
    }

    #[test]
    fn a_gateway_that_does_not_read_costs_one_heartbeat_per_task() {
        let (outbox, mut outgoing) = outbox();
        for n in 0..100_000 {
            outbox.send(heartbeat("a", &n.to_string()));
            outbox.send(heartbeat("b", "same"));
            outbox.send(heartbeat("", ""));
        }
        let expected = [
            heartbeat("a", "99999"),
            heartbeat("b", "same"),
            heartbeat("", ""),
        ];
        assert_eq!(sent(&mut outgoing), expected);
    }

    #[test]
    fn an_answer_replaces_the_heartbeats_of_its_task_and_nothing_else() {
        let (outbox, mut outgoing) = outbox();
        outbox.send(heartbeat("a", "1"));
        outbox.send(heartbeat("b", "1"));
        outbox.send(done("a"));
        outbox.send(heartbeat("b", "2"));
        assert_eq!(sent(&mut outgoing), [heartbeat("b", "2"), done("a")]);
    }

    #[test]
    fn what_was_put_in_is_sent_before_the_stream_ends() {
        let (outbox, mut outgoing) = outbox();
        outbox.send(done("a"));
        drop(outbox);
        assert!(outgoing.next().now_or_never().flatten().is_some());
        assert_eq!(outgoing.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_gateway_that_never_reads_ends_the_session_instead_of_filling_the_memory() {
        let (outbox, mut outgoing) = outbox();
        for n in 0..=MOST_MESSAGES {
            outbox.send(done(&n.to_string()));
        }
        assert_eq!(outgoing.next().now_or_never(), Some(None));
    }
}
