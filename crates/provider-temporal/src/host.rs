//! Portable executions that a host of Stateway runs inside Temporal.
//!
//! One workflow per object: `stateway.Execution/{id}` and `stateway.Definition/{name}`. A request to an object is
//! an update of its workflow. A host answers workflow tasks (the crate `stateway-host-temporal`). It records the
//! values that change as markers, and the view as the memo. So the history of the workflow is the storage of
//! the object, and reads need no host.
//!
//! - `objects`: names of workflows, updates, signals, markers and tags.
//! - `record`: the object of a workflow, from its history. Pure.
//! - `port`: requests and reads of the provider.
//! - `tasks`: the calls of a host.

mod config;
mod objects;
mod port;
mod record;
mod tasks;

pub use config::{HostConfig, HostOptions};
#[doc(hidden)]
pub use objects::{
    ACTIVITY, CLEARED, COPIED, ENDING_BYTES, LEFT, MAX_OBJECT_BYTES, MAX_STORED_BYTES,
    MAX_VALUE_BYTES, SIGNAL, TAGS, TASK_TIMEOUT, UPDATE, VALUES, in_memo, object_of, payload,
    payloads, tags, tags_payload, workflow_id, workflow_type,
};
pub use port::{TemporalHostedProvider, TemporalPort, hosted_provider};
#[doc(hidden)]
pub use record::{Continued, Input, Keep, Left, Record};
pub use stateway_hosted::provider::HttpSteps;
pub use tasks::TaskClient;
