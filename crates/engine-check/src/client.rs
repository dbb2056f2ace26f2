//! Clients: their requests and the answers they got.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_engine::{
    ApplyDefinition, Decide, DeleteDefinition, Engine, EngineError, Publish, RequestDigest,
    RequestKey, Resolve, RetryFrom, Start, Steer, SwitchTrigger,
};
use stateway_machine::{CancelMode, Data, Resolution};

/// What a client wants.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    Start {
        definition: &'static str,
        id: Option<Arc<str>>,
        input: Data,
        tenant: &'static str,
        /// The number of further labels.
        labels: usize,
        not_before: Option<Timestamp>,
    },
    Steer {
        execution: Arc<str>,
        steer: Steer,
    },
    Decide {
        execution: Arc<str>,
        step: Arc<str>,
        attempt: u32,
        branch: u32,
        grant: bool,
    },
    Resolve {
        execution: Arc<str>,
        step: Arc<str>,
        attempt: u32,
        branch: u32,
        resolution: Resolution,
    },
    RetryFrom {
        execution: Arc<str>,
        step: Arc<str>,
    },
    Publish {
        payload: Data,
    },
    Purge {
        before: Timestamp,
    },
    Remove {
        execution: Arc<str>,
    },
    Apply {
        source: &'static str,
    },
    Delete {
        definition: &'static str,
    },
    SwitchTrigger {
        definition: &'static str,
        enabled: bool,
    },
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Execution(Arc<str>),
    Published(Vec<Arc<str>>),
    Done,
}

/// One request, which may be sent several times.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: RequestKey,
    pub(crate) wish: Wish,
    /// The first reply that was no error.
    pub(crate) acknowledged: Option<Reply>,
    /// It was sent and a crash came before the answer. If its write was torn, recovery stored the
    /// request from the log, which has the id and not the body.
    pub(crate) interrupted: bool,
}

pub(crate) type Answer = Result<Reply, EngineError>;
type Asked = Pin<Box<dyn Future<Output = Answer>>>;

/// A request that was sent and has no answer yet.
pub(crate) struct Pending {
    pub(crate) request: usize,
    /// Sent with another body than the first time.
    pub(crate) altered: bool,
    /// Sent to a process that has lost the disk.
    pub(crate) deposed: bool,
    future: Asked,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl Pending {
    /// The answer, if the last turn gave one.
    pub(crate) fn poll(&mut self) -> Option<Answer> {
        let mut context = Context::from_waker(Waker::noop());
        match self.future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }
}

/// All requests of clients, with their answers.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) requests: Vec<Request>,
    /// Executions that a purge may have removed: they had ended when one was sent.
    pub(crate) removable: BTreeSet<Arc<str>>,
    /// The payloads of starts and events, by request id.
    pub(crate) inputs: BTreeMap<Arc<str>, Data>,
}

impl Book {
    /// A new request.
    pub(crate) fn write(&mut self, wish: Wish) -> usize {
        let place = self.requests.len();
        let id: Arc<str> = format!("q{place}").into();
        let key = RequestDigest::new("Simulated", "ada").text(&id);
        let key = key.key(Arc::clone(&id));
        if let Wish::Start { input, .. } | Wish::Publish { payload: input } = &wish {
            self.inputs.insert(Arc::clone(&id), Arc::clone(input));
        }
        self.requests.push(Request {
            key,
            wish,
            acknowledged: None,
            interrupted: false,
        });
        place
    }

    /// A crash came before the answer to this one.
    pub(crate) fn interrupt(&mut self, pending: &Pending) {
        if let Some(request) = self.requests.get_mut(pending.request) {
            request.interrupted = true;
        }
    }

    /// Sends a request.
    pub(crate) fn send(&self, place: usize, engine: &Engine, altered: bool) -> Option<Pending> {
        let request = self.requests.get(place)?;
        let mut key = request.key.clone();
        if altered {
            key.body[15] ^= 1;
        }
        let mut pending = Pending {
            request: place,
            altered,
            deposed: false,
            future: ask(engine.clone(), request.wish.clone(), key),
        };
        // The first poll puts the message into the inbox of the engine. An answer without a turn is a
        // refusal by the handle; the next poll must not see a finished future.
        if let Some(answer) = pending.poll() {
            pending.future = Box::pin(std::future::ready(answer));
        }
        Some(pending)
    }
}

