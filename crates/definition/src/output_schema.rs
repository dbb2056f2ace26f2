//! JSON Schema for the output of a step: checked when the definition is read, applied by the
//! machine. Nothing is ever fetched, and patterns run in linear time.

mod wording;

use std::error::Error;
use std::fmt;

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

use wording::{mistake, violations};

/// The maximum number of violations that are sent to a worker.
const MOST_VIOLATIONS: usize = 10;
/// The longest line about a violation, in characters.
const MOST_CHARACTERS: usize = 200;
/// The address of a schema, to which its references are relative. No server has this name.
const ADDRESS: &str = "https://schema.invalid/output";

/// A schema that is ready to be applied.
pub struct OutputSchema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Refuses every document but the schema itself.
struct NoDocuments;

impl UrlLoader for NoDocuments {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn Error>> {
        Err("references to other documents are not followed".into())
    }
}

impl OutputSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NoDocuments));
        let wrong = |error| reason(&error, schema);
        let added = compiler.add_resource(ADDRESS, schema.clone());
        added.map_err(wrong)?;
        let index = compiler.compile(ADDRESS, &mut schemas).map_err(wrong)?;
        Ok(Self { schemas, index })
    }

    /// What is wrong with an output, one line each in the order of their places; empty when it fits.
    #[must_use]
    pub fn violations(&self, output: &Value) -> Vec<String> {
        match self.schemas.validate(output, self.index) {
            Ok(()) => Vec::new(),
            Err(error) => lines(&error, output),
        }
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSchema").finish_non_exhaustive()
    }
}

/// Why a schema cannot be compiled.
fn reason(error: &CompileError, schema: &Value) -> String {
    let text = match error {
        CompileError::ValidationError { src, .. } => {
            return line(mistake(src, schema), "the schema");
        }
        CompileError::LoadUrlError { url, src } => {
            let to = url.strip_prefix("https://schema.invalid/").unwrap_or(url);
            format!("`{to}`: {src}")
        }
        error => error.to_string().replace(ADDRESS, ""),
    };
    first_line(&text)
}

/// The first lines about an output that does not match. Their order does not depend on hashes.
fn lines(error: &ValidationError<'_, '_>, output: &Value) -> Vec<String> {
    let mut found = violations(error, output);
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST_VIOLATIONS);
    let found = found.into_iter();
    found.map(|found| line(found, "the output")).collect()
}

/// A place, which is empty for the whole value, and what is wrong there.
fn line((place, text): (String, String), whole: &str) -> String {
    let place = if place.is_empty() { whole } else { &place };
    format!("{place}: {}", first_line(&text))
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MOST_CHARACTERS)
        .collect()
}

#[cfg(test)]
mod tests;
