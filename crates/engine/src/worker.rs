//! One connected worker: what it offers, what it is sent, what it answers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use stateway_machine::{Data, Failure, HttpRequest, Task};
use stateway_model::{Progress, Usage};
use tokio::sync::mpsc;

use crate::keeper::{Inbox, Message, Unread};
use crate::{EngineError, View};

/// The tasks that a worker can take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// The id of the worker; a worker that reconnects with the same id keeps its tasks.
    pub worker: Arc<str>,
    /// The roles of the worker; tasks without a role go to any worker.
    pub roles: Vec<Arc<str>>,
    /// The skills it has.
    pub skills: Vec<Arc<str>>,
    /// The maximum number of tasks that it has at one time, prefetched ones included.
    pub capacity: u32,
    /// The tenant whose tasks the worker takes; empty: all tenants.
    pub tenant: Arc<str>,
    /// The person or service in whose name it is connected; empty if none is named. They may not
    /// decide about the worker's steps. An offer on an open connection does not change it.
    pub identity: Arc<str>,
}

/// A message of the engine to a worker.
#[derive(Debug, Clone)]
pub enum WorkerMessage {
    /// A task to run.
    Task(Box<WorkerTask>),
    /// Stop the task if possible, and answer it in any case: the execution ends, and completed steps
    /// are compensated.
    Cancel {
        /// Which task.
        token: TaskToken,
    },
    /// The answer to this task is not wanted any more.
    Withdrawn {
        /// Which task.
        token: TaskToken,
        /// Why, as a stable word: NOT_NEEDED, CANCELLED, TIMED_OUT or WORKER_LOST.
        reason: &'static str,
    },
    /// An answer came too late or twice.
    Refused {
        /// Which task.
        token: TaskToken,
        /// Why, as a stable word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// The answer is on disk.
    Accepted {
        /// Which task.
        token: TaskToken,
    },
    /// The session is over: another worker connected with the same id, or the worker was silent for too
    /// long.
    Closed {
        /// Why, as a stable word.
        reason: &'static str,
    },
}

/// One attempt of a step, for a worker.
#[derive(Debug, Clone)]
pub struct WorkerTask {
    /// The token that the answer must have.
    pub token: TaskToken,
    /// The execution's id.
    pub execution: Arc<str>,
    /// Step, attempt, and whether it is a compensation.
    pub task: Task,
    /// The instruction, from the definition.
    pub action: Arc<str>,
    /// The input of the step.
    pub input: Data,
    /// The feedback of a validator on the previous attempt.
    pub feedback: Option<Arc<str>>,
    /// When the attempt times out.
    pub due: Option<Timestamp>,
    /// A compensation of a step that may or may not have completed.
    pub unknown: bool,
    /// How long the worker may be silent about it.
    pub heartbeat_timeout: Option<Duration>,
    /// The policy by which the worker picks its model.
    pub model_policy: Arc<str>,
    /// The role that the step asks for.
    pub role: Arc<str>,
    /// The HTTP call; only for the engine's own HTTP caller.
    pub(crate) http: Option<HttpRequest>,
}

/// Identifies one hand-out of one attempt; the answer must contain it. Opaque to workers.
///
/// The number of the hand-out is the fencing token: it grows with every hand-out of the step, so the
/// answer of a worker that had the attempt before is refused, whatever its id is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskToken {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    pub(crate) task: Task,
    /// Zero in a token of an older build, which had none.
    pub(crate) hand_out: u32,
}

impl TaskToken {
    /// The number of the execution. Unlike its id, no other execution ever gets it.
    #[must_use]
    pub const fn number(&self) -> i64 {
        self.number
    }

    /// Whether the token names this hand-out. A token without a number names the first one.
    pub(crate) fn is_of(&self, (task, branch, hand_out): (&Task, u32, u32)) -> bool {
        self.task == *task && self.branch == branch && self.hand_out.max(1) == hand_out.max(1)
    }
}

impl fmt::Display for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            branch,
            task,
            hand_out,
        } = self;
        let (attempt, step) = (task.attempt, &task.step);
        let kind = if task.undo { "u" } else { "d" };
        write!(f, "{number}.{branch}.{attempt}.{kind}{hand_out}.{step}")
    }
}

impl FromStr for TaskToken {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        parse_token(text).ok_or_else(|| {
            EngineError::new(
                crate::ErrorKind::InvalidArgument,
                "INVALID_TASK_TOKEN",
                "this is not a task token",
            )
            .hint("Answer with the token the task came with.")
        })
    }
}

