//! The configuration: one TOML file, then the environment, then flags.
//!
//! A flag overrides the environment, the environment the file, and the file the default.
//! An unknown key is refused with its line and column. All errors of a file are reported
//! together.

mod access;
mod audit;
mod authentication;
mod effective;
mod kind;
mod overlay;
mod problem;
mod quotas;
mod read;
mod section;
mod source;
mod unusable;

pub use access::Access;
pub use audit::Audit;
pub use authentication::Authentication;
pub use effective::{Config, ProviderConfig};
pub(crate) use kind::{BUILT_IN_STORE, StoreFailure, Unmade, check_shared_store};
pub use kind::{Kind, KindError};
pub use overlay::table;
pub use problem::{ConfigError, Problem};
pub use quotas::Quotas;
pub use section::{
    AllowedOrigin, Limits, Log, LogFormat, Otlp, Peers, SecretText, Server, Tls, Watch,
};
pub(crate) use source::load_all;
pub use source::{Overrides, load};
