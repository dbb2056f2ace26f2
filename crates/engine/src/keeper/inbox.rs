//! What reaches the keeper, and the bound on how much of it may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use stateway_machine::Verb;
use stateway_model::{Progress, Usage};
use tokio::sync::{mpsc, oneshot};

use super::{DefinitionAsk, RecoveryResult};
use crate::error::Result;
use crate::recovery::{Finding, Recover};
use crate::request::{
    ActorName, Publish, Published, Purged, RequestKey, RetryFrom, Start, Steer, Survey,
};
use crate::worker::{Answer, Offer, Outcome, TaskToken, WorkerMessage};
use crate::{EngineError, ErrorKind, QueueCause, View};

/// The errors that were found in memory, by execution.
pub(crate) type Recalled = Vec<(i64, Vec<Finding>)>;

/// The messages to the keeper.
#[derive(Debug)]
pub(crate) enum Message {
    Ask(Box<Ask>),
    Connect {
        session: u64,
        offer: Offer,
        tell: mpsc::UnboundedSender<WorkerMessage>,
        /// Only the part of the engine that runs HTTP steps.
        http: bool,
    },
    Offer {
        session: u64,
        offer: Offer,
    },
    Settle {
        session: u64,
        token: TaskToken,
        outcome: Outcome,
        usage: Option<Usage>,
    },
    Heartbeat {
        session: u64,
        token: Option<TaskToken>,
        progress: Option<Progress>,
    },
    Gone {
        session: u64,
    },
    Definition(Box<DefinitionAsk>),
    Purge {
        ended_before: Timestamp,
        limit: usize,
        answer: oneshot::Sender<Result<Purged>>,
    },
    /// Removes one finished execution.
    Remove {
        id: Arc<str>,
        answer: oneshot::Sender<Result<()>>,
    },
    /// Shows an execution that is in memory.
    Get {
        id: Arc<str>,
        answer: oneshot::Sender<Answer>,
    },
    /// Repairs data that contradicts the log of an execution.
    Recover {
        id: Arc<str>,
        ask: Recover,
        actor: ActorName,
        request: RequestKey,
        answer: oneshot::Sender<Result<RecoveryResult>>,
    },
    /// Compares what is in memory of executions with what their logs say.
    Recall {
        /// Whose, and whether nothing else was found wrong.
        numbers: Vec<(i64, bool)>,
        answer: oneshot::Sender<Result<Recalled>>,
    },
    /// Compares the memory of executions with their logs, and repairs it.
    Recheck {
        numbers: Vec<i64>,
    },
    /// The stored data of an execution contradicts its log.
    Drifted {
        number: i64,
    },
    Publish {
        event: Box<Publish>,
        answer: oneshot::Sender<Result<Published>>,
    },
    Survey {
        answer: oneshot::Sender<Result<Survey>>,
    },
    /// Why executions that wait for a slot have not begun.
    QueueCauses {
        numbers: Vec<i64>,
        answer: oneshot::Sender<Result<Vec<(i64, QueueCause)>>>,
    },
    /// The executions of these ids that are in memory.
    Views {
        ids: Vec<Arc<str>>,
        answer: oneshot::Sender<Result<Vec<View>>>,
    },
    /// A sink will connect. Its events must stay from now on, whoever owns the store.
    ExpectSink {
        name: Arc<str>,
        from: SinkStart,
    },
    /// A sink connects; the answer is the position to continue from.
    OpenSink {
        name: Arc<str>,
        from: SinkStart,
        answer: oneshot::Sender<Result<i64>>,
    },
    /// A receiver has everything up to here.
    SinkAt {
        name: Arc<str>,
        position: i64,
        /// Whether that is worth writing down.
        keep: bool,
    },
    /// A receiver wants nothing any more.
    CloseSink {
        name: Arc<str>,
    },
    /// The turn before is on disk, or could not be written.
    Written,
    /// No message waits, and the turn before is still being written.
    Lull,
    Stop,
}

/// Where a receiver of events begins that was never there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkStart {
    /// With the oldest event.
    #[default]
    Beginning,
    /// With the next one.
    Now,
}

/// A request about an execution.
#[derive(Debug)]
pub(crate) enum Ask {
    Start {
        start: Start,
        answer: oneshot::Sender<Answer>,
    },
    Steer {
        id: Arc<str>,
        steer: Steer,
        actor: ActorName,
        request: RequestKey,
        answer: oneshot::Sender<Answer>,
    },
    Command {
        id: Arc<str>,
        verb: Verb,
        /// The branch of the log that the command is about; none: the present one.
        branch: Option<u32>,
        request: RequestKey,
        answer: oneshot::Sender<Answer>,
    },
    RetryFrom {
        id: Arc<str>,
        from: RetryFrom,
        actor: ActorName,
        request: RequestKey,
        answer: oneshot::Sender<Answer>,
    },
}

/// The most messages of one worker that wait for the keeper.
const MOST_UNREAD: usize = 256;

/// The way to the keeper.
#[derive(Debug, Clone)]
pub(crate) struct Inbox {
    sender: Sender<Envelope>,
    waiting: Arc<AtomicUsize>,
    most: usize,
    sessions: Arc<AtomicU64>,
}

/// A message on its way, and the count that it is part of until it is taken.
#[derive(Debug)]
pub(crate) struct Envelope {
    message: Message,
    counted: Counted,
}

/// Clients' requests and each worker's messages are counted apart: no worker uses up the backlog of
/// the clients.
#[derive(Debug)]
enum Counted {
    No,
    Request(Arc<AtomicUsize>),
    Worker(Arc<Unread>),
}

