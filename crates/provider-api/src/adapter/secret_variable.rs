//! Secrets in the environment.

use std::env::VarError;

/// The secret in a variable of the environment. The error does not repeat it: the error of the standard
/// library quotes a value that is not UTF-8.
///
/// # Errors
/// The variable does not exist, or is not UTF-8.
pub fn secret_variable(name: &str) -> Result<String, &'static str> {
    std::env::var(name).map_err(|error| match error {
        VarError::NotPresent => "environment variable not found",
        VarError::NotUnicode(_) => "environment variable is not UTF-8",
    })
}
