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
//! What is done for the caller: the connection is taken up again under the same id; answers are
//! sent again until the gateway has them on disk or refuses them; the gateway is told regularly
//! that the worker lives; a handler that panics fails its task and nothing else; a handler whose
//! execution is cancelled is asked to stop ([`Task::cancelled`]) and its answer is sent; a stop
//! finishes the tasks that have begun and gives back those that have not.

mod desk;
mod failure;
mod handler;
mod outbox;
mod session;
mod task;

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

/// How long handlers may go on after a stop, unless the worker says otherwise.
const DRAIN: Duration = Duration::from_secs(30);

/// A worker that is being put together. [`Worker::run`] or [`Worker::serve`] lets it work.
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

/// What a worker tells beside doing its work. It need not be acted upon.
#[derive(Debug, Clone)]
pub enum WorkerNews {
    /// The gateway knows the worker and sends it tasks.
    Connected {
        /// Its id.
        worker_id: String,
        /// How long it may be silent.
        lease: Duration,
    },
    /// The connection broke or could not be made; the worker tries again by itself.
    Interrupted(Error),
    /// An answer came too late or twice; what was done is not recorded.
    Refused {
        /// Which task.
        task_token: String,
        /// Why, as a stable word.
        reason: String,
        /// Why, for a person.
        message: String,
    },
    /// The worker stops: it finishes what has begun and takes nothing more.
    Stopping {
        /// How many tasks it still works on.
        under_way: usize,
    },
}

impl Worker {
    /// A worker for the gateway at this address, `http://127.0.0.1:7380` for example. It takes
    /// one task at a time until it is told otherwise.
    pub fn new(endpoint: impl Into<String>) -> Self {
        let offer = v1::Offer {
            worker_id: uuid::Uuid::now_v7().to_string(),
            capacity: 1,
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

    /// Works in the name of this person or service (default: nobody in particular). They cannot decide
    /// about approvals and escalations of the steps that the worker runs.
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

    /// Takes tasks of this role; may be said several times. A worker without a role takes only
    /// tasks that ask for none.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.offer.roles.push(role.into());
        self
    }

    /// Has this skill; may be said several times.
    pub fn skill(mut self, skill: impl Into<String>) -> Self {
        self.offer.skills.push(skill.into());
        self
    }

    /// How many tasks are worked on at once; at least one.
    pub fn capacity(mut self, tasks: u32) -> Self {
        self.offer.capacity = i32::try_from(tasks.max(1)).unwrap_or(i32::MAX);
        self
    }

    /// How many tasks may lie ready beside those, so that none has to be waited for.
    pub fn prefetch(mut self, tasks: u32) -> Self {
        self.offer.prefetch = i32::try_from(tasks).unwrap_or(i32::MAX);
        self
    }

    /// Takes only tasks of this tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.offer.tenant = tenant.into();
        self
    }

    /// Works for this provider, `providers/{provider}`; for the gateway's own engine otherwise.
    pub fn provider(mut self, provider: impl Into<String>) -> Self {
        self.offer.provider = provider.into();
        self
    }

    /// Chooses the worker's id. A random one is made otherwise; choose it where the process that
    /// comes after a crash is to take up the tasks of the one before.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.offer.worker_id = id.into();
        self
    }

    /// Does tasks with this action; it goes before [`Worker::on_role`].
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

    /// Does tasks of this role, and takes them.
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

    /// Stops when this resolves: nothing more is taken, what lies ready is given back, what has
    /// begun may finish.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = stop.boxed();
        self
    }

    /// How long what has begun may go on after a stop; 30 seconds otherwise. What is not done by
    /// then is given back.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Is told what happens to the connection.
    pub fn observe(mut self, tell: impl Fn(&WorkerNews) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Works until it is stopped; tasks without a handler of their own go to this one.
    ///
    /// # Errors
    /// The address is not one, or the gateway will never take this worker: a role that it may
    /// not have, a provider without workers. A gateway that cannot be reached is waited for.
    pub async fn run<H, F, A>(mut self, handler: H) -> Result<(), Error>
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, TaskError>> + Send + 'static,
        A: Answer,
    {
        self.handlers.otherwise = Some(boxed(handler));
        self.serve().await
    }

    /// Works until it is stopped; tasks without a handler fail.
    ///
    /// # Errors
    /// As [`Worker::run`].
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
