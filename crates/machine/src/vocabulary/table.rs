//! One vocabulary as data.

use serde::Deserialize;
use thiserror::Error;

use crate::event::{Fact, WaitFor};
use crate::{ExecutionState, StepState};

/// One seed's words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// The version of the table's form.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// The seed it comes from.
    pub seed: String,
    /// The machine of an execution.
    pub execution: Machine<ExecutionState>,
    /// The machine of a step, where the seed has one.
    pub step: Option<Machine<StepState>>,
    /// What the seed calls our events.
    #[serde(default)]
    pub event: Vec<Emitted>,
}

/// States, moves, and how ours become theirs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine<S> {
    /// The seed's states.
    pub state: Vec<StateRow>,
    /// Our states in the seed's words; the first row that fits counts.
    pub map: Vec<Mapping<S>>,
    /// The moves the seed lists.
    pub transition: Vec<Transition>,
    /// The moves the seed forbids.
    #[serde(default)]
    pub forbidden: Vec<Transition>,
    /// Moves that are made in several legal ones.
    #[serde(default)]
    pub bridge: Vec<Bridge>,
    /// Moves the seed has no word for.
    #[serde(default)]
    pub outside: Vec<Outside>,
}

/// A state of the seed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRow {
    /// Its name.
    pub name: String,
    /// Whether nothing follows.
    #[serde(default)]
    pub terminal: bool,
    /// What the seed says it means.
    pub means: String,
}

/// One of our states in the seed's words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping<S> {
    /// Our state.
    pub native: S,
    /// Fits only if an open step is in one of these situations; see [`super::project`].
    #[serde(default)]
    pub steps: Vec<String>,
    /// The seed's state.
    pub state: String,
}

/// A move of the seed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// From where.
    pub from: String,
    /// To where; `*` is any other state.
    pub to: String,
    /// What the seed says brings it about.
    pub on: String,
}

/// A move that is made in several legal ones.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// The states between.
    pub through: Vec<String>,
    /// Why.
    pub why: String,
}

/// A move the seed has no word for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// From where; `*` is any state that is not terminal and from which the seed does not list it.
    pub from: String,
    /// To where.
    pub to: String,
    /// Why.
    pub why: String,
}

