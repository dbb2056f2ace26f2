//! The contract of providers over gRPC: the generated code of `proto/stateway/provider/v1`, and its
//! conversion to the types of [`Provider`](stateway_provider_api::Provider), in both directions.
//!
//! Everything here is pure. Its users are the server that exposes a provider (`provider-server`), the
//! provider that calls such a server (`provider-remote`) and the tests over the wire (`conformance`).
//! Encoding never fails. Decoding does, with a [`Misfit`] that names the field.

mod capability;
pub mod codec;
mod deadline;
mod definition;
mod error;
mod event;
mod misfit;
mod observation;
mod parts;
mod request;
mod state;
mod status;
mod steer;
mod table;
mod time;

pub use capability::{CAPABILITIES, capabilities, capability_names};
pub use deadline::deadline;
pub use misfit::Misfit;
pub use status::{MAX_DETAIL_BYTES, error_of, status_of};
pub use table::table_text;

/// Generated code of the package `stateway.provider.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("stateway.provider.v1");
}

/// Encoding and decoding, by type: `wire::convert::observation(&seen)`.
pub mod convert {
    pub use crate::definition::{
        apply_request, definition, definitions_page, problems, read_apply_request, read_definition,
        read_definitions_page, read_problems,
    };
    pub use crate::error::{detail, read_detail};
    pub use crate::event::{event, history_page, read_event, read_history_page};
    pub use crate::observation::{observation, read_observation};
    pub use crate::parts::{payload, read_payload};
    pub use crate::request::{
        context, counts, hints, history_request, list_page, read_call, read_counts, read_cursor,
        read_hints, read_history_request, read_id, read_list_page, read_page_size,
        read_start_request, read_view, start_request, view,
    };
    pub use crate::state::{native_state, read_native_state, read_sub_state, sub_state};
    pub use crate::steer::{
        cancel_request, pause_request, purge_request, read_cancel_request, read_pause_request,
        read_purge_request, read_resume_request, read_retry_from_request, read_retry_now_request,
        read_signal_request, resume_request, retry_from_request, retry_now_request, signal_request,
    };
    pub use crate::time::{duration, read_duration, read_timestamp, timestamp};
}

/// Every file of the contract as an encoded descriptor set, for reflection.
pub const DESCRIPTORS: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/stateway.provider.v1.bin"));

/// The version of the contract that this build speaks. There is no other one.
pub const CONTRACT_VERSION: i32 = 1;

/// The largest message in both directions, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// The most entries in the repeated fields of a message, in all depths.
pub const MAX_ENTRIES: usize = 50_000;

/// The largest state table, in bytes.
pub const MAX_TABLE_BYTES: usize = 256 * 1024;

/// The longest cursor, in bytes.
pub const MAX_CURSOR_BYTES: usize = 2 * 1024;

/// The most groups of one CountExecutions.
pub const MAX_GROUPS: usize = 1_000;

/// The most ids of one ObserveExecutions.
pub const MAX_OBSERVED: usize = 1_000;
