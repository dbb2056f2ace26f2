//! Histories in the words of five other systems.
//!
//! Each system has its own states, legal and forbidden moves, and names for events. They are data, in
//! `provider-tables/vocabularies/`, and a history is projected into them event by event. A move that the
//! system does not list is either made in several legal ones (a `bridge`, because the system does one
//! thing at a time and we run steps in parallel) or marked `outside` with a reason; both are listed in
//! the table, and nothing else may happen.

mod projection;
mod table;

pub use projection::{Move, MoveKind, Projection, project};
pub use table::{
    Bridge, Emitted, Machine, Mapping, Outside, StateRow, Transition, Vocabulary, VocabularyError,
};

/// The names of the built-in vocabularies and their tables.
const TABLES: [(&str, &str); 5] = [
    (
        "ioa",
        include_str!("../../../provider-tables/vocabularies/ioa.toml"),
    ),
    (
        "buquet",
        include_str!("../../../provider-tables/vocabularies/buquet.toml"),
    ),
    (
        "connectsoft",
        include_str!("../../../provider-tables/vocabularies/connectsoft.toml"),
    ),
    (
        "workflowmanager",
        include_str!("../../../provider-tables/vocabularies/workflowmanager.toml"),
    ),
    (
        "landlord",
        include_str!("../../../provider-tables/vocabularies/landlord.toml"),
    ),
];

/// The five built-in vocabularies.
///
/// # Errors
/// A table that is broken; a test makes sure that none is.
pub fn vocabularies() -> Result<Vec<Vocabulary>, VocabularyError> {
    TABLES
        .iter()
        .map(|(_, text)| Vocabulary::parse(text))
        .collect()
}

/// The built-in vocabulary of this name.
///
/// # Errors
/// An unknown name.
pub fn vocabulary(name: &str) -> Result<Vocabulary, VocabularyError> {
    match TABLES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Vocabulary::parse(text),
        None => Err(VocabularyError::UnknownName {
            name: name.to_owned(),
        }),
    }
}
