//! The gRPC services. Each method is translate, call, translate; what is common to all of them
//! (deadline, correlation, figures) is in [`shell`].

pub(crate) mod admin;
pub(crate) mod approvals;
pub(crate) mod definitions;
pub(crate) mod executions;
mod home;
mod oversize;
pub(crate) mod providers;
pub(crate) mod recovery;
mod shell;
pub(crate) mod triggers;
mod validate;
pub(crate) mod workers;

pub(crate) use shell::{Shell, ShellLimits};
