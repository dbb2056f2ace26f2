//! The gRPC services in front of the providers.
//!
//! A request comes in as protobuf, is checked and translated, goes through the provider's guard
//! (limit, timeout, breaker), comes back as an observation, is mapped, and leaves as protobuf.
//! Only this crate knows both protobuf and [`Provider`](stateway_provider_api::Provider).

mod settings;

pub use settings::{Settings, UpstreamSettings, WatchSettings};
