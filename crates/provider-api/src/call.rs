//! The context of every call to a provider.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

/// The caller of a request that names none.
pub const ANONYMOUS: &str = "anonymous";

thread_local! {
    // Shared, because nearly every call of a platform service is anonymous. By one thread, because
    // threads that count the same references wait for each other.
    static NOBODY: Arc<str> = ANONYMOUS.into();
    static NO_ROLES: Arc<[Arc<str>]> = Arc::from([]);
}

/// Deadline, correlation and author of one call. A provider must not outlive the deadline.
#[derive(Debug, Clone)]
pub struct Call {
    /// When the caller stops listening.
    pub deadline: Instant,
    /// Correlates log lines of one client request. Not an idempotency key.
    pub correlation_id: Arc<str>,
    /// The caller, for the audit log and for the rules about approvals. Without authentication, a
    /// proxy in front of the gateway must guarantee it.
    pub actor: Arc<str>,
    /// The roles of the caller.
    pub roles: Arc<[Arc<str>]>,
}

impl Call {
    /// A call that may take this long from now on.
    #[must_use]
    pub fn within(budget: Duration) -> Self {
        Self {
            deadline: Instant::now() + budget,
            correlation_id: Arc::from(""),
            actor: Self::nobody(),
            roles: Self::no_roles(),
        }
    }

    /// [`ANONYMOUS`], shared.
    #[must_use]
    pub fn nobody() -> Arc<str> {
        NOBODY.with(Arc::clone)
    }

    /// No roles, shared.
    #[must_use]
    pub fn no_roles() -> Arc<[Arc<str>]> {
        NO_ROLES.with(Arc::clone)
    }

    /// How long the call may still take.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The idempotency key of a write: same id and same body give the same answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

/// A text that is not a request id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a request id is 1 to {} letters, digits, `-` or `_`",
    RequestId::MAX_LENGTH
)]
pub struct RequestIdError;

impl RequestId {
    /// All supported engines accept a key of this length.
    pub const MAX_LENGTH: usize = 64;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(id: &str) -> std::result::Result<Self, RequestIdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let good = (1..=Self::MAX_LENGTH).contains(&id.len()) && id.bytes().all(allowed);
        if good {
            Ok(Self(id.into()))
        } else {
            Err(RequestIdError)
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_bounded_and_plain() {
        for good in ["a", "7b0a1c9e-36f5-4a53-9c5c-0d6a0f1b2c3d", "A_1"] {
            assert_eq!(good.parse::<RequestId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(RequestId::MAX_LENGTH + 1);
        for wrong in ["", "a b", "a/b", "ä", "a\n", long.as_str()] {
            assert_eq!(wrong.parse::<RequestId>(), Err(RequestIdError));
        }
    }
}
