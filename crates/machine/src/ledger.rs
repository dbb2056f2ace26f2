//! What events are applied to: a whole state, or a draft of the next one.
//!
//! `evolve` runs on a [`State`]. `decide` has to see its own first event before it can decide on
//! the second, and must not copy a thousand steps for it; it runs on a [`Draft`], which copies
//! the head and only the slots that change.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::evolve::apply;
use crate::plan::{Plan, StepIx};
use crate::state::{Head, State, StepRun};
use crate::{Event, Fact};

/// A head and its steps.
pub(crate) trait Ledger {
    fn head(&self) -> &Head;
    fn head_mut(&mut self) -> &mut Head;
    fn run(&self, ix: StepIx) -> &StepRun;
    fn run_mut(&mut self, ix: StepIx) -> &mut StepRun;
    /// Replaces every slot, when the plan itself changes.
    fn replace(&mut self, plan: Arc<Plan>, steps: Vec<StepRun>);
}

impl Ledger for State {
    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn run(&self, ix: StepIx) -> &StepRun {
        &self.steps[ix.at()]
    }

    fn run_mut(&mut self, ix: StepIx) -> &mut StepRun {
        &mut self.steps[ix.at()]
    }

    fn replace(&mut self, plan: Arc<Plan>, steps: Vec<StepRun>) {
        self.head.plan = plan;
        self.steps = steps;
    }
}

/// The next state, as far as it differs from the present one, and the events that lead to it.
pub(crate) struct Draft<'s> {
    base: &'s [StepRun],
    head: Head,
    touched: BTreeMap<StepIx, StepRun>,
    events: Vec<Event>,
    at: Timestamp,
    causation: Arc<str>,
    actor: Arc<str>,
    /// The event that causes the next one.
    cause: Option<u64>,
}

impl<'s> Draft<'s> {
    pub(crate) fn new(state: &'s State, causation: Arc<str>, at: Timestamp) -> Self {
        Self {
            base: &state.steps,
            head: state.head.clone(),
            touched: BTreeMap::new(),
            events: Vec::with_capacity(4),
            at,
            causation,
            actor: "".into(),
            cause: None,
        }
    }

    /// Names the person or worker that acts.
    pub(crate) fn acted_by(&mut self, actor: Arc<str>) {
        self.actor = actor;
    }

    /// Names the event that causes the next ones.
    pub(crate) fn caused_by(&mut self, cause: u64) {
        self.cause = (cause > 0).then_some(cause);
    }

    /// The first event of the command; none before it is written.
    pub(crate) fn first(&self) -> Option<u64> {
        self.events.first().map(|event| event.sequence)
    }

    pub(crate) const fn now(&self) -> Timestamp {
        self.at
    }

    /// Writes the next event down and applies it.
    pub(crate) fn push(&mut self, fact: Fact) {
        let event = Event {
            sequence: self.head.sequence + 1,
            at: self.at,
            causation: Arc::clone(&self.causation),
            cause: self.cause,
            actor: Arc::clone(&self.actor),
            correlation: Arc::clone(&self.head.correlation),
            fact,
        };
        apply(self, &event);
        self.cause = Some(event.sequence);
        self.events.push(event);
    }

    /// The first event names the correlation that all of them have.
    pub(crate) fn correlate(&mut self, correlation: Arc<str>) {
        self.head.correlation = correlation;
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }
}

impl Ledger for Draft<'_> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn run(&self, ix: StepIx) -> &StepRun {
        self.touched.get(&ix).unwrap_or_else(|| &self.base[ix.at()])
    }

    fn run_mut(&mut self, ix: StepIx) -> &mut StepRun {
        let base = self.base;
        self.touched
            .entry(ix)
            .or_insert_with(|| base[ix.at()].clone())
    }

    fn replace(&mut self, plan: Arc<Plan>, steps: Vec<StepRun>) {
        self.head.plan = plan;
        self.touched = (0..).map(StepIx).zip(steps).collect();
    }
}
