//! The positions up to which receivers have got events, and the events that must be kept for them.

use std::sync::Arc;

use super::Keeper;
use super::inbox::SinkStart;
use tokio::sync::oneshot;

use crate::error::Result;

impl Keeper {
    /// A sink connects; the position to continue from.
    pub(super) fn open_sink(
        &mut self,
        name: Arc<str>,
        from: SinkStart,
        answer: oneshot::Sender<Result<i64>>,
    ) {
        let written = match self.store.sink_position(&name) {
            Ok(written) => written,
            Err(error) => {
                self.outbox.answer(answer, Err(error.into()));
                return;
            }
        };
        let known = self.sinks.get(&name).copied().or(written);
        let position = known.unwrap_or_else(|| match from {
            SinkStart::Beginning => 0,
            SinkStart::Now => self.store.last_position(),
        });
        if written.is_none() {
            self.outbox.turn.sinks.push((Arc::clone(&name), position));
        }
        self.sinks.insert(name, position);
        // Where it begins must not be forgotten once it has begun.
        self.outbox.answer(answer, Ok(position));
    }

    /// A receiver has everything up to here.
    pub(super) fn sink_at(&mut self, name: Arc<str>, position: i64, keep: bool) {
        if let Some(known) = self.sinks.get_mut(&name) {
            *known = position;
            if keep {
                self.outbox.turn.sinks.push((name, position));
            }
        }
    }

    /// The position after which events must be kept; none if no receiver needs them.
    pub(super) fn needed_by_sinks(&self) -> Option<i64> {
        self.sinks.values().min().copied()
    }
}
