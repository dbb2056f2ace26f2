//! A provider's state table: which native state means which sub-state.
//!
//! Tables are data in `provider-tables/*.toml`, compiled in, and an operator can overlay them with
//! further rows without a rebuild. [`check`](self) validates a table when it is read, so a lookup
//! in a table is never ambiguous.

mod check;
mod compiled;
mod file;
mod markdown;
mod page;
mod qualifier;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use stateway_model::{MappingBasis, Reason, SubState};

pub use check::TableError;
pub use compiled::{BUILTIN, COMPILED_IN, MEMORY, RESTATE, STEP_FUNCTIONS, TEMPORAL, compiled_in};
pub use markdown::markdown;
pub use page::{BEGIN, END, PageError, page};
pub use qualifier::Qualifier;

use crate::NativeState;

/// A checked state table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The kind of provider it belongs to.
    pub kind: String,
    /// The engine's name for people.
    pub title: String,
    /// The introduction of the documentation page.
    pub summary: String,
    /// The qualifiers that rows may ask about, each with where it comes from.
    pub qualifiers: BTreeMap<String, String>,
    /// The rows, in the order of the file.
    rows: Vec<Row>,
    /// Positions of the rows of each native state, the most qualified first.
    by_state: HashMap<String, Vec<usize>>,
}

/// Whether a row is for executions or for steps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A whole execution.
    Execution,
    /// One step.
    Step,
}

impl Scope {
    /// The word in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Step => "step",
        }
    }
}

/// One row: a native state with its qualifiers, and its sub-state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Execution or step.
    pub scope: Scope,
    /// The native state, verbatim.
    pub native: String,
    /// The row matches only if each of these qualifiers has this value.
    pub when: BTreeMap<String, String>,
    /// The sub-state.
    pub sub_state: SubState,
    /// The reason, if the sub-state alone is not enough.
    pub reason: Option<Reason>,
    /// Whether the state is final.
    pub terminal: bool,
    /// The native state alone does not decide: steps, attempts and waits decide. `sub_state`
    /// applies if they show nothing.
    pub refine: bool,
    /// The basis of the mapping from the native state alone.
    pub basis: MappingBasis,
    /// The source of the row.
    pub source: String,
    /// A note for readers; may be empty.
    pub note: String,
}

impl Row {
    /// Whether the row can lead to one of these sub-states.
    #[must_use]
    pub fn may_show(&self, wanted: &[SubState]) -> bool {
        let open_wanted = || wanted.iter().any(|state| !state.is_terminal());
        wanted.contains(&self.sub_state) || self.refine && open_wanted()
    }

    /// The native state with its qualifiers, as a person would write it.
    #[must_use]
    pub fn label(&self) -> String {
        let when: Vec<_> = self
            .when
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        if when.is_empty() {
            self.native.clone()
        } else {
            format!("{} ({})", self.native, when.join(", "))
        }
    }
}

impl Table {
    /// Reads and checks a table.
    ///
    /// # Errors
    /// Syntax, unknown keys or words, and every rule of a good table, each with its place.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        check::checked(file::read(text)?)
    }

    /// Overlays this table with the rows of another table: a row for the same state and qualifiers
    /// is replaced, any other row is added.
    ///
    /// # Errors
    /// A table of another kind, or rows that contradict each other.
    pub fn overlaid_with(&self, other: &Self) -> Result<Self, TableError> {
        if other.kind != self.kind {
            let (kind, expected) = (other.kind.clone(), self.kind.clone());
            return Err(TableError::OtherKind { kind, expected });
        }
        let same =
            |a: &Row, b: &Row| a.scope == b.scope && a.native == b.native && a.when == b.when;
        let kept = self
            .rows
            .iter()
            .filter(|row| !other.rows.iter().any(|over| same(row, over)));
        let mut qualifiers = self.qualifiers.clone();
        qualifiers.extend(other.qualifiers.clone());
        check::checked(file::Parts {
            kind: self.kind.clone(),
            title: self.title.clone(),
            summary: self.summary.clone(),
            qualifiers,
            rows: kept.chain(&other.rows).cloned().collect(),
        })
    }

    /// A table without rows, for a provider whose own table has not arrived yet. Every native state
    /// is shown as `running` with basis `DEFAULTED`.
    #[must_use]
    pub fn empty(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            title: kind.to_owned(),
            summary: String::new(),
            qualifiers: BTreeMap::new(),
            rows: Vec::new(),
            by_state: HashMap::new(),
        }
    }

    /// The rows, in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row that matches a native state, if there is one. Of several matching rows, the most
    /// specific one applies; a validated table never has two of those.
    #[must_use]
    pub fn find(&self, scope: Scope, native: &NativeState) -> Option<&Row> {
        let holds = |row: &&Row| {
            row.scope == scope
                && row
                    .when
                    .iter()
                    .all(|(name, value)| native.qualifiers.get(name) == Some(value))
        };
        let rows = self.by_state.get(&native.state)?;
        rows.iter()
            .map(|position| &self.rows[*position])
            .find(holds)
    }

    /// Whether an execution in this native state may show one of these sub-states, whatever its
    /// qualifiers and evidence are. A state that evidence refines may show any open sub-state. A state
    /// without an unqualified row, or without any row, may show `running`.
    #[must_use]
    pub fn may_show(&self, state: &str, wanted: &[SubState]) -> bool {
        let of_executions = |row: &&Row| row.scope == Scope::Execution;
        let rows = self
            .by_state
            .get(state)
            .into_iter()
            .flatten()
            .map(|position| &self.rows[*position])
            .filter(of_executions);
        let (mut is_certain, mut shows) = (false, false);
        for row in rows {
            is_certain |= row.when.is_empty();
            shows |= row.may_show(wanted);
        }
        shows || !is_certain && wanted.contains(&SubState::Running)
    }

    /// The native states of the table that can show none of these sub-states: what an adapter may
    /// exclude from an upstream query. A state in no table is not among them.
    #[must_use]
    pub fn states_without(&self, wanted: &[SubState]) -> Vec<&str> {
        let mut states = self.native_states_for(SubState::ALL);
        states.retain(|state| !self.may_show(state, wanted));
        states
    }

    /// Every native state of which a row may show one of these sub-states. A state that evidence
    /// refines may show any open sub-state. To narrow a query, use [`states_without`] instead: a state
    /// that is in no table shows `running`.
    ///
    /// [`states_without`]: Self::states_without
    #[must_use]
    pub fn native_states_for(&self, wanted: &[SubState]) -> Vec<&str> {
        let may = |row: &&Row| row.scope == Scope::Execution && row.may_show(wanted);
        let mut states: Vec<&str> = self
            .rows
            .iter()
            .filter(may)
            .map(|row| row.native.as_str())
            .collect();
        states.sort_unstable();
        states.dedup();
        states
    }
}
