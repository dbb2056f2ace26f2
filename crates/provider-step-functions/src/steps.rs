//! What the open states of a folded history show, as steps: the newest event of each, what the
//! definition makes of a failure, and what is being waited for.

mod evidence;
mod items;
mod leaf;

use std::collections::BTreeMap;

use jiff::Timestamp;
use stateway_provider_api::StepObservation;

use crate::{Definition, Fold};
use leaf::{Leaf, leaves};

pub(crate) use evidence::error;
pub(crate) use items::{map_runs, with_items};

/// The open steps of an execution.
///
/// `now` matters only where the definition is not known: then a failure that stands for a while
/// is treated as a pause between attempts, because everything else that follows a failure follows immediately.
#[must_use]
pub fn steps(fold: &Fold, definition: &Definition, now: Timestamp) -> Vec<StepObservation> {
    let found = leaves(fold, definition, now);
    if found.is_empty() && fold.ending().is_none() {
        return fold.last_left().map(leaf::left).into_iter().collect();
    }
    let mut shown: Vec<StepObservation> = found
        .iter()
        .map(|leaf| evidence::observation(leaf, definition))
        .collect();
    if fold.is_partial() {
        tell_apart(&mut shown);
    }
    shown
}

/// Steps of branches whose beginning was not read may seem to be the same one.
fn tell_apart(steps: &mut [StepObservation]) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps {
        let seen = times.entry(step.name.clone()).or_default();
        *seen += 1;
        if *seen > 1 {
            step.name = format!("{} ({seen})", step.name);
        }
    }
}

/// An open step that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The step's name.
    pub(crate) step: String,
    /// The state's name, without its branches.
    pub(crate) state: String,
    pub(crate) asks: Asks,
}

/// Who must answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The owner of the token must answer.
    Token {
        /// The event that shows with which input the token was sent.
        event: u64,
        /// Where in the parameters the token is.
        path: Vec<String>,
    },
    /// A worker of an activity must answer.
    Worker {
        activity: String,
        /// The iteration of the Map around it.
        index: Option<u64>,
        /// A worker has the task.
        taken: bool,
    },
}

impl Awaited {
    /// Whether the tasks of two steps have the same address.
    pub(crate) fn is_alike(&self, other: &Self, definition: &Definition) -> bool {
        let address = definition
            .state(&self.state)
            .and_then(|state| state.address);
        let (Asks::Worker { index, .. }, Asks::Worker { index: others, .. }) =
            (&self.asks, &other.asks)
        else {
            return false;
        };
        let told_apart = address.is_some_and(|address| address.index) && index != others;
        self.state == other.state && !told_apart
    }
}

/// The steps that wait for an answer: those whose token the history shows, and those at activities.
#[must_use]
pub(crate) fn awaited(fold: &Fold, definition: &Definition, now: Timestamp) -> Vec<Awaited> {
    let found = leaves(fold, definition, now);
    let steps = found.iter().filter_map(|leaf| {
        let Leaf::Visit { visit, name, .. } = leaf else {
            return None;
        };
        let call = visit.call.as_ref()?;
        let worker = |taken| Asks::Worker {
            activity: call.resource.clone(),
            index: fold.index_of(visit.frame),
            taken,
        };
        let asks = match visit.newest.as_str() {
            "ActivityScheduled" => worker(false),
            "ActivityStarted" => worker(true),
            _ => Asks::Token {
                event: call.event,
                path: evidence::token_path(visit, definition)?,
            },
        };
        Some(Awaited {
            step: name.clone(),
            state: visit.name.clone(),
            asks,
        })
    });
    steps.collect()
}
