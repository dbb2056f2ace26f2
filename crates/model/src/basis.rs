//! How sure we are: where a sub-state and a retry count come from.

use crate::words::words;

words! {
    /// How a sub-state was arrived at.
    pub enum MappingBasis as "mapping basis" {
        /// The engine's own state decided alone.
        Native = "NATIVE",
        /// The engine's state left it open, and steps, retries or waits decided.
        Derived = "DERIVED",
        /// The engine's state is in no table, so `running` was assumed.
        Defaulted = "DEFAULTED",
    }
}

words! {
    /// Where retry figures come from. "Unknown" and "zero" are different answers.
    pub enum RetryBasis as "retry basis" {
        /// The engine itself reports it.
        Reported = "REPORTED",
        /// Worked out from the history and the retry policy.
        Inferred = "INFERRED",
        /// The engine shows nothing; a count of 0 means "not known".
        None = "NONE",
    }
}
