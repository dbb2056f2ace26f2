//! The built-in durable engine: the shell around the pure core.
//!
//! The core (`stateway-machine`) decides what a command leads to; this crate makes it last and makes
//! it happen. One thread, the *keeper*, owns every execution that has something under way. It
//! works in turns: take what has come in, let the core decide, write everything the turn led to in
//! one transaction, and only when that is on disk let anything of it be seen: answers, tasks for
//! workers, news for watchers. So an answer is never given for what a crash could undo, and many
//! commands share one fsync.
//!
//! The log of events is the truth. A row per execution has its state, by which lists are filtered, and
//! the time at which the keeper must load it next; both follow from the log. Reads use their own
//! connections and see exactly what is on disk.
//!
//! [`Engine`] is the handle for every caller; `keeper` is the thread; `store` is
//! the file; [`WorkerSession`] is one connected worker; [`View`] is an execution as it is shown.

mod bug;
mod catalogue;
mod cause;
mod clock;
mod config;
mod coverage;
mod error;
mod fault;
mod handle;
mod http;
mod id;
mod in_memory;
mod keeper;
mod limits;
mod news;
mod policy;
mod reader;
pub mod recovery;
mod request;
mod retry_after;
mod set_aside;
#[cfg(feature = "simulation")]
pub mod simulation;
mod sink;
mod standing;
mod store;
mod summary;

mod view;
mod worker;

pub use clock::Clock;
pub use config::{Config, OPERATOR_ROLE, Retention};
pub use error::{EngineError, ErrorKind};
pub use fault::{Fate, Faults, Write};
pub use handle::Engine;
pub use http::{
    AllowError, AllowList, HTTP_WORKER, HttpCaller, HttpClient, HttpError, HttpSettings,
    MOST_ENTRIES, NotAllowed,
};
pub use id::Ids;
pub use keeper::SinkStart;
pub use limits::{DEFAULT_PAYLOAD_BYTES, most_payload_bytes, task_bytes};
pub use news::{Change, Changes, News, Removed};
pub use policy::{Policy, PolicyQuestion, PolicyVerdict, Ruling};
pub use request::{
    ActorName, AdoptDefinition, Applied, ApplyDefinition, BranchRecord, Damaged, Decide,
    DefinitionRecord, DeleteDefinition, DeletedDefinition, DisabledTrigger, EventRecord, HeldTask,
    ListQuery, Page, Publish, Published, Purged, QueueLine, RequestDigest, RequestKey, Resolve,
    RetryFrom, Scheduled, Start, Steer, StepRecord, Survey, SwitchTrigger, TaskLine, WorkerStatus,
};
pub use sink::{EVENT_NAMES, Secret, WebhookError, WebhookSettings, WebhookStatus, Webhooks};
pub use stateway_driver::parse_payload;
pub use stateway_driver::{MOST_PAGE_BYTES, detailed, summary};
pub use stateway_replay::{AttemptOutcome, AttemptRecord, Numbering, error_of, recording};
pub use store::{Password, PostgresConfig, SCHEMA_VERSION, StoreError, unpack};
pub use view::{Parent, PauseKind, QueueCause, View};
pub use worker::{Answers, Offer, Outcome, TaskToken, WorkerMessage, WorkerSession, WorkerTask};
