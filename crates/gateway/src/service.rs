//! The gRPC services. Each method is translate, call, translate; what is common to all of them
//! (deadline, correlation, figures) is in [`shell`].

pub(crate) mod executions;
pub(crate) mod providers;
mod shell;
pub(crate) mod unbacked;
mod validate;

pub(crate) use shell::Shell;
