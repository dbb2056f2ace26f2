//! How far receivers of events have got, and what has to stay for them.

use std::sync::Arc;

use super::Keeper;
use super::inbox::SinkStart;
use crate::error::Result;

impl Keeper {
    /// A receiver is there; where it goes on.
    pub(super) fn open_sink(&mut self, name: Arc<str>, from: SinkStart) -> Result<i64> {
        let before = match self.sinks.get(&name) {
            Some(position) => Some(*position),
            None => self.store.sink_position(&name)?,
        };
        let position = match (before, from) {
            (Some(position), _) => position,
            (None, SinkStart::Beginning) => 0,
            (None, SinkStart::Now) => self.store.last_position(),
        };
        if before.is_none() {
            self.turn.sinks.push((Arc::clone(&name), position));
        }
        self.sinks.insert(name, position);
        Ok(position)
    }

    /// A receiver has everything up to here.
    pub(super) fn sink_at(&mut self, name: Arc<str>, position: i64, keep: bool) {
        if let Some(known) = self.sinks.get_mut(&name) {
            *known = position;
            if keep {
                self.turn.sinks.push((name, position));
            }
        }
    }

    /// The place after which events have to stay; nothing where nobody needs them.
    pub(super) fn needed_by_sinks(&self) -> Option<i64> {
        self.sinks.values().min().copied()
    }
}
