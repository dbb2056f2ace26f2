//! Definitions and their problems.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;
use stateway_phrases::visible;

use super::{Text, Trigger, timestamp};
use crate::paging::Listed;

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// definitions/{definition}
    pub name: Text,
    /// Its content hash.
    pub revision: Text,
    /// One line that describes the definition.
    pub description: Text,
    /// When this revision was first applied.
    pub create_time: Option<Timestamp>,
    /// As it was applied; empty in lists.
    pub source: Text,
    /// The labels of a native definition; empty in lists.
    pub labels: BTreeMap<String, Text>,
    /// Every revision, newest first; empty in lists.
    pub revisions: Vec<Text>,
    /// The trigger; none if the definition has no trigger.
    pub trigger: Option<Trigger>,
    /// Whether the definition was deleted; only for a revision that was read by its name.
    pub deleted: bool,
    /// Where new executions start when no provider is given; empty in lists.
    pub default_provider: Text,
}

impl Listed for Definition {
    const PLURAL: &'static str = "definitions";
}

impl From<&v1::Definition> for Definition {
    fn from(wire: &v1::Definition) -> Self {
        Self {
            name: (&wire.name).into(),
            revision: (&wire.revision).into(),
            description: (&wire.description).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            source: (&wire.source).into(),
            labels: wire
                .labels
                .iter()
                .map(|(key, value)| (visible(key).into_owned(), value.into()))
                .collect(),
            revisions: wire.revisions.iter().map(Text::from).collect(),
            trigger: wire.trigger.as_ref().map(Trigger::from),
            deleted: wire.deleted,
            default_provider: (&wire.default_provider).into(),
        }
    }
}

/// The result of `apply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The definition as it is stored.
    pub definition: Definition,
    /// Problems that do not prevent the definition from being applied.
    pub warnings: Vec<Diagnostic>,
    /// Whether the definition is new or has changed.
    pub changed: bool,
}

impl From<&v1::ApplyDefinitionResponse> for Applied {
    fn from(wire: &v1::ApplyDefinitionResponse) -> Self {
        let definition = wire.definition.clone().unwrap_or_default();
        Self {
            definition: (&definition).into(),
            warnings: wire.warnings.iter().map(Diagnostic::from).collect(),
            changed: wire.changed,
        }
    }
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// `error` or `warning`.
    pub severity: &'static str,
    /// The file.
    pub file: Text,
    /// From 1.
    pub line: i32,
    /// From 1.
    pub column: i32,
    /// The rule that is broken.
    pub rule: Text,
    /// The message of the problem.
    pub message: Text,
    /// The remedy.
    pub hint: Text,
}

impl From<&v1::Diagnostic> for Diagnostic {
    fn from(wire: &v1::Diagnostic) -> Self {
        Self {
            severity: match wire.severity() {
                v1::diagnostic::Severity::Warning => "warning",
                _ => "error",
            },
            file: (&wire.source_name).into(),
            line: wire.line,
            column: wire.column,
            rule: (&wire.rule).into(),
            message: (&wire.message).into(),
            hint: (&wire.hint).into(),
        }
    }
}

/// Whether a provider can run a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Portability {
    /// The provider.
    pub provider: Text,
    /// `exact`, `emulated`, `impossible`, or `unknown` when the provider did not answer.
    pub verdict: &'static str,
    /// Why, one sentence each.
    pub reasons: Vec<Text>,
}

impl From<&v1::Portability> for Portability {
    fn from(wire: &v1::Portability) -> Self {
        use v1::portability::Verdict;
        let id = wire.provider.strip_prefix("providers/");
        Self {
            provider: id.unwrap_or(&wire.provider).into(),
            verdict: match wire.verdict() {
                Verdict::Exact => "exact",
                Verdict::Emulated => "emulated",
                Verdict::Impossible => "impossible",
                Verdict::Unspecified => "unknown",
            },
            reasons: wire.reasons.iter().map(Into::into).collect(),
        }
    }
}

impl Portability {
    /// Whether the provider runs the definition, with or without differences.
    pub fn runs(&self) -> bool {
        matches!(self.verdict, "exact" | "emulated")
    }

    /// A line for the verdict, and one for each reason.
    pub fn lines(&self, file: &str) -> Vec<String> {
        let mut lines = vec![format!("{file}: {} for {}", self.verdict, self.provider)];
        let reasons = self.reasons.iter();
        lines.extend(reasons.map(|reason| format!("{file}:   {reason}")));
        lines
    }
}

impl From<&stateway_definition::Diagnostic> for Diagnostic {
    fn from(found: &stateway_definition::Diagnostic) -> Self {
        Self {
            severity: match found.severity {
                stateway_definition::Severity::Warning => "warning",
                stateway_definition::Severity::Error => "error",
            },
            file: (&found.file).into(),
            line: i32::try_from(found.at.line).unwrap_or(i32::MAX),
            column: i32::try_from(found.at.column).unwrap_or(i32::MAX),
            rule: (&found.rule.to_string()).into(),
            message: (&found.message).into(),
            hint: (&found.hint).into(),
        }
    }
}

/// The form `file:line:column`, which editors recognise.
impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        // An engine may report a problem without its place.
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}[{}]: {}", self.severity, self.rule, self.message)?;
        if self.hint.is_empty() {
            Ok(())
        } else {
            write!(f, "\n  hint: {}", self.hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_without_a_place_names_only_the_file() {
        let mut found = Diagnostic::from(&v1::Diagnostic {
            message: "no states".to_owned(),
            ..v1::Diagnostic::default()
        });
        found.file = "a.json".into();
        found.rule = "SCHEMA".into();
        let severity = found.severity;
        assert_eq!(
            found.to_string(),
            format!("a.json: {severity}[SCHEMA]: no states")
        );
        (found.line, found.column) = (3, 7);
        assert_eq!(
            found.to_string(),
            format!("a.json:3:7: {severity}[SCHEMA]: no states")
        );
    }
}