/// What the seed calls one of our events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emitted {
    /// Our name.
    pub native: String,
    /// Only where a step begins to wait for this: `signal`, `approval`, `timer`, `child`.
    #[serde(default)]
    pub wait: Option<String>,
    /// The seed's.
    pub name: String,
}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VocabularyError {
    /// No such vocabulary.
    #[error("there is no vocabulary `{name}`")]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// Not a table.
    #[error("not a vocabulary: {0}")]
    Malformed(String),
    /// A table of another form.
    #[error("vocabulary `{name}` has version {found}; this build reads version 1")]
    UnknownVersion {
        /// Its name.
        name: String,
        /// Its version.
        found: u32,
    },
    /// The table contradicts itself.
    #[error("vocabulary `{name}`: {problem}")]
    Inconsistent {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

impl Vocabulary {
    /// Reads a table and checks that it agrees with itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, VocabularyError> {
        let table: Self = toml::from_str(text)
            .map_err(|error| VocabularyError::Malformed(error.message().to_owned()))?;
        if table.version != 1 {
            let (name, found) = (table.name, table.version);
            return Err(VocabularyError::UnknownVersion { name, found });
        }
        let natives = ExecutionState::ALL;
        let steps = table
            .step
            .as_ref()
            .map_or(Ok(()), |step| step.check(StepState::ALL));
        match table.execution.check(natives).and(steps) {
            Ok(()) => Ok(table),
            Err(problem) => Err(VocabularyError::Inconsistent {
                name: table.name,
                problem,
            }),
        }
    }

    /// The seed's name for one of our events; nothing where it has none.
    #[must_use]
    pub fn event_name(&self, fact: &Fact) -> Option<&str> {
        let wait = match fact {
            Fact::StepWaiting {
                wait: WaitFor::Timer,
                ..
            } => "timer",
            Fact::StepWaiting {
                wait: WaitFor::Signal(_),
                ..
            } => "signal",
            Fact::StepWaiting {
                wait: WaitFor::Approval(_),
                ..
            } => "approval",
            Fact::StepWaiting {
                wait: WaitFor::Child(_),
                ..
            } => "child",
            _ => "",
        };
        let fits = |row: &&Emitted| {
            row.native == fact.name() && row.wait.as_deref().is_none_or(|asked| asked == wait)
        };
        self.event.iter().find(fits).map(|row| row.name.as_str())
    }
}

impl<S: PartialEq + Copy + std::fmt::Display> Machine<S> {
    /// Whether the seed lists this move.
    #[must_use]
    pub fn is_legal(&self, from: &str, to: &str) -> bool {
        self.transition
            .iter()
            .any(|row| row.from == from && row.to == to)
    }

    /// Whether the seed forbids this move.
    #[must_use]
    pub fn is_forbidden(&self, from: &str, to: &str) -> bool {
        from != to
            && self
                .forbidden
                .iter()
                .any(|row| row.from == from && (row.to == to || row.to == "*"))
    }

    /// The states between, where the move is made in several.
    #[must_use]
    pub fn bridge(&self, from: &str, to: &str) -> Option<&[String]> {
        let found = self
            .bridge
            .iter()
            .find(|row| row.from == from && row.to == to);
        found.map(|row| row.through.as_slice())
    }

    /// Whether the table says openly that the seed has no word for this move.
    #[must_use]
    pub fn is_outside(&self, from: &str, to: &str) -> bool {
        let ended = self
            .state
            .iter()
            .any(|row| row.terminal && row.name == from);
        self.outside
            .iter()
            .any(|row| (row.from == from || (row.from == "*" && !ended)) && row.to == to)
    }

    /// Our state in the seed's words, given what the open steps are doing.
    #[must_use]
    pub fn map(&self, native: S, steps: &[&str]) -> Option<&str> {
        let fits = |row: &&Mapping<S>| {
            let listed = row.steps.iter().any(|step| steps.contains(&step.as_str()));
            row.native == native && (row.steps.is_empty() || listed)
        };
        self.map.iter().find(fits).map(|row| row.state.as_str())
    }

    fn check(&self, natives: &[S]) -> Result<(), String> {
        let known = |name: &str| self.state.iter().any(|row| row.name == name);
        let named = self
            .map
            .iter()
            .map(|row| &row.state)
            .chain(self.transition.iter().flat_map(|row| [&row.from, &row.to]));
        if let Some(name) = named.into_iter().find(|name| !known(name)) {
            return Err(format!("`{name}` is not a state"));
        }
        let mut outside = self.outside.iter().flat_map(|row| [&row.from, &row.to]);
        if let Some(name) = outside.find(|name| *name != "*" && !known(name)) {
            return Err(format!("`{name}` is not a state"));
        }
        if let Some(native) = natives
            .iter()
            .find(|native| self.map(**native, &[]).is_none())
        {
            return Err(format!("`{native}` is not mapped"));
        }
        if let Some(row) = self
            .transition
            .iter()
            .find(|row| self.is_forbidden(&row.from, &row.to))
        {
            return Err(format!(
                "`{}` → `{}` is both legal and forbidden",
                row.from, row.to
            ));
        }
        self.bridge
            .iter()
            .try_for_each(|row| self.check_bridge(row))
    }

    fn check_bridge(&self, row: &Bridge) -> Result<(), String> {
        let mut path: Vec<&String> = vec![&row.from];
        path.extend(&row.through);
        path.push(&row.to);
        match path
            .windows(2)
            .find(|pair| !self.is_legal(pair[0], pair[1]))
        {
            Some(pair) => Err(format!(
                "bridge over `{}` → `{}`, which is not legal",
                pair[0], pair[1]
            )),
            None => Ok(()),
        }
    }
}
