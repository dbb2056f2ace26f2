//! Signals that arrived before a step waits for them.

use std::sync::Arc;

use crate::event::Data;
use crate::ledger::Ledger;

pub(super) fn received<L: Ledger>(l: &mut L, name: &Arc<str>, id: &Arc<str>, payload: &Data) {
    let signals = Arc::make_mut(&mut l.head_mut().signals);
    signals.seen.insert(Arc::clone(id));
    let queue = signals.waiting.entry(Arc::clone(name)).or_default();
    queue.push_back((Arc::clone(id), Arc::clone(payload)));
}

pub(super) fn delivered<L: Ledger>(l: &mut L, name: &Arc<str>, id: &Arc<str>) {
    let signals = Arc::make_mut(&mut l.head_mut().signals);
    if let Some(queue) = signals.waiting.get_mut(name) {
        queue.retain(|(waiting, _)| waiting != id);
        if queue.is_empty() {
            signals.waiting.remove(name);
        }
    }
}
