//! Which visits are leaves, what they are called, and what follows where one failed.

use std::time::Duration;

use jiff::Timestamp;
use stateway_provider_api::{NativeState, StepObservation};

use crate::fold::{Failure, Frame, FrameKind, ROOT, Visit};
use crate::retrier::{Answer, Promise, answer, takes};
use crate::{Definition, Fold};

/// Everything that follows a failure, except a pause, follows within this time.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Something open with nothing open inside it.
pub(super) enum Leaf<'f> {
    /// A state.
    Visit {
        visit: &'f Visit,
        name: String,
        follow_up: Option<FollowUp>,
    },
    /// An iteration of a Map that is between states or has failed.
    Iteration {
        frame: &'f Frame,
        name: String,
        follow_up: Option<FollowUp>,
    },
}

/// What follows a failure.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FollowUp {
    /// Another attempt of the state or of one around it. The promise is missing where the
    /// definition is not known.
    Retry {
        /// The visit that is tried again.
        scope: usize,
        /// Which attempt of it failed, from 1.
        attempt: u32,
        promise: Option<Promise>,
        failed_at: Option<Timestamp>,
    },
    /// A catcher takes it.
    Catch,
    /// The execution ended with it.
    End,
    /// The execution ended with it, and a retrier had no attempt left.
    Exhausted,
}

impl FollowUp {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::Catch => "catch",
            Self::End => "end",
            Self::Exhausted => "exhausted",
        }
    }
}

/// What follows the last event, and the Parallel or Map state that it applies to, if it is not the state itself.
struct Outcome {
    follow_up: Option<FollowUp>,
    container: Option<usize>,
}

pub(super) fn leaves<'f>(fold: &'f Fold, definition: &Definition, now: Timestamp) -> Vec<Leaf<'f>> {
    let live: Vec<bool> = (0..fold.frames.len())
        .map(|frame| fold.is_live(frame))
        .collect();
    let mut occupied = vec![false; fold.frames.len()];
    let mut has_inside = vec![false; fold.visits.len()];
    for visit in fold.visits.iter().filter(|visit| visit.open) {
        occupied[visit.frame] = true;
    }
    let iteration = |frame: &Frame| {
        matches!(
            frame.kind,
            FrameKind::Iteration(_) | FrameKind::SomeIteration(_)
        )
    };
    let shown: Vec<bool> = fold
        .frames
        .iter()
        .enumerate()
        .map(|(at, frame)| live[at] && !occupied[at] && iteration(frame))
        .collect();
    for (at, frame) in fold.frames.iter().enumerate() {
        if let (Some(owner), true) = (frame.owner, live[at] && (occupied[at] || shown[at])) {
            has_inside[owner] = true;
        }
    }
    let open = fold
        .visits
        .iter()
        .enumerate()
        .filter(|(at, visit)| visit.open && live[visit.frame] && !has_inside[*at]);
    let mut found: Vec<(usize, Leaf<'f>, Outcome)> = open
        .map(|(at, visit)| {
            let outcome = after_visit(fold, definition, now, at);
            let follow_up = outcome.follow_up.clone();
            let name = visit_name(fold, visit);
            (
                visit.frame,
                Leaf::Visit {
                    visit,
                    name,
                    follow_up,
                },
                outcome,
            )
        })
        .collect();
    for (at, frame) in fold.frames.iter().enumerate().filter(|(at, _)| shown[*at]) {
        let outcome = after_iteration(fold, definition, now, frame);
        let follow_up = outcome.follow_up.clone();
        let name = frame_name(fold, at);
        found.push((
            at,
            Leaf::Iteration {
                frame,
                name,
                follow_up,
            },
            outcome,
        ));
    }
    without_doomed(fold, found)
}

/// When a Parallel or Map is to be tried again or caught as a whole, only the failure that causes
/// it counts: its siblings are being aborted.
fn without_doomed<'f>(fold: &Fold, found: Vec<(usize, Leaf<'f>, Outcome)>) -> Vec<Leaf<'f>> {
    let mut doomed: Vec<(usize, u64, usize)> = Vec::new();
    for (at, (_, leaf, outcome)) in found.iter().enumerate() {
        let Some(container) = outcome.container else {
            continue;
        };
        let event = leaf.failure().map_or(u64::MAX, |failure| failure.event);
        match doomed.iter_mut().find(|(known, _, _)| *known == container) {
            Some(first) if first.1 <= event => {}
            Some(first) => *first = (container, event, at),
            None => doomed.push((container, event, at)),
        }
    }
    let survives = |at: usize, frame: usize| {
        doomed.iter().all(|(container, _, cause)| {
            *cause == at || !owners(fold, frame).any(|owner| owner == *container)
        })
    };
    found
        .into_iter()
        .enumerate()
        .filter(|(at, (frame, _, _))| survives(*at, *frame))
        .map(|(_, (_, leaf, _))| leaf)
        .collect()
}

impl Leaf<'_> {
    pub(super) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Visit { visit, .. } => visit.failures.last(),
            Self::Iteration { frame, .. } => frame.failure.as_ref(),
        }
    }
}

