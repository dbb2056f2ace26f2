//! The errors of PostgreSQL as errors of a store. Details of an error may quote data, so only its message is used.

use tokio_postgres::error::SqlState;

use super::tls::NotAgreed;
use crate::store::StoreError;

/// An error of a connection or of a statement. `store` is the address for people.
pub(super) fn store_error(store: &str, error: &tokio_postgres::Error) -> StoreError {
    let Some(reported) = error.as_db_error() else {
        // The client has no other name for these kinds: a password is missing, the server asks for something unknown, or
        // it has no TLS.
        let text = error.to_string();
        let is_sign_in = ["invalid configuration", "authentication error"];
        if is_sign_in.iter().any(|kind| text.starts_with(kind))
            || cause(error) == "server does not support TLS"
            || std::error::Error::source(error).is_some_and(|source| source.is::<NotAgreed>())
        {
            return StoreError::Unopened {
                store: store.to_owned(),
                why: cause(error),
            };
        }
        return unreachable(store, &cause(error));
    };
    let message = reported.message();
    match *reported.code() {
        SqlState::UNIQUE_VIOLATION => StoreError::Conflict {
            what: message.to_owned(),
        },
        SqlState::DISK_FULL => StoreError::Full,
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::corrupt(message),
        // A server that starts, stops or was replaced by its replica.
        SqlState::READ_ONLY_SQL_TRANSACTION
        | SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::QUERY_CANCELED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => unreachable(store, message),
        SqlState::INVALID_PASSWORD
        | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | SqlState::INVALID_CATALOG_NAME
        | SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unopened {
            store: store.to_owned(),
            why: message.to_owned(),
        },
        _ => StoreError::Failed(message.to_owned()),
    }
}

pub(super) fn unreachable(store: &str, why: &str) -> StoreError {
    StoreError::Unreachable {
        store: store.to_owned(),
        why: why.to_owned(),
    }
}

/// Whether PostgreSQL has answered with an error: the transaction is rolled back. Without an answer its outcome is
/// unknown. A server that is stopping ends the connection too.
pub(super) fn is_answer(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|reported| {
        !matches!(
            *reported.code(),
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN
        )
    })
}

/// The innermost cause: the outer ones only say that something failed.
fn cause(error: &tokio_postgres::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
