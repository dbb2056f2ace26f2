//! The format as data: every field, its other spellings and what it holds.
//!
//! The reader knows a field only from here and the JSON Schema is printed from here, so the two
//! cannot differ.

mod tables;

pub(crate) use tables::{
    APPROVAL, COMPENSATION, ESCALATION, FILE, HTTP, METADATA, RETRY_POLICY, STEP, TRIGGER, WORKFLOW,
};

/// A mapping of the format.
pub(crate) struct Object {
    /// Its name for people.
    pub(crate) what: &'static str,
    pub(crate) fields: &'static [Field],
}

/// One key of a mapping.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Other spellings that are accepted.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    pub(crate) doc: &'static str,
}

/// What a field holds.
pub(crate) enum Shape {
    Text,
    Name,
    Duration,
    Flag,
    /// A whole number up to a bound.
    Count(u32),
    /// A whole number from 1 up to a bound.
    Positive(u64),
    /// An amount of currency units above zero, with at most six decimals.
    Amount(u64),
    /// A number from 0 to 1.
    Fraction,
    /// One of a closed list; the second list is accepted too.
    Word(fn() -> Vec<&'static str>, &'static [&'static str]),
    Any,
    TextMap,
    List(&'static Shape),
    Object(&'static Object),
}

impl Object {
    /// Its name in the JSON Schema: what it is called, without the article.
    pub(crate) fn id(&self) -> String {
        let name = self.what.trim_start_matches("an ").trim_start_matches("a ");
        name.replace(' ', "-")
    }

    pub(crate) fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find(|field| field.name == key || field.aliases.contains(&key))
    }
}
