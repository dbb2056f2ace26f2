//! Generated code of the API in `proto/`. Our own are only the size of its buffers, the labels of
//! enum values and the quotes of filters.
//!
//! Only the gateway, the client and the dashboard know this crate: everything else speaks
//! `stateway-model`.

pub mod codec;
pub mod filter;
mod label;

/// Package `stateway.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("stateway.v1");
}

/// Every file of the API as an encoded descriptor set, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stateway.v1.bin"));
