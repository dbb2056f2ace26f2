//! What an operator configures: one TOML file, then the environment, then flags.
//!
//! A flag beats the environment, the environment beats the file, the file beats the default.
//! Every key that is not known is refused with its line and column, and everything that can be
//! told about a file is told at once.

mod effective;
mod kind;
mod overlay;
mod problem;
mod read;
mod section;
mod source;
mod unusable;

pub use effective::{Config, ProviderConfig};
pub(crate) use kind::{BUILT_IN_STORE, StoreFailure, Unmade};
pub use kind::{Kind, KindError};
pub use overlay::table;
pub use problem::{ConfigError, Problem};
pub use section::{AllowedOrigin, Limits, Log, LogFormat, Otlp, Server, Watch};
pub use source::{Overrides, load};
