//! The Rust client of the Stateway API.
//!
//! [`Client`] has one method per call. Each method takes a [`Call`]: a message with a timeout,
//! built with [`Start::new`](Call), [`List::new`](Call) and so on. It returns the messages of the
//! API ([`v1`]), or an [`Error`] with a code and a reason.
//!
//! The client retries calls and resumes watches. If the gateway or a provider is unavailable, the
//! client retries the call a few times with the same request id. The client retries a write only if
//! the write is idempotent: starts, signals and retries need a provider with the
//! capabilities `start_idempotent`, `signal_idempotent`, `retry_now_idempotent` and
//! `retry_from_idempotent`, which the client reads before it retries ([`Call::at_least_once`]
//! retries without them). A write with an etag is not retried. A [`Watch`] resumes after a broken
//! connection.
//!
//! [`Worker`] takes tasks of steps from the gateway and answers them.
//!
//! ```no_run
//! use stateway_client::{Client, Start, Wait};
//!
//! # async fn run() -> Result<(), stateway_client::Error> {
//! let client = Client::connect("http://127.0.0.1:7380").await?;
//! let start = Start::new("providers/memory/definitions/hello").json(r#"{"name":"Ada"}"#);
//! let execution = client.start(start).await?;
//! let waited = client.wait(Wait::new(&execution.name)).await?;
//! println!("{}", stateway_client::word_of(waited.execution.unwrap_or_default().sub_state));
//! # Ok(())
//! # }
//! ```

mod back_off;
mod built_in;
mod call;
mod client;
mod connector;
mod error;
mod executions;
mod health;
mod identity;
mod list;
mod payload;
mod providers;
mod recovery;
mod security;
mod sub_state;
mod wait;
mod watch;
mod worker;

pub use call::{
    AdoptDefinition, ApplyDefinition, Backup, Call, Cancel, ConditionalWrite, Count,
    DecideApproval, DeleteDefinition, DisableTrigger, EnableTrigger, Events, Explain,
    ExportHistory, Get, GetApproval, GetDefinition, GetEscalation, GetProvider, GetQueue, GetStep,
    IdempotentCapability, List, ListApprovals, ListBranches, ListDefinitions, ListEscalations,
    ListProviders, ListWorkers, MigrateDefinition, Pause, Project, PublishEvent, Purge,
    PurgeExecutions, ReadPayload, Recover, Repeat, Replay, ResolveEscalation, Resume, RetryFrom,
    RetryNow, Signal, Start, ValidateDefinition, Verify, VerifyAll, Wait, WatchApprovals,
    WatchRequest, Write,
};
pub use client::{Client, DEFAULT_TIMEOUT};
pub use error::{Error, Violation};
pub use health::CheckHealth;
pub use list::Items;
pub use payload::PayloadParts;
pub use recovery::VerifyProgress;
pub use security::{Security, token_for};
pub use stateway_proto::filter::quoted;
pub use stateway_proto::v1;
pub use sub_state::{SUB_STATES, is_finished, sub_state_of, word_of};
pub use tonic::Code;
pub use watch::{Change, Watch, WatchMessage};
pub use worker::{Answer, Category, Done, Task, TaskError, Usage, Worker, WorkerNews};
