//! All rules of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use stateway_identity::Identity;
use thiserror::Error;

use crate::{Grants, Rule, RuleSpec};

/// The most rules.
const MOST_RULES: usize = 1_000;

/// All rules, in the order of the file. Without a rule everything is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Arc<[Rule]>);

/// Where rules are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `[[access.rules]]` in the configuration of the gateway.
    Configuration,
    /// `[[rules]]` in a file of their own.
    OwnFile,
}

/// An error in rules.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// No TOML, or a key that rules do not have.
    #[error("{0}")]
    File(String),
    /// One rule.
    #[error("rule `{rule}`: {message}")]
    Rule {
        /// Its name, or its number where it has none.
        rule: String,
        /// What is wrong.
        message: String,
    },
    /// Too many.
    #[error("{0} rules; at most {MOST_RULES} are allowed")]
    TooMany(usize),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OwnFile {
    rules: Vec<RuleSpec>,
}

/// A configuration, of which everything but the rules is read elsewhere.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Configuration {
    access: Section,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Section {
    rules: Vec<RuleSpec>,
}

impl Rules {
    /// The rules behind their texts.
    ///
    /// # Errors
    /// The first rule that cannot be used.
    pub fn new(specs: &[RuleSpec]) -> Result<Self, RuleError> {
        if specs.len() > MOST_RULES {
            return Err(RuleError::TooMany(specs.len()));
        }
        let mut names = BTreeSet::new();
        let rules = specs.iter().zip(1..).map(|(spec, number)| {
            let wrong = |message: String| RuleError::Rule {
                rule: if spec.name.is_empty() {
                    number.to_string()
                } else {
                    spec.name.clone()
                },
                message,
            };
            if !names.insert(&spec.name) {
                return Err(wrong("two rules have this name".to_owned()));
            }
            Rule::new(spec).map_err(wrong)
        });
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    /// The rules of a text.
    ///
    /// # Errors
    /// A text that is no TOML, or a rule that cannot be used.
    pub fn parse(text: &str, place: Place) -> Result<Self, RuleError> {
        let wrong = |error: toml::de::Error| {
            let line = error
                .span()
                .map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line
                .map(|line| format!("line {line}: "))
                .unwrap_or_default();
            RuleError::File(format!("{line}{}", error.message()))
        };
        let specs = match place {
            Place::OwnFile => toml::from_str::<OwnFile>(text).map_err(wrong)?.rules,
            Place::Configuration => {
                toml::from_str::<Configuration>(text)
                    .map_err(wrong)?
                    .access
                    .rules
            }
        };
        Self::new(&specs)
    }

    /// The permissions of one identity.
    #[must_use]
    pub fn grants(&self, caller: &Identity) -> Grants {
        let mut grants = Grants::default();
        for rule in self.iter().filter(|rule| rule.is_for(caller)) {
            let Some(filter) = rule.resolved(caller) else {
                continue;
            };
            for permission in rule.may.iter() {
                grants.add(permission, &rule.name, &filter);
            }
        }
        grants
    }

    /// Every rule.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "[[access.rules]]",
            Self::OwnFile => "[[rules]]",
        })
    }
}
