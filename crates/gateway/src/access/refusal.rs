//! The answers to what is denied.

use stateway_access::Permission;
use stateway_model::ExecutionName;
use stateway_provider_api::{Error, Verb};
use tonic::{Code, Status};

use crate::status::{self, Refusal};

/// The answer to a caller that may not do this. It depends on the request and on what the caller may read.
pub(super) fn denied(permission: Permission, what: &str) -> Status {
    let message = format!("no access rule allows you to {} {what}", verb(permission));
    Refusal::new(Code::PermissionDenied, "ACCESS_DENIED", message)
        .with("permission", permission.as_str())
        .hint(format!(
            "A rule must give the permission `{permission}` to you. On the machine of the gateway, \
             `stateway access explain` shows what each rule lacks."
        ))
        .into()
}

/// The answer for an execution that does not exist, and for one that the caller may not know of.
pub(super) fn hidden(name: &ExecutionName) -> Status {
    status::of_provider(&name.provider, &Error::not_found(Verb::Get, &name.id))
}

/// The end of a stream whose caller may do something else by now.
pub(crate) fn changed() -> Status {
    let message = "the access rules have changed for you";
    Refusal::new(Code::Aborted, "ACCESS_CHANGED", message)
        .hint("Open the stream again, without a cursor. It shows what you may read now.")
        .retry_after(std::time::Duration::ZERO)
        .into()
}

const fn verb(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "read",
        Permission::ReadPayloads => "read the payloads of",
        Permission::Start => "start",
        Permission::Signal => "signal",
        Permission::Approve => "decide about",
        Permission::Steer => "steer",
        Permission::Stop => "stop",
        Permission::Define => "define",
        Permission::Work => "work for",
        Permission::Operate => "operate",
    }
}
