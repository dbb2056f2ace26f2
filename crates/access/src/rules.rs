//! All rules of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use stateway_identity::Identity;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Grants, Rule, RuleSpec, read_rules};

/// The most rules.
pub(crate) const MOST_RULES: usize = 1_000;

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

/// Everything that is wrong with rules; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleErrors(Vec<RuleError>);

impl RuleErrors {
    /// Each error, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &RuleError> {
        self.0.iter()
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleErrors {}

impl Rules {
    /// The rules behind their texts.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn new(specs: &[RuleSpec]) -> Result<Self, RuleErrors> {
        if specs.len() > MOST_RULES {
            return Err(RuleErrors(vec![RuleError::TooMany(specs.len())]));
        }
        let mut names = BTreeSet::new();
        let (mut rules, mut errors) = (Vec::with_capacity(specs.len()), Vec::new());
        for (spec, number) in specs.iter().zip(1..) {
            let wrong = |message: String| RuleError::Rule {
                rule: spec.label(number),
                message,
            };
            if !spec.name.is_empty() && !names.insert(&spec.name) {
                errors.push(wrong("two rules have this name".to_owned()));
            }
            match Rule::new(spec) {
                Ok(rule) => rules.push(rule),
                Err(all) => errors.extend(all.into_iter().map(|(_, message)| wrong(message))),
            }
        }
        if errors.is_empty() {
            Ok(Self(rules.into()))
        } else {
            Err(RuleErrors(errors))
        }
    }

    /// The rules of a text.
    ///
    /// # Errors
    /// A text that is no TOML, or everything that is wrong with its rules.
    pub fn parse(text: &str, place: Place) -> Result<Self, RuleErrors> {
        let wrong = |at: Option<usize>, message: &str| {
            let line = at.map(|at| 1 + text[..at].matches('\n').count());
            let line = line.map(|line| format!("line {line}: "));
            RuleError::File(format!("{}{message}", line.unwrap_or_default()))
        };
        let document = DeTable::parse(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            RuleErrors(vec![wrong(at, error.message())])
        })?;
        let (list, mut errors) = match place {
            Place::OwnFile => own_file(document.get_ref()),
            Place::Configuration => section(document.get_ref()),
        };
        let (specs, mistakes) = list.map(read_rules).unwrap_or_default();
        errors.extend(mistakes.into_iter().map(|it| (it.at, it.message)));
        if errors.is_empty() {
            return Self::new(&specs);
        }
        errors.sort_by_key(|(at, _)| *at);
        let errors = errors.iter().map(|(at, message)| wrong(Some(*at), message));
        Err(RuleErrors(errors.collect()))
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

/// The list of rules in a document, and what is wrong beside it.
type List<'d, 'i> = (Option<&'d Spanned<DeValue<'i>>>, Vec<(usize, String)>);

/// A file with nothing but rules.
fn own_file<'d, 'i>(document: &'d DeTable<'i>) -> List<'d, 'i> {
    let others = document.keys().filter(|key| key.get_ref() != "rules");
    let unknown = others.map(|key| {
        let message = format!("unknown field `{}`, expected `rules`", key.get_ref());
        (key.span().start, message)
    });
    (document.get("rules"), unknown.collect())
}

/// A configuration, of which everything but the rules is read elsewhere.
fn section<'d, 'i>(document: &'d DeTable<'i>) -> List<'d, 'i> {
    let Some(access) = document.get("access") else {
        return (None, Vec::new());
    };
    match access.get_ref() {
        DeValue::Table(section) => (section.get("rules"), Vec::new()),
        other => {
            let message = format!("expected a section, found a {}", other.type_str());
            (None, vec![(access.span().start, message)])
        }
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
