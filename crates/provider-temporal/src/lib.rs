//! The adapter to Temporal: an execution is a workflow id, whichever run it is in.
//!
//! Everything is the gRPC API of the frontend, in the selection of `proto/`. The adapter keeps no state
//! of its own; what it remembers saves calls and can be lost.
//!
//! The pure part is `facts`, `steps`, `response`, `failure`, `payload`, `query`, `request` and `error`; the
//! shell is `client`, `codec`, `reader`, `list`, `count`, `history`, `definitions`, `start`, `signal`, `steer`, `watch` and
//! `provider`.
//!
//! [`host`] is the port of portable executions that run inside Temporal.

#[doc(hidden)]
pub mod api;
mod capability;
mod client;
mod codec;
mod config;
mod count;
mod definitions;
mod deleted;
mod error;
mod facts;
mod failure;
mod history;
pub mod host;
mod id;
mod list;
mod payload;
mod provider;
mod qualifier;
mod query;
mod quota;
mod reader;
mod request;
mod response;
mod signal;
mod start;
mod steer;
mod steps;
mod task_queue;
mod time;
mod watch;

pub use capability::CAPABILITIES;
pub use config::{Codec, Config, ConfigError, RequestQuotas, Tls};
pub use host::{HostConfig, HostOptions, hosted_provider};
pub use provider::TemporalProvider;

/// For the wire tests beside this crate: a recorded description and history, or a recorded row of a list, in;
/// observation out.
#[doc(hidden)]
pub mod wire {
    use stateway_provider_api::{Observation, Result, Verb};

    use crate::api::history::v1::HistoryEvent;
    use crate::api::workflow::v1::WorkflowExecutionInfo;
    use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
    use crate::task_queue::{QueueKind, Queues};

    /// What a description and the events of the same run show, if no worker polls these queues of
    /// workflow tasks (`false`) and activities (`true`).
    ///
    /// # Errors
    /// A description without an execution.
    pub fn observation(
        described: &DescribeWorkflowExecutionResponse,
        events: &[HistoryEvent],
        without_workers: &[(&str, bool)],
    ) -> Result<Observation> {
        let queue = |(name, activities): &(&str, bool)| {
            let kind = if *activities {
                QueueKind::Activity
            } else {
                QueueKind::Workflow
            };
            ((*name).to_owned(), kind)
        };
        let queues = Queues::without_workers(without_workers.iter().map(queue));
        crate::reader::recorded(described, events, &queues)
    }
    /// What a row of a list shows.
    ///
    /// # Errors
    /// A row without a workflow id.
    pub fn row(info: &WorkflowExecutionInfo) -> Result<Observation> {
        crate::response::row(Verb::List, info)
    }
}
