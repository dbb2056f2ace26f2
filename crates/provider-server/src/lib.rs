//! Serves any [`Provider`](stateway_provider_api::Provider) to gateways in other processes, by the contract
//! in `proto/stateway/provider/v1`.
//!
//! ```text
//! let server = ProviderServer::new(provider, About::new("acme-jobs", "1.0"));
//! serve(Listener::unix("/run/acme.sock")?, server.routes(), shutdown).await?;
//! ```
//!
//! The gateway's side is `stateway-provider-remote`.

mod identity;
mod listener;
mod provider;
mod server;
mod source;
mod stop;
mod watch;

pub use listener::{Connection, Listener, TlsFiles};
pub use server::{About, ProviderServer, serve};
pub use source::{Fixed, Source};
