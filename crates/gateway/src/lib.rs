//! The gRPC services in front of the providers.
//!
//! A request comes in as protobuf, is checked and translated, goes through the provider's guard
//! (capability, breaker, limit, timeout), returns as an observation, is mapped, and leaves as
//! protobuf. Only this crate knows both protobuf and
//! [`Provider`](stateway_provider_api::Provider).

mod access;
mod audit;
mod authentication;
mod branch;
mod caller;
mod check;
mod convert;
mod deadline;
mod descriptor;
mod front;
mod list;
mod parent;
mod port;
mod quota;
pub mod replay;
mod server;
mod service;
mod settings;
mod similar;
mod status;
mod streams;
mod token;
mod upstream;
mod watch;

pub use access::{AccessError, AccessSettings, NO_RULES, RulesSource};
pub use audit::{AuditError, AuditLine, AuditLog, AuditSettings, AuditWebhook, LineEnd, OnFailure};
pub use authentication::{
    AuthenticationError, AuthenticationSettings, CliClientSettings, CliToken, JwksSource,
    JwtSettings, OidcSettings, SecretSource, SignInSettings, use_ring,
};
pub use check::check;
pub use front::{Origin, OriginError, PeerTlsError, TlsError};
pub use port::Port;
pub use quota::{Quota, QuotaRule, QuotaSettings};
pub use server::{Gateway, MetricsPage, Pages, StartError};
pub use settings::{
    PeerSettings, Settings, TlsSettings, TokenKey, UpstreamSettings, WatchSettings,
};
pub use status::{DOMAIN, provider_error};
