//! The Rust worker: takes step tasks from the gateway and answers them.
//!
//! ```no_run
//! use stateway_client::{Task, TaskError, Worker};
//!
//! # #[derive(serde::Deserialize)] struct Order { address: String }
//! # async fn label(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
//! # async fn run() -> Result<(), stateway_client::Error> {
//! Worker::new("http://127.0.0.1:7380")
//!     .role("shipping")
//!     .capacity(16)
//!     .run(|task: Task| async move {
//!         let order: Order = task.input()?;
//!         if order.address.is_empty() {
//!             return Err(TaskError::validation("the order has no address"));
//!         }
//!         Ok(label(&order.address).await?)
//!     })
//!     .await
//! # }
//! ```
//!
//! The worker reconnects under the same id. It sends each answer again until the gateway has stored
//! or refused it, and sends heartbeats. A handler that panics fails its task and nothing else. A
//! handler whose execution is cancelled is asked to stop ([`Task::cancelled`]), and its answer is
//! sent. When the worker stops, it finishes the tasks that have begun and gives back the others.

mod failure;
mod handler;
mod outbox;
mod session;
mod task;
mod task_records;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use stateway_proto::v1;

pub use failure::{Category, TaskError, Usage};
pub use handler::{Answer, Done};
pub use task::Task;

use crate::client::Gate;
use crate::identity::Identity;
use crate::{Error, Security};
use handler::{Handlers, boxed};
use session::Driver;

/// The default of [`Worker::drain`].
const DRAIN: Duration = Duration::from_secs(30);
/// This library, as operators see it.
const SDK: &str = concat!("stateway-rust/", env!("CARGO_PKG_VERSION"));

/// The settings of a worker. [`Worker::run`] or [`Worker::serve`] starts it.
#[must_use]
pub struct Worker {
    endpoint: String,
    offer: v1::Offer,
    handlers: Handlers,
    stop: BoxFuture<'static, ()>,
    drain: Duration,
    tell: Arc<dyn Fn(&WorkerNews) + Send + Sync>,
    identity: Identity,
    security: Security,
}

/// An event of the worker's connection, for information only.
#[derive(Debug, Clone)]
pub enum WorkerNews {
    /// The worker is connected and receives tasks.
    Connected {
        /// Its id.
        worker_id: String,
        /// How long it may be silent.
        lease: Duration,
    },
    /// The connection broke or could not be made; the worker retries.
    Interrupted(Error),
    /// An answer was too late or sent twice, so it is not recorded.
    Refused {
        /// Which task.
        task_token: String,
        /// The machine-readable reason.
        reason: String,
        /// The message for a person.
        message: String,
    },
    /// The worker stops: it finishes what has begun and takes nothing more.
    Stopping {
        /// The number of tasks in progress.
        under_way: usize,
    },
}

impl Worker {
    /// A worker for the gateway at this address, `http://127.0.0.1:7380` for example. It takes one
    /// task at a time unless [`Worker::capacity`] is set.
    pub fn new(endpoint: impl Into<String>) -> Self {
        let offer = v1::Offer {
            worker_id: uuid::Uuid::now_v7().to_string(),
            capacity: 1,
            sdk: SDK.to_owned(),
            ..v1::Offer::default()
        };
        Self {
            endpoint: endpoint.into(),
            offer,
            handlers: Handlers::default(),
            stop: std::future::pending().boxed(),
            drain: DRAIN,
            tell: Arc::new(|_| {}),
            identity: Identity::default(),
            security: Security::default(),
        }
    }

    /// Sets the identity of the worker: a person or a service (default: none). This identity cannot
    /// decide about approvals and escalations of the steps that the worker runs.
    ///
    /// # Errors
    /// A name that is empty or not plain ASCII without blanks.
    pub fn acting_as(mut self, actor: &str) -> Result<Self, Error> {
        self.identity = Identity::of(actor, [""; 0])?;
        Ok(self)
    }

    /// Connects with certificates or a token.
    pub fn security(mut self, security: &Security) -> Self {
        self.security = security.clone();
        self
    }

    /// Sets the version of the program, which operators see (default: none).
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.offer.version = version.into();
        self
    }

    /// Takes tasks of this role; can be called several times. A worker without a role takes only
    /// tasks that need no role.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.offer.roles.push(role.into());
        self
    }

    /// Adds a skill; can be called several times.
    pub fn skill(mut self, skill: impl Into<String>) -> Self {
        self.offer.skills.push(skill.into());
        self
    }

    /// The maximum number of tasks in progress (default: 1, which is also the minimum).
    pub fn capacity(mut self, tasks: u32) -> Self {
        self.offer.capacity = i32::try_from(tasks.max(1)).unwrap_or(i32::MAX);
        self
    }

    /// The maximum number of further tasks that the worker fetches in advance.
    pub fn prefetch(mut self, tasks: u32) -> Self {
        self.offer.prefetch = i32::try_from(tasks).unwrap_or(i32::MAX);
        self
    }

    /// Takes only tasks of this tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.offer.tenant = tenant.into();
        self
    }

    /// Works for this provider, `providers/{provider}` (default: the built-in engine).
    pub fn provider(mut self, provider: impl Into<String>) -> Self {
        self.offer.provider = provider.into();
        self
    }

    /// The id of the worker (default: random). Set an id if a restarted process must keep the tasks
    /// of its predecessor.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.offer.worker_id = id.into();
        self
    }

    /// Sets the handler of tasks with this action; takes precedence over [`Worker::on_role`].
    pub fn on<H, F, A>(mut self, action: impl Into<String>, handler: H) -> Self
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, TaskError>> + Send + 'static,
        A: Answer,
    {
        self.handlers
            .by_action
            .insert(action.into(), boxed(handler));
        self
    }

    /// Takes tasks of this role, and sets their handler.
    pub fn on_role<H, F, A>(mut self, role: impl Into<String>, handler: H) -> Self
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, TaskError>> + Send + 'static,
        A: Answer,
    {
        let role = role.into();
        if !self.offer.roles.contains(&role) {
            self.offer.roles.push(role.clone());
        }
        self.handlers.by_role.insert(role, boxed(handler));
        self
    }

    /// Stops when this resolves: the worker takes no more tasks, gives back tasks that have not
    /// begun, and finishes the others.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = stop.boxed();
        self
    }

    /// How long tasks that have begun may continue after a stop (default: 30 seconds). Then they
    /// are given back.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Receives the events of the connection.
    pub fn observe(mut self, tell: impl Fn(&WorkerNews) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Runs until the worker is stopped; this handler gets the tasks without their own handler.
    ///
    /// # Errors
    /// The address is not valid, or the gateway refuses this worker permanently: a role that it may
    /// not have, or a provider without workers. If the gateway cannot be reached, the worker waits.
    pub async fn run<H, F, A>(mut self, handler: H) -> Result<(), Error>
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, TaskError>> + Send + 'static,
        A: Answer,
    {
        self.handlers.otherwise = Some(boxed(handler));
        self.serve().await
    }

    /// Runs until the worker is stopped; tasks without a handler fail.
    ///
    /// # Errors
    /// The same as [`Worker::run`].
    pub async fn serve(mut self) -> Result<(), Error> {
        let channel = Gate::new(&self.endpoint, &self.security)?.connect_lazy();
        self.identity.token.clone_from(&self.security.token);
        Driver::new(channel, self).run().await
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("endpoint", &self.endpoint)
            .field("offer", &self.offer)
            .finish_non_exhaustive()
    }
}
