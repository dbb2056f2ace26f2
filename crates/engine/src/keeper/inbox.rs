//! What reaches the keeper, and the bound on how much of it may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use jiff::Timestamp;
use stateway_machine::Verb;
use stateway_model::{Progress, Usage};
use tokio::sync::{mpsc, oneshot};

use super::{DefinitionAsk, Mended};
use crate::error::Result;
use crate::recovery::{Finding, Recover};
use crate::request::{
    ActorName, Publish, Published, Purged, RequestKey, RetryFrom, Start, Steer, Survey,
};
use crate::worker::{Answer, Offer, Outcome, TaskToken, WorkerMessage};
use crate::{EngineError, ErrorKind};

/// What was found wrong in memory, by execution.
pub(crate) type Recalled = Vec<(i64, Vec<Finding>)>;

/// What reaches the keeper.
#[derive(Debug)]
pub(crate) enum Message {
    Ask(Box<Ask>),
    Connect {
        session: u64,
        offer: Offer,
        tell: mpsc::UnboundedSender<WorkerMessage>,
        /// The engine's own caller of HTTP steps, and nobody else.
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
    Look {
        id: Arc<str>,
        answer: oneshot::Sender<Answer>,
    },
    /// Puts right what contradicts an execution's log.
    Recover {
        id: Arc<str>,
        ask: Recover,
        actor: ActorName,
        request: RequestKey,
        answer: oneshot::Sender<Result<Mended>>,
    },
    /// Compares what is in memory of executions with what their logs say.
    Recall {
        /// Whose, and whether nothing else was found wrong.
        numbers: Vec<(i64, bool)>,
        answer: oneshot::Sender<Result<Recalled>>,
    },
    /// Looks at what is in memory of executions, and puts right what is wrong.
    Recheck {
        numbers: Vec<i64>,
    },
    /// What is kept of an execution contradicts its log.
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
    /// A receiver of events is there; it is answered where it goes on.
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
    Stop,
}

/// Where a receiver of events begins that was never there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkStart {
    /// With the oldest event there is.
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

/// The way to the keeper.
#[derive(Debug, Clone)]
pub(crate) struct Inbox {
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    most: usize,
    sessions: Arc<AtomicU64>,
}

impl Inbox {
    pub(super) fn new(most: usize) -> (Self, Receiver<Message>) {
        let (sender, messages) = channel();
        let inbox = Self {
            sender,
            waiting: Arc::default(),
            most,
            sessions: Arc::default(),
        };
        (inbox, messages)
    }

    /// Sends what someone waits for; refused when too much waits already.
    pub(crate) fn ask(&self, message: Message) -> Result<()> {
        if self.waiting.load(Ordering::Relaxed) >= self.most {
            return Err(EngineError::new(
                ErrorKind::Throttled,
                "ENGINE_BUSY",
                "the engine has as many requests waiting as it may",
            )
            .hint("Try again in a moment."));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender
            .send(message)
            .map_err(|_| EngineError::stopped())
    }

    /// Sends what nobody waits for. What workers say is bounded by what they were given.
    pub(crate) fn tell(&self, message: Message) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // An engine that has stopped needs to know nothing.
        let _ = self.sender.send(message);
    }

    /// A message was taken out.
    pub(super) fn taken(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
}

impl Message {
    /// Tells whoever waits that it cannot be done. What workers say is left unanswered, so that
    /// they say it again.
    pub(super) fn refuse(self, error: EngineError) {
        // Nobody waiting for the answer is no failure.
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
            Self::Look { answer, .. } => {
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
            | Self::SinkAt { .. }
            | Self::Drifted { .. }
            | Self::Recheck { .. }
            | Self::CloseSink { .. }
            | Self::Stop => {}
        }
    }
}
