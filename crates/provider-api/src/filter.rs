//! The filter language of lists and watches: AIP-160 on the fields that people ask for.
//!
//! A filter is typed when it is read, so evaluating it cannot fail. As AIP-160 has it, `OR` binds
//! tighter than `AND`, and a list of terms without a word between them is an `AND`:
//!
//! ```
//! use stateway_provider_api::filter::Filter;
//! let filter = Filter::parse("sub_state = BACKING_OFF AND retry.attempt >= 3")?;
//! let wrong = Filter::parse("substate = running").unwrap_err();
//! assert_eq!((wrong.column, wrong.message.as_str()), (1, "`substate` is not a field"));
//! # Ok::<(), stateway_provider_api::filter::FilterError>(())
//! ```
//!
//! The grammar is the same for every kind of [`Condition`]; [`Term`], on executions, is the one that
//! lists and watches use.

mod condition;
mod definition;
mod evaluate;
mod field;
mod hints;
mod lexer;
mod operand;
mod parser;
mod pattern;

use jiff::Timestamp;
use stateway_model::{MappingBasis, Reason, SubState, WaitKind};
use thiserror::Error;

pub use condition::{Condition, Mismatch};
pub use definition::{DefinitionPattern, NamedDefinition};
pub use field::FIELDS;
pub use field::enum_value;
pub use hints::Hints;
pub use operand::Operand;
pub use pattern::Pattern;

/// The longest filter, in bytes.
pub const MAX_LENGTH: usize = 2_000;
/// The deepest nesting of parentheses and negations.
pub const MAX_DEPTH: usize = 16;

/// A filter: over executions, or over something else that has conditions of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter<C = Term> {
    /// Every one of these; none at all admits everything.
    And(Vec<Self>),
    /// At least one of these.
    Or(Vec<Self>),
    /// Not this.
    Not(Box<Self>),
    /// A single condition.
    Term(C),
}

/// A single condition on an execution, by the kind of field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `sub_state = …`
    SubState(Equality, SubState),
    /// `reason = …`
    Reason(Equality, Reason),
    /// `mapping_basis = …`
    MappingBasis(Equality, MappingBasis),
    /// `waits.kind:…`: at least one open wait is of this kind.
    WaitKind(WaitKind),
    /// `definition = …`
    Definition(Equality, DefinitionPattern),
    /// A text field.
    Text(TextField, Equality, Pattern),
    /// A count.
    Number(NumberField, Comparison, u32),
    /// A point in time.
    Time(TimeField, Comparison, Timestamp),
    /// `labels.key = …`
    Label(String, Equality, Pattern),
    /// `field:*`: the field is set. `labels:key` is the same as `labels.key:*`.
    Has(Field),
}

/// A field that may be set or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// `sub_state`: always set.
    SubState,
    /// `reason`
    Reason,
    /// `mapping_basis`: always set.
    MappingBasis,
    /// `waits` or `waits.kind`: set while a wait is open.
    Waits,
    /// `definition`
    Definition,
    /// A text field.
    Text(TextField),
    /// A count.
    Number(NumberField),
    /// A point in time.
    Time(TimeField),
    /// `labels`: set if there is a label.
    Labels,
    /// `labels.key`
    Label(String),
}

/// Text fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextField {
    /// `name`
    Name,
    /// `id`
    Id,
    /// `native_state`
    NativeState,
}

/// Counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberField {
    /// `retry.attempt`
    Attempt,
    /// `retry.retry_count`
    RetryCount,
    /// `retry.max_attempt_count`
    MaxAttempts,
}

/// Points in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    /// `retry.next_attempt_time`
    NextAttempt,
    /// `create_time`
    Create,
    /// `start_time`
    Start,
    /// `update_time`
    Update,
    /// `end_time`
    End,
}

/// `=` or `!=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    /// `=` (or `:`)
    Is,
    /// `!=`
    IsNot,
}

/// A comparison of things that have an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// Why a text is not a filter, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} at column {column}")]
pub struct FilterError {
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// A correct example, as a sentence; may be empty.
    pub hint: String,
}

impl Filter {
    /// Reads a filter. An empty text admits everything.
    ///
    /// # Errors
    /// Wrong syntax, an unknown field, or a value that does not fit it, with the position.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::parse_as(text)
    }

    /// The filter that admits everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self::And(Vec::new())
    }
}

impl<C: Condition> Filter<C> {
    /// Reads a filter over other fields than those of executions.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse_as(text: &str) -> Result<Self, FilterError> {
        parser::parse(text)
    }
}
