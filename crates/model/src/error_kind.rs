//! The kinds of errors: one closed list for every engine and every layer.

/// What kind of failure it is. The gateway maps each kind to one gRPC code, in one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The execution, definition or step does not exist.
    NotFound,
    /// It exists already, with other content.
    AlreadyExists,
    /// The request itself is wrong, whatever the state.
    InvalidArgument,
    /// The request is right, but not in the present state.
    FailedPrecondition,
    /// Someone else was faster: read again, then decide.
    Conflict,
    /// The provider cannot do this, ever.
    Unsupported,
    /// The engine asks to slow down, or a quota is used up.
    Throttled,
    /// The engine cannot be reached or is not ready. Nothing is known of the outcome of a write.
    Unavailable,
    /// No answer in time. Nothing is known of the outcome of a write.
    Timeout,
    /// The engine refuses this operation to this gateway or this person.
    PermissionDenied,
    /// The engine's answer cannot be understood.
    Malformed,
    /// The stored data is damaged and cannot be read.
    DataLoss,
    /// A cursor or page token is too old to continue from.
    Expired,
    /// A defect on our side.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::NotFound,
        Self::AlreadyExists,
        Self::InvalidArgument,
        Self::FailedPrecondition,
        Self::Conflict,
        Self::Unsupported,
        Self::Throttled,
        Self::Unavailable,
        Self::Timeout,
        Self::PermissionDenied,
        Self::Malformed,
        Self::DataLoss,
        Self::Expired,
        Self::Internal,
    ];

    /// The kind as a word, for error details that cross a process border.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Conflict => "CONFLICT",
            Self::Unsupported => "UNSUPPORTED",
            Self::Throttled => "THROTTLED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Timeout => "TIMEOUT",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::Malformed => "MALFORMED",
            Self::DataLoss => "DATA_LOSS",
            Self::Expired => "EXPIRED",
            Self::Internal => "INTERNAL",
        }
    }

    /// The kind of this word, as [`as_str`](Self::as_str) writes it.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// The machine-readable reason clients get unless the error names a finer one.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "EXECUTION_NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::FailedPrecondition => "ILLEGAL_TRANSITION",
            Self::Conflict => "ETAG_MISMATCH",
            Self::Unsupported => "CAPABILITY_NOT_SUPPORTED",
            Self::Throttled => "PROVIDER_THROTTLED",
            Self::Unavailable => "PROVIDER_UNAVAILABLE",
            Self::Timeout => "PROVIDER_TIMEOUT",
            Self::PermissionDenied => "PROVIDER_PERMISSION_DENIED",
            Self::Malformed => "PROVIDER_ANSWER_MALFORMED",
            Self::DataLoss => "STORE_DAMAGED",
            Self::Expired => "CURSOR_EXPIRED",
            Self::Internal => "INTERNAL",
        }
    }

    /// Whether repeating the same call, after a pause, may succeed.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Unavailable | Self::Timeout)
    }

    /// Whether this speaks against the provider's health, rather than against the request. An
    /// answer that cannot be understood may be one execution's own fault.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::Unavailable | Self::Timeout)
    }

    /// Whether an error of this kind is usually the engine's own answer. An adapter finds invalid
    /// arguments and missing capabilities by itself; an answer that cannot be understood may come from
    /// a proxy in front of the engine.
    #[must_use]
    pub const fn implies_answer(self) -> bool {
        match self {
            Self::NotFound
            | Self::AlreadyExists
            | Self::FailedPrecondition
            | Self::Conflict
            | Self::Throttled
            | Self::PermissionDenied
            | Self::DataLoss
            | Self::Expired => true,
            Self::InvalidArgument
            | Self::Unsupported
            | Self::Unavailable
            | Self::Timeout
            | Self::Malformed
            | Self::Internal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_reason_that_fits_error_info() {
        for kind in ErrorKind::ALL {
            let reason = kind.reason();
            assert!(reason.len() <= 63, "{reason}");
            assert!(
                reason
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            );
        }
    }

    #[test]
    fn every_kind_is_read_back_from_its_word() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_word(kind.as_str()), Some(*kind));
        }
        assert_eq!(ErrorKind::from_word("not_found"), None);
    }

    #[test]
    fn only_the_state_of_the_engine_is_worth_a_retry() {
        let retryable: Vec<_> = ErrorKind::ALL
            .iter()
            .copied()
            .filter(|kind| kind.is_retryable())
            .collect();
        assert_eq!(
            retryable,
            [
                ErrorKind::Throttled,
                ErrorKind::Unavailable,
                ErrorKind::Timeout
            ]
        );
    }
}