fn after_visit(fold: &Fold, definition: &Definition, now: Timestamp, at: usize) -> Outcome {
    let visit = &fold.visits[at];
    let nothing = Outcome {
        follow_up: None,
        container: None,
    };
    let (true, Some(failure)) = (visit.failed, visit.failures.last()) else {
        return nothing;
    };
    let Some(state) = definition.state(&visit.name) else {
        let follow_up = structural(fold, now, at, failure);
        return Outcome {
            follow_up,
            ..nothing
        };
    };
    let errors = visit
        .failures
        .iter()
        .map(|failure| failure.error.as_deref());
    let said = answer(&state.retriers, errors);
    let exhausted = said == Answer::Exhausted && state.retriers.iter().any(|r| r.max_attempts > 0);
    if fold.ending().is_none() {
        if let Answer::Retry(promise) = said {
            let follow_up = FollowUp::Retry {
                scope: at,
                attempt: count(visit.failures.len()),
                promise: Some(promise),
                failed_at: failure.at,
            };
            return Outcome {
                follow_up: Some(follow_up),
                ..nothing
            };
        }
        if caught(&state.catchers, failure) {
            return Outcome {
                follow_up: Some(FollowUp::Catch),
                ..nothing
            };
        }
    }
    around(fold, definition, (visit.frame, failure), exhausted)
}

fn after_iteration(fold: &Fold, definition: &Definition, now: Timestamp, frame: &Frame) -> Outcome {
    let (Some(failure), Some(owner)) = (&frame.failure, frame.owner) else {
        return Outcome {
            follow_up: None,
            container: None,
        };
    };
    if definition.state(&fold.visits[owner].name).is_none() {
        return Outcome {
            follow_up: structural(fold, now, owner, failure),
            container: Some(owner),
        };
    }
    let position = fold
        .frames
        .iter()
        .position(|other| std::ptr::eq(other, frame));
    around(fold, definition, (position.unwrap_or(ROOT), failure), false)
}

/// What the containers around a failure make of it, the nearest first.
fn around(
    fold: &Fold,
    definition: &Definition,
    (frame, failure): (usize, &Failure),
    mut exhausted: bool,
) -> Outcome {
    for owner in owners(fold, frame) {
        let container = &fold.visits[owner];
        let Some(state) = definition.state(&container.name) else {
            continue;
        };
        let errors = container.failures.iter().chain([failure]);
        let said = answer(
            &state.retriers,
            errors.map(|failure| failure.error.as_deref()),
        );
        exhausted |= said == Answer::Exhausted;
        if fold.ending().is_some() {
            continue;
        }
        if let Answer::Retry(promise) = said {
            let follow_up = FollowUp::Retry {
                scope: owner,
                attempt: count(container.failures.len()) + 1,
                promise: Some(promise),
                failed_at: failure.at,
            };
            return Outcome {
                follow_up: Some(follow_up),
                container: Some(owner),
            };
        }
        if caught(&state.catchers, failure) {
            return Outcome {
                follow_up: Some(FollowUp::Catch),
                container: Some(owner),
            };
        }
    }
    let ended = fold.ending().is_some();
    let follow_up = if exhausted {
        FollowUp::Exhausted
    } else {
        FollowUp::End
    };
    Outcome {
        follow_up: ended.then_some(follow_up),
        container: None,
    }
}

/// Without a definition: only a pause leaves a failure standing.
fn structural(fold: &Fold, now: Timestamp, scope: usize, failure: &Failure) -> Option<FollowUp> {
    if fold.ending().is_some() {
        return Some(FollowUp::End);
    }
    let stands = failure.at?.checked_add(AT_ONCE).ok()? < now;
    stands.then(|| FollowUp::Retry {
        scope,
        attempt: count(fold.visits[scope].failures.len()).max(1),
        promise: None,
        failed_at: failure.at,
    })
}

fn caught(catchers: &[Vec<String>], failure: &Failure) -> bool {
    let error = failure.error.as_deref();
    catchers.iter().any(|catcher| takes(catcher, error))
}

fn count(failures: usize) -> u32 {
    u32::try_from(failures).unwrap_or(u32::MAX)
}

fn owners(fold: &Fold, frame: usize) -> impl Iterator<Item = usize> + '_ {
    let first = fold.frames[frame].owner;
    std::iter::successors(first, |owner| fold.frames[fold.visits[*owner].frame].owner)
}

/// `fan-out[3].charge`: the containers, the iterations, the state.
fn visit_name(fold: &Fold, visit: &Visit) -> String {
    let state = match visit.name.as_str() {
        "" => {
            let first = visit.call.as_ref().map_or(0, |call| call.event);
            return format!("(unread #{first} {})", visit.newest);
        }
        name => name,
    };
    match visit.frame {
        ROOT => state.to_owned(),
        frame => format!("{}.{state}", frame_name(fold, frame)),
    }
}

fn frame_name(fold: &Fold, frame: usize) -> String {
    let Frame { owner, kind, .. } = fold.frames[frame];
    let owner = owner.map_or_else(String::new, |owner| visit_name(fold, &fold.visits[owner]));
    match kind {
        FrameKind::Root | FrameKind::Branches => owner,
        FrameKind::Iteration(index) => format!("{owner}[{index}]"),
        FrameKind::SomeIteration(event) => format!("{owner}[#{event}]"),
    }
}

/// The state that was left last, when nothing is open: the next one is about to be entered.
pub(super) fn left(visit: &Visit) -> StepObservation {
    let mut step = StepObservation::new(&visit.name, NativeState::new(&visit.newest));
    step.start_time = visit.entered_at;
    step.end_time = visit.newest_at;
    step
}