fn parse_token(text: &str) -> Option<TaskToken> {
    let mut parts = text.splitn(5, '.');
    let number = parts.next()?.parse().ok()?;
    let branch = parts.next()?.parse().ok()?;
    let attempt = parts.next()?.parse().ok()?;
    let kind = parts.next()?;
    let (undo, hand_out) = match (kind.strip_prefix('u'), kind.strip_prefix('d')) {
        (Some(hand_out), _) => (true, hand_out),
        (_, Some(hand_out)) => (false, hand_out),
        _ => return None,
    };
    let hand_out = match hand_out {
        "" => 0,
        number => number.parse().ok()?,
    };
    let step = parts.next().filter(|step| !step.is_empty())?.into();
    let task = Task {
        step,
        attempt,
        undo,
    };
    Some(TaskToken {
        number,
        branch,
        task,
        hand_out,
    })
}

/// The outcome of an attempt.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The attempt succeeded.
    Completed {
        /// The output.
        output: Data,
    },
    /// The attempt failed.
    Failed(Failure),
    /// Given back; another worker may take it.
    Released {
        /// Whether the worker had begun and was cut off: the step may have taken effect.
        begun: bool,
    },
}

/// A connected worker. Dropping it reports to the engine that the connection is gone.
#[derive(Debug)]
pub struct WorkerSession {
    session: u64,
    inbox: Inbox,
    /// The messages to the worker; never more tasks than its capacity.
    pub messages: mpsc::UnboundedReceiver<WorkerMessage>,
    answers: Answers,
}

/// The answers and heartbeats of one session.
#[derive(Debug, Clone)]
pub struct Answers {
    session: u64,
    inbox: Inbox,
    unread: Arc<Unread>,
}

impl WorkerSession {
    /// Connects a worker. The session has a channel to the keeper and nothing else of the engine.
    pub(crate) fn connect(inbox: &Inbox, offer: Offer, http: bool) -> Result<Self, EngineError> {
        let (tell, messages) = mpsc::unbounded_channel();
        let session = inbox.next_session();
        inbox.ask(Message::Connect {
            session,
            offer,
            tell,
            http,
        })?;
        let answers = Answers {
            session,
            inbox: inbox.clone(),
            unread: Arc::default(),
        };
        Ok(Self {
            session,
            inbox: inbox.clone(),
            messages,
            answers,
        })
    }

    /// Sends the answers of the worker to the engine.
    #[must_use]
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

impl Answers {
    /// Waits until the engine takes more messages of this worker. The reader of the worker's stream
    /// asks before each message, so that a worker that sends faster than the engine reads is slowed
    /// down by its own connection, and by nothing else.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.unread.poll_room(context)
    }

    /// Changes the offer of the worker.
    pub fn offer(&self, offer: Offer) {
        let session = self.session;
        self.send(Message::Offer { session, offer });
    }

    fn send(&self, message: Message) {
        self.inbox.send_from(&self.unread, message);
    }

    /// Reports the outcome of an attempt. The engine answers with `Accepted` or `Refused`.
    pub fn settle(&self, token: TaskToken, outcome: Outcome, usage: Option<Usage>) {
        let session = self.session;
        self.send(Message::Settle {
            session,
            token,
            outcome,
            usage,
        });
    }

    /// Reports that the worker and one of its attempts are alive, with the progress of the attempt.
    pub fn heartbeat(&self, token: Option<TaskToken>, progress: Option<Progress>) {
        let session = self.session;
        self.send(Message::Heartbeat {
            session,
            token,
            progress,
        });
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        let session = self.session;
        self.inbox.tell(Message::Gone { session });
    }
}

/// The answer to a steering command.
pub(crate) type Answer = Result<Box<View>, EngineError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for (text, hand_out, undo) in [("7.0.2.d3.pay", 3, false), ("7.1.1.u1.a.b", 1, true)] {
            let token: TaskToken = text.parse().expect("a token");
            assert_eq!(token.to_string(), text);
            assert_eq!((token.hand_out, token.task.undo), (hand_out, undo));
        }
        for wrong in [
            "",
            "7.0.2.x1.pay",
            "7.0.2.d-1.pay",
            "7.0.2.d1",
            "7.0.2.d1.",
            "a.0.2.d1.pay",
        ] {
            assert!(wrong.parse::<TaskToken>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_names_one_hand_out() {
        let token: TaskToken = "7.0.2.d3.pay".parse().expect("a token");
        let task = token.task.clone();
        assert!(token.is_of((&task, 0, 3)));
        assert!(!token.is_of((&task, 0, 4)), "a straggler");
        assert!(!token.is_of((&task, 1, 3)), "another branch");
        let older: TaskToken = "7.0.2.d.pay".parse().expect("a token of an older build");
        assert!(older.is_of((&task, 0, 1)));
        assert!(!older.is_of((&task, 0, 2)));
    }
}
