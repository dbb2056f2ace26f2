//! What the open states of a folded history show, as steps: the newest event of each, what the
//! definition makes of a failure, and what is being waited for.

mod evidence;
mod leaf;

use std::collections::BTreeMap;

use jiff::Timestamp;
use stateway_provider_api::StepObservation;

use crate::{Definition, Fold};
use leaf::{Leaf, leaves};

pub(crate) use evidence::error;

/// The open steps of an execution.
///
/// `now` matters only where the definition is not known: then a failure that stands for a while
/// is taken for a pause between attempts, because whatever else follows a failure follows at once.
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

/// A step that waits for the answer to its task token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenWait {
    /// The step's name.
    pub step: String,
    /// The state's name, without its branches.
    pub state: String,
    /// The event that tells what the token was sent with.
    pub event: u64,
    /// Where in the parameters the token is.
    pub path: Vec<String>,
}

/// The open steps of this name that an activity's worker has to answer.
#[must_use]
pub(crate) fn waits_for_worker(
    fold: &Fold,
    definition: &Definition,
    (name, now): (&str, Timestamp),
) -> bool {
    let found = leaves(fold, definition, now);
    found.iter().any(|leaf| {
        let Leaf::Visit {
            visit, name: step, ..
        } = leaf
        else {
            return false;
        };
        let activity = matches!(
            visit.newest.as_str(),
            "ActivityScheduled" | "ActivityStarted"
        );
        activity && (step == name || visit.name == name)
    })
}

/// The steps that a signal can answer: those whose token the history shows.
#[must_use]
pub fn token_waits(fold: &Fold, definition: &Definition, now: Timestamp) -> Vec<TokenWait> {
    let found = leaves(fold, definition, now);
    let waits = found.iter().filter_map(|leaf| {
        let Leaf::Visit { visit, name, .. } = leaf else {
            return None;
        };
        let path = evidence::token_path(visit, definition)?;
        Some(TokenWait {
            step: name.clone(),
            state: visit.name.clone(),
            event: visit.call.as_ref()?.event,
            path,
        })
    });
    waits.collect()
}