impl Drop for Counted {
    fn drop(&mut self) {
        match self {
            Self::No => {}
            Self::Request(waiting) => {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            Self::Worker(unread) => unread.taken(),
        }
    }
}

impl Envelope {
    /// The message, which waits no longer.
    pub(crate) fn open(self) -> Message {
        drop(self.counted);
        self.message
    }
}

/// The messages of one worker that wait for the keeper.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    count: AtomicUsize,
    /// The reader of the worker's stream, while it waits for room.
    reader: Mutex<Option<Waker>>,
}

impl Unread {
    /// Waits until the keeper has taken enough of the worker's messages.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.count.load(Ordering::Acquire) < MOST_UNREAD {
            return Poll::Ready(());
        }
        *self.reader() = Some(context.waker().clone());
        // The keeper may have taken messages before the waker was there.
        if self.count.load(Ordering::Acquire) < MOST_UNREAD {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn taken(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == MOST_UNREAD {
            let reader = self.reader().take();
            if let Some(reader) = reader {
                reader.wake();
            }
        }
    }

    fn reader(&self) -> MutexGuard<'_, Option<Waker>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    pub(crate) fn new(most: usize) -> (Self, Receiver<Envelope>) {
        let (sender, messages) = channel();
        let inbox = Self {
            sender,
            waiting: Arc::default(),
            most,
            sessions: Arc::default(),
        };
        (inbox, messages)
    }

    /// Sends a request that a client waits for; refused when too many wait already.
    pub(crate) fn ask(&self, message: Message) -> Result<()> {
        if self.waiting.load(Ordering::Relaxed) >= self.most {
            return Err(EngineError::new(
                ErrorKind::Throttled,
                "ENGINE_BUSY",
                "the engine's queue of requests is full",
            )
            .hint("Try again in a moment."));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let counted = Counted::Request(Arc::clone(&self.waiting));
        self.sender
            .send(Envelope { message, counted })
            .map_err(|_| EngineError::stopped())
    }

    /// Sends a message of another part of the engine, without waiting for an answer.
    pub(crate) fn tell(&self, message: Message) {
        let counted = Counted::No;
        // An engine that has stopped needs no messages.
        let _ = self.sender.send(Envelope { message, counted });
    }

    /// Sends a message of a worker. [`Unread::poll_room`] bounds how many of them wait.
    pub(crate) fn send_from(&self, worker: &Arc<Unread>, message: Message) {
        worker.count.fetch_add(1, Ordering::AcqRel);
        let counted = Counted::Worker(Arc::clone(worker));
        // An engine that has stopped needs no messages.
        let _ = self.sender.send(Envelope { message, counted });
    }

    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
}

impl Message {
    /// Answers the caller with an error. Workers get no answer, so they send again.
    pub(super) fn refuse(self, error: EngineError) {
        // The caller may have stopped waiting, which is not an error.
        match self {
            Self::Ask(ask) => {
                let (Ask::Start { answer, .. }
                | Ask::Steer { answer, .. }
                | Ask::Command { answer, .. }
                | Ask::RetryFrom { answer, .. }) = *ask;
                let _ = answer.send(Err(error));
            }
            Self::Definition(ask) => ask.refuse(error),
            Self::Purge { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Remove { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Get { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Recover { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Recall { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Publish { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Survey { answer } => {
                let _ = answer.send(Err(error));
            }
            Self::QueueCauses { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Views { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::OpenSink { answer, .. } => {
                let _ = answer.send(Err(error));
            }
            Self::Connect { tell, .. } => {
                let reason = error.reason;
                let _ = tell.send(WorkerMessage::Closed { reason });
            }
            Self::Offer { .. }
            | Self::Settle { .. }
            | Self::Heartbeat { .. }
            | Self::Gone { .. }
            | Self::ExpectSink { .. }
            | Self::SinkAt { .. }
            | Self::Drifted { .. }
            | Self::Recheck { .. }
            | Self::CloseSink { .. }
            | Self::Written
            | Self::Lull
            | Self::Stop => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat() -> Message {
        Message::Heartbeat {
            session: 1,
            token: None,
            progress: None,
        }
    }

    #[test]
    fn a_worker_has_room_again_once_the_keeper_has_taken_a_message() {
        let (inbox, messages) = Inbox::new(10);
        let unread = Arc::<Unread>::default();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..MOST_UNREAD {
            assert!(unread.poll_room(&mut context).is_ready());
            inbox.send_from(&unread, heartbeat());
        }
        assert!(unread.poll_room(&mut context).is_pending());
        messages.recv().expect("a message").open();
        assert!(unread.poll_room(&mut context).is_ready());
    }

    #[test]
    fn the_messages_of_workers_do_not_use_up_the_backlog_of_clients() {
        let (inbox, messages) = Inbox::new(1);
        let unread = Arc::<Unread>::default();
        for _ in 0..100 {
            inbox.send_from(&unread, heartbeat());
        }
        let survey = || {
            let (answer, _) = oneshot::channel();
            Message::Survey { answer }
        };
        inbox.ask(survey()).expect("there is room for one request");
        let busy = inbox.ask(survey()).expect_err("there is room for one");
        assert_eq!(busy.reason, "ENGINE_BUSY");
        while let Ok(envelope) = messages.try_recv() {
            envelope.open();
        }
        inbox.ask(survey()).expect("there is room again");
    }
}
