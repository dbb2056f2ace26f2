//! Where an event belongs. The service's links are followed, except for those that are known to be wrong, which are
//! corrected.

use super::{Failure, Fold, FrameKind, Place, ROOT, Visit};
use crate::Definition;
use crate::event::{Event, Role};

impl Fold {
    /// The place of the event that this one follows; `None` when that was not read.
    pub(super) fn before(&self, event: &Event) -> Option<Place> {
        if event.previous == 0 {
            return Some(Place::root());
        }
        self.places.get(&event.previous).copied()
    }

    /// The visit that an attempt's event belongs to. The first event after a redrive may follow
    /// the redrive itself.
    pub(super) fn place_of_move(&self, event: &Event) -> Option<Place> {
        let before = self.before(event)?;
        if before.visit.is_some() || event.role() == Role::Unknown {
            return Some(before);
        }
        let reopened = |visit: &Visit| {
            visit.open && visit.kind == "Task" && visit.newest == "ExecutionRedriven"
        };
        let Some(visit) = self.visits.iter().rposition(reopened) else {
            return Some(before);
        };
        Some(Place {
            frame: self.visits[visit].frame,
            visit: Some(visit),
        })
    }

    /// In which frame a state is entered.
    pub(super) fn frame_of_entry(
        &mut self,
        event: &Event,
        name: &str,
        definition: &Definition,
    ) -> usize {
        if definition.is_top(name) {
            return ROOT;
        }
        let Some(before) = self.before(event) else {
            return self.orphan_frame(event, name, definition);
        };
        let inner = definition.state(name).is_some();
        if inner && before.frame == ROOT {
            // After a redrive, an inner state may be linked to the redrive: it continues where it was.
            let earlier = self.visits.iter().rfind(|visit| visit.name == name);
            if let Some(earlier) = earlier {
                return earlier.frame;
            }
        }
        before.frame
    }

    /// The visit that an exit ends.
    pub(super) fn visit_to_leave(&self, event: &Event, name: &str) -> Option<usize> {
        let before = self.before(event)?;
        let own = before.visit.filter(|visit| {
            let visit = &self.visits[*visit];
            visit.open && (visit.name == name || visit.name.is_empty())
        });
        let around = || {
            let mut owners = self.owners(before);
            owners.find(|owner| self.visits[*owner].name == name && self.visits[*owner].open)
        };
        own.or_else(around)
            .or_else(|| self.open_visit_named(name, Some(before.frame)))
    }

    /// The Parallel or Map that begins an attempt: the one just entered, or the nearest around
    /// the child that failed.
    pub(super) fn container(&self, event: &Event, kind: &str) -> Option<usize> {
        let before = self.before(event)?;
        let mut near = before.visit.into_iter().chain(self.owners(before));
        let near = near.find(|visit| self.visits[*visit].kind == kind);
        let reopened = || {
            let reopened = |visit: &Visit| {
                visit.open && visit.kind == kind && visit.newest == "ExecutionRedriven"
            };
            self.visits.iter().rposition(reopened)
        };
        near.or_else(reopened)
    }

    /// The nearest Parallel or Map that is not over yet. Nested ones end one after the other, all
    /// linked to the same child.
    pub(super) fn container_still_open(&self, event: &Event, kind: &str) -> Option<usize> {
        let before = self.before(event)?;
        let mut near = before.visit.into_iter().chain(self.owners(before));
        near.find(|visit| {
            let visit = &self.visits[*visit];
            let over = visit.newest.ends_with("Failed") || visit.newest.ends_with("Succeeded");
            visit.kind == kind && visit.open && !over
        })
    }

    /// The Map of this name at or around the event before, or any open one.
    pub(super) fn container_named(&self, event: &Event, name: &str) -> Option<usize> {
        let before = self.before(event);
        let near = before.and_then(|before| {
            let mut near = before.visit.into_iter().chain(self.owners(before));
            near.find(|visit| self.visits[*visit].name == name)
        });
        near.or_else(|| self.open_visit_named(name, None))
    }

    /// The newest open frame of this iteration.
    pub(super) fn iteration(&self, map: usize, index: u64) -> Option<usize> {
        let mut frames = self.visits[map].frames.iter().rev().copied();
        frames.find(|frame| {
            let frame = &self.frames[*frame];
            frame.kind == FrameKind::Iteration(index) && frame.open
        })
    }

    /// The newest open visit of this name, in this frame if there is one there.
    pub(super) fn open_visit_named(&self, name: &str, frame: Option<usize>) -> Option<usize> {
        let named = |visit: &Visit| visit.open && visit.name == name;
        let here = |visit: &Visit| named(visit) && Some(visit.frame) == frame;
        let visits = &self.visits;
        visits
            .iter()
            .rposition(here)
            .or_else(|| visits.iter().rposition(named))
    }

    /// The Parallel and Map visits around a place, the nearest first.
    pub(super) fn owners(&self, place: Place) -> impl Iterator<Item = usize> + '_ {
        let first = self.frames[place.frame].owner;
        std::iter::successors(first, |owner| self.frames[self.visits[*owner].frame].owner)
    }

    /// Why the child failed that this event of a container follows.
    pub(super) fn failure_at(&self, event: &Event, container: usize) -> Option<Failure> {
        let before = self.before(event)?;
        let of_visit = before
            .visit
            .filter(|visit| *visit != container)
            .and_then(|visit| self.visits[visit].failures.last());
        let of_frame = || self.frames[before.frame].failure.as_ref();
        let mut failure = of_visit.or_else(of_frame)?.clone();
        // The pause before the next attempt counts from here.
        failure.at = failure.at.or(event.at);
        Some(failure)
    }

    /// A frame for an event of which only the state's name is known.
    pub(super) fn orphan_frame(
        &mut self,
        event: &Event,
        name: &str,
        definition: &Definition,
    ) -> usize {
        let container = definition
            .state(name)
            .and_then(|state| state.container.clone());
        let Some(container) = container else {
            return ROOT;
        };
        let owner = self.orphan_container(event, &container, definition);
        let branches = |frame: &usize| {
            self.frames[*frame].open && self.frames[*frame].kind == FrameKind::Branches
        };
        if self.visits[owner].kind == "Parallel" {
            let there = self.visits[owner].frames.iter().copied().find(branches);
            return there.unwrap_or_else(|| self.open_frame(owner, FrameKind::Branches, None));
        }
        self.open_frame(owner, FrameKind::SomeIteration(event.id), None)
    }

    /// The open visit of a container whose entry was not read.
    pub(super) fn orphan_container(
        &mut self,
        event: &Event,
        name: &str,
        definition: &Definition,
    ) -> usize {
        if let Some(known) = self.open_visit_named(name, None) {
            return known;
        }
        let frame = self.orphan_frame(event, name, definition);
        let kind = definition.state(name).map(|state| state.kind.as_str());
        let kind = if kind == Some("Parallel") {
            "Parallel"
        } else {
            "Map"
        };
        let mut visit = Visit::new(frame, name.to_owned(), kind, event);
        visit.newest = format!("{kind}StateStarted");
        (visit.entered_at, visit.newest_at) = (None, None);
        visit.attempts = 1;
        self.visits.push(visit);
        self.visits.len() - 1
    }

    /// A visit without a known name, because its entry was not read.
    pub(super) fn anonymous(&mut self, event: &Event) -> Place {
        let mut visit = Visit::new(ROOT, String::new(), "", event);
        visit.entered_at = None;
        visit.take(event);
        self.visits.push(visit);
        Place {
            frame: ROOT,
            visit: Some(self.visits.len() - 1),
        }
    }
}
