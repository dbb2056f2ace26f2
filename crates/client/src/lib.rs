//! The Rust client of the Stateway API.
//!
//! [`Client`] has one method per call. What goes in is a [`Call`]: a message and how long it may
//! take, built with [`Start::new`](Call), [`List::new`](Call) and so on. What comes out are the
//! API's own messages ([`v1`]), or an [`Error`] that is typed all the way down to its reason.
//!
//! Two things are done for the caller and nothing else is. A call that found the gateway or a
//! provider unavailable is tried again, a few times, under the same request id. A write is tried
//! again only if it cannot happen twice: starts, signals and retries need a provider with the
//! capabilities `start_idempotent`, `signal_idempotent`, `retry_now_idempotent` and
//! `retry_from_idempotent`, which the client asks for before it repeats one
//! ([`Call::at_least_once`] repeats them anyway); a write that names an etag is left to the caller.
//! And a [`Watch`] continues after a broken connection from where it was.
//!
//! [`Worker`] is the other side: it takes step tasks from the gateway and answers them.
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
    ListProviders, ListWorkers, Pause, Project, PublishEvent, Purge, PurgeExecutions, ReadPayload,
    Recover, Repeat, Replay, ResolveEscalation, Resume, RetryFrom, RetryNow, Signal, Start,
    ValidateDefinition, Verify, VerifyAll, Wait, WatchApprovals, WatchRequest, Write,
};
pub use client::{Client, DEFAULT_TIMEOUT};
pub use error::{Error, Violation};
pub use health::CheckHealth;
pub use list::Items;
pub use payload::PayloadParts;
pub use recovery::VerifyProgress;
pub use security::Security;
pub use stateway_proto::filter::quoted;
pub use stateway_proto::v1;
pub use sub_state::{SUB_STATES, is_finished, sub_state_of, word_of};
pub use tonic::Code;
pub use watch::{Change, Watch, WatchMessage};
pub use worker::{Answer, Category, Done, Task, TaskError, Usage, Worker, WorkerNews};
