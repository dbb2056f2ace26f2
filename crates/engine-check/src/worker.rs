//! Workers: the tasks they have, and the answers they sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_engine::{Answers, Engine, Offer, Outcome, TaskToken, WorkerMessage, WorkerSession};
use stateway_machine::{Failure, Task};
use stateway_model::ErrorCategory;

use crate::client::{deep, padded, payload};
use crate::world::MESSAGE_BYTES;

/// A worker, connected or not.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: Arc<str>,
    pub(crate) session: Option<Session>,
    /// Every task it was ever given, the latest last.
    pub(crate) past: Vec<ReceivedTask>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    messages: WorkerSession,
    pub(crate) answers: Answers,
    /// The tasks it has, by token.
    pub(crate) held: BTreeMap<String, ReceivedTask>,
    /// Answers without a reply: the token and the place in the list of answers.
    waiting: Vec<(String, usize)>,
    /// Connected to a process that has lost the disk.
    pub(crate) deposed: bool,
}

/// A task as a worker got it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedTask {
    pub(crate) token: TaskToken,
    pub(crate) execution: Arc<str>,
    pub(crate) task: Task,
}

/// What an answer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Completed,
    /// Completed with an output that is nearly too large: what refers to it several times is too large.
    Large,
    /// Completed with an output that is too large, which is a failure of the worker.
    Oversize,
    /// Completed with an output that is too deep, which is a failure of the worker.
    Deep,
    Failed,
    Released,
}

/// An answer that was sent.
#[derive(Debug)]
pub(crate) struct SentAnswer {
    pub(crate) given: ReceivedTask,
    pub(crate) said: AnswerKind,
    /// What nothing else in the log has.
    pub(crate) nonce: usize,
    pub(crate) accepted: bool,
}

impl Worker {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            session: None,
            past: Vec::new(),
        }
    }

    pub(crate) fn offer(&self, roles: &[&str], capacity: u32) -> Offer {
        Offer {
            worker: Arc::clone(&self.id),
            roles: roles.iter().map(|role| Arc::from(*role)).collect(),
            capacity,
            ..Offer::default()
        }
    }

    pub(crate) fn connect(&mut self, engine: &Engine, offer: Offer, deposed: bool) {
        if let Ok(session) = engine.connect(offer) {
            self.session = Some(Session {
                answers: session.answers(),
                messages: session,
                held: BTreeMap::new(),
                waiting: Vec::new(),
                deposed,
            });
        }
    }

    /// Reads what the engine sent. Calls `accepted` with the place of each accepted answer; returns
    /// what is wrong.
    pub(crate) fn read(
        &mut self,
        mut note: impl FnMut(&str, &WorkerMessage),
        mut accepted: impl FnMut(usize),
    ) -> Result<(), String> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let mut closed = false;
        while let Ok(message) = session.messages.messages.try_recv() {
            note(&self.id, &message);
            match message {
                WorkerMessage::Task(task) => {
                    let bytes = task.input.to_string().len();
                    if bytes > MESSAGE_BYTES {
                        return Err(format!("{} gets a task of {bytes} bytes", self.id));
                    }
                    let given = ReceivedTask {
                        token: task.token,
                        execution: task.execution,
                        task: task.task,
                    };
                    self.past.push(given.clone());
                    session.held.insert(given.token.to_string(), given);
                }
                WorkerMessage::Cancel { .. } => {}
                WorkerMessage::Withdrawn { token, .. } => {
                    session.held.remove(&token.to_string());
                }
                WorkerMessage::Refused { token, .. } => {
                    session.replied(&token.to_string());
                }
                WorkerMessage::Accepted { token } => {
                    let token = token.to_string();
                    let mut given = self.past.iter().map(|given| given.token.to_string());
                    if !given.any(|given| given == token) {
                        return Err(format!("{} never had {token}, which was accepted", self.id));
                    }
                    match session.replied(&token) {
                        Some(place) => accepted(place),
                        None => return Err(format!("{}: {token} accepted unasked", self.id)),
                    }
                }
                WorkerMessage::Closed { .. } => closed = true,
            }
        }
        if closed {
            self.session = None;
        }
        Ok(())
    }
}

impl Session {
    /// A reply arrived: the answer it is for. Replies come in the order of the answers.
    fn replied(&mut self, token: &str) -> Option<usize> {
        self.held.remove(token);
        let at = self.waiting.iter().position(|(of, _)| of == token)?;
        Some(self.waiting.remove(at).1)
    }

    /// Sends an answer that gets this place in the list of answers.
    pub(crate) fn answer(
        &mut self,
        given: ReceivedTask,
        said: AnswerKind,
        place: usize,
    ) -> SentAnswer {
        let token = given.token.clone();
        self.waiting.push((token.to_string(), place));
        let outcome = match said {
            AnswerKind::Completed => Outcome::Completed {
                output: payload(place),
            },
            AnswerKind::Large => Outcome::Completed {
                output: padded(place),
            },
            AnswerKind::Deep => Outcome::Completed { output: deep(70) },
            AnswerKind::Oversize => Outcome::Completed {
                output: crate::client::large(3_000),
            },
            AnswerKind::Failed => Outcome::Failed(Failure::reported(
                ErrorCategory::Transient,
                format!("nonce {place}"),
            )),
            AnswerKind::Released => Outcome::Released { begun: false },
        };
        self.answers.settle(token, outcome, None);
        SentAnswer {
            given,
            said,
            nonce: place,
            accepted: false,
        }
    }
}
