//! The positions up to which receivers have got events, and the events that must be kept for them.

use std::sync::Arc;

use super::inbox::SinkStart;
use super::{Keeper, Message};
use tokio::sync::oneshot;

use crate::error::Result;

impl Keeper {
    /// Notes which sinks this process has. A process that stands by refuses to open them, and must know them when it
    /// takes over: events are removed in its first turn already.
    pub(super) fn note_sinks(&mut self, message: &Message) {
        match message {
            Message::ExpectSink { name, from } | Message::OpenSink { name, from, .. } => {
                self.expected_sinks.insert(Arc::clone(name), *from);
            }
            Message::CloseSink { name } => {
                self.expected_sinks.remove(name);
                self.sinks.remove(name);
            }
            _ => {}
        }
    }

    /// Events that a sink needs stay from now on. A read that fails ends the turn.
    pub(super) fn expect_sink(&mut self, name: &Arc<str>) {
        if let Err(error) = self.read_sink(name) {
            tracing::warn!(webhook = %name, "the position cannot be read: {error}");
        }
    }

    /// Reads how far every sink has got. Another process may have delivered events while it owned the store.
    pub(super) fn read_sinks(&mut self) -> Result<()> {
        let names: Vec<_> = self.expected_sinks.keys().cloned().collect();
        names.iter().try_for_each(|name| self.read_sink(name))
    }

    fn read_sink(&mut self, name: &Arc<str>) -> Result<()> {
        let Some(from) = self.expected_sinks.get(name).copied() else {
            return Ok(());
        };
        let written = self.store.sink_position(name)?;
        let position = written.unwrap_or_else(|| self.beginning(from));
        // A position that was reported here was reached, even if it was not written down.
        let known = self.sinks.entry(Arc::clone(name)).or_insert(position);
        *known = (*known).max(position);
        Ok(())
    }

    /// Where a new sink begins.
    fn beginning(&self, from: SinkStart) -> i64 {
        match from {
            SinkStart::Beginning => 0,
            SinkStart::Now => self.store.last_position(),
        }
    }

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
        let position = known.unwrap_or_else(|| self.beginning(from));
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
