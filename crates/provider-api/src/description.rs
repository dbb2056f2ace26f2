//! The description of a provider: its capabilities and its state table.
//!
//! An adapter that is compiled in knows both from the start. The adapter of an engine in another
//! process may learn them later and again at every reconnect; it then returns a new description with
//! a larger generation. The gateway reads the description at every use and keeps no copy.

use std::sync::Arc;

use crate::{Capabilities, Error, ErrorKind, Result, Table, Verb};

/// The reason of a call to a provider that has not described itself yet.
const NOT_DESCRIBED: &str = "PROVIDER_NOT_DESCRIBED";

/// The description of a provider at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Increases with every change; 0: nothing has arrived yet.
    pub generation: u64,
    /// What the provider can do.
    pub capabilities: Capabilities,
    /// The table that its observations are classified by, overlays included.
    pub table: Arc<Table>,
}

impl Description {
    /// The description of an adapter that knows everything from the start.
    #[must_use]
    pub fn fixed(capabilities: Capabilities, table: Arc<Table>) -> Arc<Self> {
        Arc::new(Self {
            generation: 1,
            capabilities,
            table,
        })
    }

    /// The description of a provider of this kind that has not described itself yet: no capability,
    /// no rows.
    #[must_use]
    pub fn pending(kind: &str) -> Arc<Self> {
        Arc::new(Self {
            generation: 0,
            capabilities: Capabilities::NONE,
            table: Arc::new(Table::empty(kind)),
        })
    }

    /// The description that follows this one, for example after a reconnect. A description that says
    /// the same keeps its generation.
    #[must_use]
    pub fn succeeded_by(&self, capabilities: Capabilities, table: Arc<Table>) -> Arc<Self> {
        let same = self.capabilities == capabilities && self.table == table;
        let generation = if same && self.generation > 0 {
            self.generation
        } else {
            self.generation + 1
        };
        Arc::new(Self {
            generation,
            capabilities,
            table,
        })
    }

    /// Whether the provider offers the verb now.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the capability is off, [`ErrorKind::Unavailable`] if the provider
    /// has not described itself yet.
    pub fn check(&self, verb: Verb) -> Result<()> {
        if verb.is_offered(&self.capabilities) {
            return Ok(());
        }
        if self.generation > 0 {
            return Err(Error::unsupported(verb));
        }
        let message = "the provider has not reported its capabilities yet";
        Err(Error::new(ErrorKind::Unavailable, verb, message).with_reason(NOT_DESCRIBED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::compiled_in;

    fn table(kind: &str) -> Arc<Table> {
        compiled_in(kind).unwrap()
    }

    #[test]
    fn a_verb_of_a_provider_that_has_not_described_itself_is_unavailable_and_not_unsupported() {
        let pending = Description::pending("acme");
        assert_eq!(
            (pending.generation, pending.table.kind.as_str()),
            (0, "acme")
        );
        let refused = pending.check(Verb::Start).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unavailable);
        assert_eq!(refused.reason(), NOT_DESCRIBED);
        assert!(pending.check(Verb::Health).is_ok());
        let arrived = pending.succeeded_by(Capabilities::NONE, table("memory"));
        let refused = arrived.check(Verb::Start).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unsupported);
    }

    #[test]
    fn the_generation_grows_with_every_change_and_only_then() {
        let start = Capabilities {
            start: true,
            ..Capabilities::NONE
        };
        let first = Description::pending("memory").succeeded_by(start, table("memory"));
        let same = first.succeeded_by(start, table("memory"));
        let less = same.succeeded_by(Capabilities::NONE, table("memory"));
        let other = less.succeeded_by(Capabilities::NONE, table("restate"));
        let generations = [&first, &same, &less, &other].map(|one| one.generation);
        assert_eq!(generations, [1, 1, 2, 3]);
    }
}