/// A payload that nothing else has.
pub(crate) fn payload(nonce: usize) -> Data {
    Data::new(json!({ "nonce": nonce }))
}

/// A payload that nothing else has, nearly as large as a payload may be.
pub(crate) fn padded(nonce: usize) -> Data {
    Data::new(json!({ "nonce": nonce, "padding": "x".repeat(900) }))
}

/// A payload of this many nested arrays.
pub(crate) fn deep(levels: usize) -> Data {
    let nested = (0..levels).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    Data::new(nested)
}

/// A payload of about this many bytes.
pub(crate) fn large(bytes: usize) -> Data {
    Data::new(Value::from("x".repeat(bytes)))
}

fn execution(view: &stateway_engine::View) -> Reply {
    Reply::Execution(Arc::clone(&view.id))
}

fn ask(engine: Engine, wish: Wish, request: RequestKey) -> Asked {
    let actor: Arc<str> = "ada".into();
    let boss: Arc<str> = "bob".into();
    Box::pin(async move {
        match wish {
            Wish::Start {
                definition,
                id,
                input,
                tenant,
                labels: further,
                not_before,
            } => {
                let further = (0..further).map(|label| (format!("l{label}"), "x".to_owned()));
                let mut labels: BTreeMap<_, _> = further.collect();
                if !tenant.is_empty() {
                    labels.insert("tenant".to_owned(), tenant.to_owned());
                }
                let start = Start {
                    definition: definition.into(),
                    id,
                    input,
                    labels,
                    not_before,
                    actor,
                    request,
                };
                engine.start(start).await.map(|view| self::execution(&view))
            }
            Wish::Steer { execution, steer } => {
                let done = engine.steer(execution, steer, actor, request).await;
                done.map(|view| self::execution(&view))
            }
            Wish::Decide {
                execution,
                step,
                attempt,
                branch,
                grant,
            } => {
                let decide = Decide {
                    step,
                    attempt,
                    branch: Some(branch),
                    grant,
                    roles: vec!["boss".into()],
                    comment: "".into(),
                };
                let done = engine.decide(execution, decide, boss, request).await;
                done.map(|view| self::execution(&view))
            }
            Wish::Resolve {
                execution,
                step,
                attempt,
                branch,
                resolution,
            } => {
                let resolve = Resolve {
                    step,
                    attempt,
                    branch: Some(branch),
                    roles: vec!["operator".into(), "boss".into()],
                    resolution,
                    comment: "".into(),
                    compensate: None,
                };
                let done = engine.resolve(execution, resolve, boss, request).await;
                done.map(|view| self::execution(&view))
            }
            Wish::RetryFrom { execution, step } => {
                let from = RetryFrom {
                    from_start: step.is_empty(),
                    step,
                    roles: vec!["operator".into(), "boss".into()],
                    ..RetryFrom::default()
                };
                let done = engine.retry_from(execution, from, actor, request).await;
                done.map(|view| self::execution(&view))
            }
            Wish::Publish { payload } => {
                let event = Publish {
                    name: "order".to_owned(),
                    payload,
                    id: request.id,
                    labels: BTreeMap::new(),
                    actor,
                };
                let done = engine.publish(event).await;
                done.map(|published| Reply::Published(published.started))
            }
            Wish::Purge { before } => engine.purge(before, 100).await.map(|_| Reply::Done),
            Wish::Remove { execution } => engine.remove(execution).await.map(|()| Reply::Done),
            Wish::Apply { source } => {
                let apply = ApplyDefinition {
                    source: source.to_owned(),
                    source_name: "applied.yaml".to_owned(),
                    request: Some(request),
                };
                engine.apply(apply).await.map(|_| Reply::Done)
            }
            Wish::Delete { definition } => {
                let delete = DeleteDefinition {
                    name: definition.into(),
                    keep_running: true,
                    request,
                };
                let done = engine.delete_definition(delete).await;
                done.map(|_| Reply::Done)
            }
            Wish::SwitchTrigger {
                definition,
                enabled,
            } => {
                let switch = SwitchTrigger {
                    name: definition.into(),
                    enabled,
                    actor,
                    comment: "".into(),
                    request,
                };
                let done = engine.switch_trigger(switch).await;
                done.map(|_| Reply::Done)
            }
        }
    })
}

/// The wish to end an execution immediately.
pub(crate) fn kill(execution: Arc<str>) -> Wish {
    let steer = Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "".into(),
    };
    Wish::Steer { execution, steer }
}
