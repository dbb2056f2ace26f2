//! One vocabulary as data.

use serde::Deserialize;
use stateway_definition::StepKind;
use thiserror::Error;

use stateway_machine::{Event, ExecutionState, Fact, Plan, PolicyDecision, StepState, WaitFor};

/// The words of one system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// The version of the table's form.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// The kind of system that uses these words.
    pub system: String,
    /// The states of an execution.
    pub execution: Machine<ExecutionState>,
    /// The states of a step, where the system has them.
    pub step: Option<Machine<StepState>>,
    /// The system's names for our events.
    #[serde(default)]
    pub event: Vec<Emitted>,
}

/// States, moves, and how our states are mapped to them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine<S> {
    /// The system's states.
    pub state: Vec<StateRow>,
    /// Our states in the system's words; the first row that fits counts.
    pub map: Vec<Mapping<S>>,
    /// The moves that the system lists.
    pub transition: Vec<Transition>,
    /// The moves that the system forbids.
    #[serde(default)]
    pub forbidden: Vec<Transition>,
    /// Moves that are made in several legal ones.
    #[serde(default)]
    pub bridge: Vec<Bridge>,
    /// Moves that the system does not list.
    #[serde(default)]
    pub outside: Vec<Outside>,
    /// Why an execution that was reopened leaves a terminal state. Without it, none can.
    #[serde(default)]
    pub reopening: Option<String>,
}

/// A state of another system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRow {
    /// Its name.
    pub name: String,
    /// Whether nothing follows.
    #[serde(default)]
    pub terminal: bool,
    /// What it means there.
    pub means: String,
}

/// One of our states in another system's words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping<S> {
    /// Our state.
    pub native: S,
    /// Fits only if an open step is in one of these situations; see [`super::project`].
    #[serde(default)]
    pub steps: Vec<String>,
    /// The system's state; without one, the projection stays where it is.
    #[serde(default)]
    pub state: Option<String>,
    /// The state is only shown if the next move is legal from there.
    #[serde(default)]
    pub passing: bool,
}

/// A move of another system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// From where.
    pub from: String,
    /// To where; `*` is any other state.
    pub to: String,
    /// What brings it about there.
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

/// A move that another system does not list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// From where; `*` is any state that is not terminal and from which the system does not list it.
    pub from: String,
    /// To where.
    pub to: String,
    /// Why.
    pub why: String,
}

/// Another system's name for one of our events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emitted {
    /// Our name.
    pub native: String,
    /// Only where a step begins to wait for this: `signal`, `approval`, `timer`, `child`.
    #[serde(default)]
    pub wait: Option<String>,
    /// Only for steps of this kind, for instance `task`.
    #[serde(default)]
    pub step: Option<String>,
    /// Only where a person acted, and not as a consequence of something else.
    #[serde(default)]
    pub decided: bool,
    /// The other system's name.
    pub name: String,
}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VocabularyError {
    /// No such vocabulary.
    #[error("there is no vocabulary `{name}`")]
    UnknownName {
        /// The request.
        name: String,
    },
    /// Not a table.
    #[error("not a vocabulary: {0}")]
    Malformed(String),
    /// A table of another form.
    #[error("vocabulary `{name}` has version {found}; this build reads version 2")]
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
        if table.version != 2 {
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

    /// The system's names for one of our events; an event may have several, or none.
    pub fn event_names<'v>(&'v self, plan: &Plan, event: &Event) -> impl Iterator<Item = &'v str> {
        let fact = &event.fact;
        let (native, wait, decided) = (fact.name(), awaited(fact), is_decided(event));
        let step = fact.step().and_then(|step| plan.step_definition(step));
        let kind = step.map_or("", |step| StepKind::as_str(&step.kind));
        let rows = self.event.iter().filter(move |row| {
            row.native == native
                && row.wait.as_deref().is_none_or(|asked| asked == wait)
                && row.step.as_deref().is_none_or(|asked| asked == kind)
                && (!row.decided || decided)
        });
        rows.map(|row| row.name.as_str())
    }
}

/// What a step begins to wait for by this event.
const fn awaited(fact: &Fact) -> &'static str {
    match fact {
        Fact::StepWaiting { wait, .. } => match wait {
            WaitFor::Timer => "timer",
            WaitFor::Signal(_) => "signal",
            WaitFor::Approval(_) => "approval",
            WaitFor::Child(_) => "child",
            WaitFor::Person => "person",
        },
        Fact::PolicyDecided {
            decision: PolicyDecision::RequireApproval { .. },
            ..
        } => "approval",
        _ => "",
    }
}

/// Whether a person acted and nothing else caused the event. Logs of version 1 name the person only in
/// the facts of their decisions.
fn is_decided(event: &Event) -> bool {
    let by = match &event.fact {
        Fact::ApprovalGranted { by, .. }
        | Fact::ApprovalRejected { by, .. }
        | Fact::EscalationResolved { by, .. }
        | Fact::ExecutionResumed { by }
        | Fact::ExecutionCancelled { by, .. }
        | Fact::BranchOpened { by, .. } => by,
        _ => &event.actor,
    };
    event.cause.is_none() && !by.is_empty()
}

impl<S: PartialEq + Copy + std::fmt::Display> Machine<S> {
    /// Whether the system lists this move.
    #[must_use]
    pub fn is_legal(&self, from: &str, to: &str) -> bool {
        self.transition
            .iter()
            .any(|row| row.from == from && row.to == to)
    }

    /// Whether the system forbids this move.
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

    /// Whether the table explains a move that the system does not list.
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

    /// The row of our state, given what the open steps are doing.
    #[must_use]
    pub fn map(&self, native: S, steps: &[&str]) -> Option<&Mapping<S>> {
        let fits = |row: &&Mapping<S>| {
            let listed = row.steps.iter().any(|step| steps.contains(&step.as_str()));
            row.native == native && (row.steps.is_empty() || listed)
        };
        self.map.iter().find(fits)
    }

    fn check(&self, natives: &[S]) -> Result<(), String> {
        let known = |name: &str| self.state.iter().any(|row| row.name == name);
        let named = self
            .map
            .iter()
            .filter_map(|row| row.state.as_ref())
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
