//! Generated code of the part of Temporal's API that this adapter uses, from `proto/`.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::wildcard_imports,
    rustdoc::all
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/temporal.rs"));
}

pub use generated::temporal::api::{
    activity, command, common, enums, errordetails, failure, history, namespace, protocol, query,
    schedule, sdk, taskqueue, update, workflow, workflowservice,
};

/// Every file of `proto/` as an encoded descriptor set, for tests that read recordings.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/temporal.bin"));
