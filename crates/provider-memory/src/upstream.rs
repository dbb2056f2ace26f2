//! A replacement of an engine: the executions, their clock, and the connection to them.
//!
//! A provider can be dropped and made again on the same upstream, as a gateway is restarted in
//! front of an engine that continues to run.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::lock;
use tokio::sync::broadcast;

use crate::line::Line;
use crate::store::Store;
use crate::{Clock, LineFault};

/// How many changes a watcher of everything may fall behind before it reads everything again.
const MOST_BEHIND: usize = 1_024;

/// The engine behind an in-memory provider.
pub struct Upstream {
    pub(crate) clock: Clock,
    pub(crate) line: Line,
    store: Mutex<Store>,
    /// The executions that someone asked something of.
    pub(crate) changes: broadcast::Sender<ExecutionId>,
}

impl Upstream {
    /// An empty one.
    #[must_use]
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            line: Line::default(),
            store: Mutex::default(),
            changes: broadcast::Sender::new(MOST_BEHIND),
        })
    }

    /// Makes the line fail for the next call that it has not failed for yet.
    pub fn inject(&self, fault: LineFault) {
        self.line.inject(fault);
    }

    /// The clock that its executions live by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Reads the executions. The lock is never held across an await: `look` is not async.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut store = lock(&self.store);
        look(&mut store, now)
    }

    pub(crate) fn tell(&self, id: &ExecutionId) {
        // There may be no listener, which is not an error.
        let _ = self.changes.send(id.clone());
    }
}
