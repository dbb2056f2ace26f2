//! Signals: stored if they come early, delivered once and in order, refused if no step can take them.

use std::sync::Arc;

use super::task;
use crate::event::{Data, Fact, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::state::WaitingSignal;
use crate::{Rejection, StepState};

/// How many signals one execution may take in its life.
const MAX_SIGNALS: usize = 1_000;

pub(super) fn send(
    draft: &mut Draft<'_>,
    name: Arc<str>,
    id: Arc<str>,
    payload: Data,
) -> Result<(), Rejection> {
    let head = draft.head();
    if head.signals.seen.contains(&id) {
        return Ok(());
    }
    if head.plan.consumers(&name).is_empty() {
        return Err(Rejection::UnknownSignal { name });
    }
    if head.signals.seen.len() >= MAX_SIGNALS {
        return Err(Rejection::TooManySignals);
    }
    let kept = head
        .signals
        .waiting
        .get(&name)
        .map_or(0, std::collections::VecDeque::len);
    if takers(draft, &name) <= kept {
        return Err(Rejection::StaleSignal { name });
    }
    draft.push(Fact::SignalReceived {
        name: Arc::clone(&name),
        id,
        payload,
    });
    deliver(draft, &name);
    Ok(())
}

/// Steps that could still take such a signal.
fn takers(draft: &Draft<'_>, name: &str) -> usize {
    let can = |ix: &&StepIx| {
        !matches!(
            draft.run(**ix).state,
            StepState::Completed | StepState::Skipped | StepState::Cancelled
        )
    };
    draft.head().plan.consumers(name).iter().filter(can).count()
}

/// Gives the oldest signal to the first step that waits for it.
pub(super) fn deliver(draft: &mut Draft<'_>, name: &str) {
    let head = draft.head();
    let waits = |ix: &&StepIx| matches!(&draft.run(**ix).wait, Some(WaitFor::Signal(awaited)) if **awaited == *name);
    let oldest = head
        .signals
        .waiting
        .get(name)
        .and_then(|queue| queue.front().cloned());
    let taker = head.plan.consumers(name).iter().find(waits).copied();
    if let (Some(WaitingSignal { id, payload, .. }), Some(ix)) = (oldest, taker) {
        let step = head.plan.name(ix);
        draft.push(Fact::SignalDelivered {
            name: name.into(),
            id,
            step,
        });
        task::accept(draft, ix, payload);
    }
}
