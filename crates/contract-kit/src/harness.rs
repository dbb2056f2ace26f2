//! What an adapter brings so that the kit can test it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_model::{ExecutionId, Payload, SubState};
use stateway_provider_api::table::Scope;
use stateway_provider_api::{Capabilities, Limited, NativeState, Provider, Table};

/// Why something cannot be checked here. It is counted and printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// With this reason.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Makes providers of one kind.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The state table that the provider is mapped by.
    fn table(&self) -> Arc<Table>;

    /// Everything the adapter can do.
    fn capabilities(&self) -> Capabilities;

    /// A fresh provider with this table on a fresh and empty upstream. The table is [`table`], or the
    /// same with rows laid over it.
    ///
    /// [`table`]: Self::table
    ///
    /// # Errors
    /// There is no upstream here.
    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip>;
}

/// One provider and the upstream behind it.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The provider.
    fn provider(&self) -> Arc<dyn Provider>;

    /// The provider with these capabilities at most.
    fn limited(&self, allowed: Capabilities) -> Arc<dyn Provider> {
        Arc::new(Limited::to(self.provider(), allowed))
    }

    /// The time upstream.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// What the kit may start: something that stays open until it is ended.
    fn workload(&self) -> Workload;

    /// Brings an execution into being that shows this.
    ///
    /// # Errors
    /// The engine has no such thing.
    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip>;

    /// Disturbs the next call that reaches the upstream, and only that one.
    ///
    /// # Errors
    /// The upstream cannot be disturbed like that.
    async fn inject(&self, fault: Fault) -> Result<(), Skip>;

    /// Another provider on the same upstream, as after a restart of the gateway.
    ///
    /// # Errors
    /// The upstream does not outlive its provider.
    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip>;

    /// Waits until lists show an execution that was just started. Override this method only for an engine
    /// whose lists lag behind its writes.
    async fn until_listed(&self, _id: &ExecutionId) {}
}

/// What the kit may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// A native definition.
    pub definition: String,
    /// An input for it.
    pub input: Payload,
    /// Another input for it, which is just as good.
    pub other_input: Payload,
    /// An input that `retry_from` takes for the step it begins with; none where the provider takes
    /// no input there.
    pub step_input: Option<Payload>,
    /// `retry_from` takes feedback for the step it begins with.
    pub takes_feedback: bool,
    /// `retry_from` can run every step again.
    pub takes_from_start: bool,
}

/// What an execution is to show. It need not be reached in the engine's usual way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scene {
    /// A native state, of the execution or of one of its steps.
    Native {
        /// Of which of the two.
        scope: Scope,
        /// The word and its qualifiers.
        native: NativeState,
    },
    /// An open execution whose open steps show just these sub-states.
    Steps(Vec<SubState>),
    /// An open execution of which the upstream shows no attempts at all.
    NoMetadata,
    /// This attempt has failed and another one is scheduled, far from now.
    BackingOff {
        /// From 1.
        attempt: u32,
    },
    /// Waits for a signal of this name; after the signal, waits for a second one of the same name.
    AwaitingSignal {
        /// The signal.
        signal: String,
    },
    /// Waits for one approval. A person called `kit-decider` with its role may decide.
    AwaitingApproval,
    /// Stuck: only a resume helps.
    Stuck,
    /// Takes a while to clean up when it is cancelled.
    CleansUp,
    /// Finished, the work done.
    Succeeded,
    /// Finished, the work not done, after the step `first` succeeded and `second` failed.
    Failed,
}

/// How an upstream can fail a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No answer ever comes.
    Hang,
    /// The answer takes this long.
    Slow(Duration),
    /// It asks to slow down and names this pause.
    Throttle(Duration),
    /// It cannot be reached.
    Unavailable,
    /// Its answer makes no sense.
    Malformed,
    /// It refuses the operation to this gateway.
    Denied,
}
