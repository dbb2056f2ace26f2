//! A history, folded: which states are open, in which branch, and what happened in each.
//!
//! A *visit* is one entry into a state. A *frame* is where visits happen: the root, one attempt of
//! a Parallel, or one iteration of a Map. Each event is placed by the event it follows. That link
//! alone is not enough, because the service uses it freely: a retried Parallel starts again after
//! the event of the child that failed, an iteration may follow the last event of another one,
//! `MapStateSucceeded` and `MapStateExited` follow the same event, and an aborted sibling follows
//! an event of the branch that won. `fold/place.rs` knows these.
//!
//! What follows from an open visit is said in [`steps`](crate::steps); what is read at all is
//! decided in [`Reader`](crate::Reader).

mod place;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::Definition;
use crate::event::{Event, Role};

/// What is known from a history so far. Later events can be added at any time.
#[derive(Debug, Clone)]
pub struct Fold {
    pub(crate) frames: Vec<Frame>,
    pub(crate) visits: Vec<Visit>,
    places: BTreeMap<u64, Place>,
    last: Option<(u64, Option<Timestamp>)>,
    ending: Option<Ending>,
    redrives: u32,
    last_left: Option<usize>,
    partial: bool,
}

/// The frame of the top-level states.
pub(crate) const ROOT: usize = 0;

/// Where visits happen.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The visit of the Parallel or Map; none for the root.
    pub(crate) owner: Option<usize>,
    pub(crate) kind: FrameKind,
    pub(crate) open: bool,
    /// When it began.
    pub(crate) since: Option<Timestamp>,
    /// Of an iteration that failed as a whole.
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Root,
    Branches,
    Iteration(u64),
    /// An iteration whose beginning was not read, by the first event that was.
    SomeIteration(u64),
}

/// One entry into a state.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) frame: usize,
    /// Empty when the entry was not read.
    pub(crate) name: String,
    /// `Task`, `Wait` and so on; empty when the entry was not read.
    pub(crate) kind: &'static str,
    pub(crate) open: bool,
    /// The newest event of its own, verbatim.
    pub(crate) newest: String,
    pub(crate) newest_at: Option<Timestamp>,
    pub(crate) entered_at: Option<Timestamp>,
    /// The failures since the entry or the last redrive, oldest first.
    pub(crate) failures: Vec<Failure>,
    /// Whether the newest event is a failure.
    pub(crate) failed: bool,
    /// The newest call, with its event's id.
    pub(crate) call: Option<TaskCall>,
    pub(crate) attempts: u32,
    /// The Map Run of a distributed Map.
    pub(crate) map_run: Option<String>,
    frames: Vec<usize>,
}

/// What a task calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskCall {
    pub(crate) event: u64,
    pub(crate) resource: String,
    pub(crate) resource_type: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) timeout_seconds: Option<i64>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// The event that says so.
    pub event: u64,
    /// The name of the error, if the event has one.
    pub error: Option<String>,
    /// The cause of the error, if the event has one.
    pub cause: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
}

/// How the execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The event's kind, verbatim.
    pub kind: String,
    /// The error and cause, where there are any.
    pub failure: Failure,
}

impl Ending {
    /// The status that `DescribeExecution` gives it.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.kind.as_str() {
            "ExecutionSucceeded" => "SUCCEEDED",
            "ExecutionTimedOut" => "TIMED_OUT",
            "ExecutionAborted" => "ABORTED",
            _ => "FAILED",
        }
    }
}

/// To which frame an event belongs, and to which visit if to one.
#[derive(Debug, Clone, Copy)]
struct Place {
    frame: usize,
    visit: Option<usize>,
}

impl Default for Fold {
    fn default() -> Self {
        let root = Frame {
            owner: None,
            kind: FrameKind::Root,
            open: true,
            since: None,
            failure: None,
        };
        Self {
            frames: vec![root],
            visits: Vec::new(),
            places: BTreeMap::new(),
            last: None,
            ending: None,
            redrives: 0,
            last_left: None,
            partial: false,
        }
    }
}

impl Fold {
    /// The newest event seen; 0 before the first.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.last.map_or(0, |(id, _)| id)
    }

    /// When the newest event happened.
    #[must_use]
    pub fn last_at(&self) -> Option<Timestamp> {
        self.last.and_then(|(_, at)| at)
    }

    /// How the execution ended, if it did.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// How many redrives were seen.
    #[must_use]
    pub const fn redrives(&self) -> u32 {
        self.redrives
    }

    /// Whether the history was too long to be read as far back as it takes.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial
    }

    /// Whether all that was read is one sequence, and its newest state runs an attempt that needs
    /// no definition to be understood.
    pub(crate) fn runs_in_sequence(&self) -> bool {
        let mut open = self.visits.iter().filter(|visit| visit.open);
        let (Some(only), None) = (open.next(), open.next()) else {
            return false;
        };
        let waits = only.newest == "TaskSubmitted" || only.name.contains('~');
        let runs = only.kind == "Task" && only.attempts > 0 && only.failures.is_empty();
        self.frames.len() == 1 && self.ending.is_none() && runs && !waits
    }

    /// Whether anything open calls one of these.
    pub(crate) fn is_at(&self, resources: &[String]) -> bool {
        let open = self.visits.iter().filter(|visit| visit.open);
        let mut calls = open.filter_map(|visit| visit.call.as_ref());
        calls.any(|call| resources.contains(&call.resource))
    }

    /// The iteration of the nearest Map around a frame.
    pub(crate) fn index_of(&self, frame: usize) -> Option<u64> {
        let mut at = frame;
        loop {
            if let FrameKind::Iteration(index) = self.frames[at].kind {
                return Some(index);
            }
            at = self.visits[self.frames[at].owner?].frame;
        }
    }

    /// Says that events before the first one may matter and were not read.
    pub(crate) const fn mark_partial(&mut self) {
        self.partial = true;
    }

    /// Redrives that happened before the first event read.
    pub(crate) fn keep_redrives(&mut self, seen: u32) {
        self.redrives = self.redrives.max(seen);
    }

    /// How many events are kept in mind.
    pub(crate) fn weight(&self) -> usize {
        self.places.len()
    }

    /// The state that was left last, when nothing at all is open.
    pub(crate) fn last_left(&self) -> Option<&Visit> {
        self.last_left.map(|visit| &self.visits[visit])
    }

    /// Takes the next event. Events are fed in ascending order; one that was seen is ignored.
    pub fn feed(&mut self, event: &Event, definition: &Definition) {
        if event.id <= self.last_id() {
            return;
        }
        self.last = Some((event.id, event.at));
        let place = match event.role() {
            Role::ExecutionStarted => Place::root(),
            Role::ExecutionEnded => {
                self.ending = Some(Ending {
                    kind: event.kind.clone(),
                    failure: failure(event),
                });
                self.before(event).unwrap_or_else(Place::root)
            }
            Role::ExecutionRedriven => self.redriven(event),
            Role::Entered => self.entered(event, definition),
            Role::Exited => self.exited(event, definition),
            Role::StateAborted => self.before(event).unwrap_or_else(Place::root),
            Role::ContainerStarted => self.container_started(event),
            Role::ContainerOver => self.container_over(event),
            Role::IterationStarted => self.iteration_started(event, definition),
            Role::IterationOver => self.iteration_over(event, definition),
            Role::Scheduled | Role::Progress | Role::Failed | Role::Unknown => self.moved(event),
            Role::EvaluationFailed => self.evaluation_failed(event),
        };
        self.places.insert(event.id, place);
    }

    fn redriven(&mut self, event: &Event) -> Place {
        self.ending = None;
        self.redrives = event.detail.redrive_count.unwrap_or(self.redrives + 1);
        for visit in self.visits.iter_mut().filter(|visit| visit.open) {
            visit.failures.clear();
            if visit.failed || visit.kind == "Task" {
                visit.newest.clone_from(&event.kind);
                visit.newest_at = event.at;
                visit.failed = false;
            }
        }
        Place::root()
    }

    fn entered(&mut self, event: &Event, definition: &Definition) -> Place {
        let name = event.detail.name.clone().unwrap_or_default();
        let frame = self.frame_of_entry(event, &name, definition);
        self.revive(frame);
        let again = |visit: &Visit| visit.open && visit.frame == frame && visit.name == name;
        for twin in self.visits.iter().positions(again) {
            self.close(twin);
        }
        let kind = state_kind(&event.kind);
        let fails = kind == "Fail";
        let mut visit = Visit::new(frame, name, kind, event);
        if fails {
            let state = definition.state(&visit.name);
            visit.failures.push(Failure {
                event: event.id,
                error: state.and_then(|state| state.error.clone()),
                cause: state.and_then(|state| state.cause.clone()),
                at: event.at,
            });
            visit.failed = true;
        }
        self.visits.push(visit);
        Place {
            frame,
            visit: Some(self.visits.len() - 1),
        }
    }

    fn exited(&mut self, event: &Event, definition: &Definition) -> Place {
        let name = event.detail.name.as_deref().unwrap_or_default();
        match self.visit_to_leave(event, name) {
            Some(visit) => {
                self.close(visit);
                self.note(visit, event);
                self.last_left = Some(visit);
                Place {
                    frame: self.visits[visit].frame,
                    visit: None,
                }
            }
            None => Place {
                frame: self.orphan_frame(event, name, definition),
                visit: None,
            },
        }
    }

    fn container_started(&mut self, event: &Event) -> Place {
        let kind = state_kind(&event.kind);
        let Some(container) = self.container(event, kind) else {
            return self.before(event).unwrap_or_else(Place::root);
        };
        let is_retry = self.before(event).is_some_and(|place| {
            place.visit != Some(container) || self.visits[container].attempts > 0
        });
        if is_retry && let Some(failure) = self.failure_at(event, container) {
            self.visits[container].failures.push(failure);
        }
        self.revive(self.visits[container].frame);
        self.drop_frames(container);
        self.note(container, event);
        self.visits[container].open = true;
        self.visits[container].attempts += 1;
        if kind == "Map" {
            return Place {
                frame: self.visits[container].frame,
                visit: Some(container),
            };
        }
        Place {
            frame: self.open_frame(container, FrameKind::Branches, event.at),
            visit: None,
        }
    }

    fn container_over(&mut self, event: &Event) -> Place {
        let kind = state_kind(&event.kind);
        let Some(container) = self.container_still_open(event, kind) else {
            return self.before(event).unwrap_or_else(Place::root);
        };
        let failed = event.kind.ends_with("Failed");
        if failed {
            let child = self.failure_at(event, container);
            let mut failure = child.unwrap_or_else(|| failure(event));
            failure.event = event.id;
            self.visits[container].failures.push(failure);
        }
        self.drop_frames(container);
        self.note(container, event);
        self.visits[container].failed = failed;
        Place {
            frame: self.visits[container].frame,
            visit: Some(container),
        }
    }

    fn iteration_started(&mut self, event: &Event, definition: &Definition) -> Place {
        let name = event.detail.name.as_deref().unwrap_or_default();
        let map = self
            .container_named(event, name)
            .unwrap_or_else(|| self.orphan_container(event, name, definition));
        self.revive(self.visits[map].frame);
        let index = event.detail.index.unwrap_or_default();
        if let Some(earlier) = self.iteration(map, index) {
            self.close_frame(earlier);
        }
        Place {
            frame: self.open_frame(map, FrameKind::Iteration(index), event.at),
            visit: None,
        }
    }

    fn iteration_over(&mut self, event: &Event, definition: &Definition) -> Place {
        let name = event.detail.name.as_deref().unwrap_or_default();
        let index = event.detail.index.unwrap_or_default();
        let found = self.container_named(event, name);
        let found = found.and_then(|map| Some((map, self.iteration(map, index)?)));
        let Some((map, frame)) = found else {
            return Place {
                frame: self.orphan_frame(event, name, definition),
                visit: None,
            };
        };
        if event.kind == "MapIterationFailed" {
            let failure = self
                .failure_at(event, map)
                .unwrap_or_else(|| failure(event));
            self.close_visits_in(frame);
            self.frames[frame].failure = Some(Failure {
                event: event.id,
                ..failure
            });
        } else {
            self.close_frame(frame);
        }
        Place { frame, visit: None }
    }

    fn moved(&mut self, event: &Event) -> Place {
        let Some(place) = self.place_of_move(event) else {
            return self.anonymous(event);
        };
        let Some(visit) = place.visit else {
            return place;
        };
        self.revive_visit(visit);
        self.note(visit, event);
        self.visits[visit].take(event);
        place
    }

    fn evaluation_failed(&mut self, event: &Event) -> Place {
        let before = self.before(event).unwrap_or_else(Place::root);
        let name = event.detail.name.as_deref().unwrap_or_default();
        let Some(visit) = self.open_visit_named(name, Some(before.frame)) else {
            return before;
        };
        self.note(visit, event);
        self.visits[visit].failures.push(failure(event));
        self.visits[visit].failed = true;
        Place {
            frame: self.visits[visit].frame,
            visit: Some(visit),
        }
    }

    fn note(&mut self, visit: usize, event: &Event) {
        let visit = &mut self.visits[visit];
        visit.newest.clone_from(&event.kind);
        visit.newest_at = event.at;
        visit.failed = false;
    }

    fn open_frame(&mut self, owner: usize, kind: FrameKind, since: Option<Timestamp>) -> usize {
        self.frames.push(Frame {
            owner: Some(owner),
            kind,
            open: true,
            since,
            failure: None,
        });
        let frame = self.frames.len() - 1;
        self.visits[owner].frames.push(frame);
        frame
    }

    fn close(&mut self, visit: usize) {
        self.visits[visit].open = false;
        self.drop_frames(visit);
    }

    fn drop_frames(&mut self, visit: usize) {
        // Ended frames stay listed: a redrive may continue in them.
        for at in 0..self.visits[visit].frames.len() {
            let frame = self.visits[visit].frames[at];
            self.frames[frame].open = false;
        }
    }

    fn close_frame(&mut self, frame: usize) {
        self.frames[frame].open = false;
    }

    fn close_visits_in(&mut self, frame: usize) {
        for visit in self.visits.iter().positions(|visit| visit.frame == frame) {
            self.close(visit);
        }
    }

    /// Whether the frame and everything around it is open.
    pub(crate) fn is_live(&self, frame: usize) -> bool {
        let mut at = frame;
        loop {
            let Frame { owner, open, .. } = self.frames[at];
            if !open {
                return false;
            }
            let Some(owner) = owner else {
                return true;
            };
            if !self.visits[owner].open {
                return false;
            }
            at = self.visits[owner].frame;
        }
    }

    /// After a redrive, work continues in states that had ended.
    fn revive(&mut self, frame: usize) {
        if self.redrives == 0 {
            return;
        }
        let mut at = frame;
        loop {
            self.frames[at].open = true;
            self.frames[at].failure = None;
            let Some(owner) = self.frames[at].owner else {
                return;
            };
            self.visits[owner].open = true;
            self.visits[owner].failed = false;
            at = self.visits[owner].frame;
        }
    }

    fn revive_visit(&mut self, visit: usize) {
        if self.redrives > 0 {
            self.visits[visit].open = true;
            self.revive(self.visits[visit].frame);
        }
    }
}

impl Visit {
    fn new(frame: usize, name: String, kind: &'static str, event: &Event) -> Self {
        Self {
            frame,
            name,
            kind,
            open: true,
            newest: event.kind.clone(),
            newest_at: event.at,
            entered_at: event.at,
            failures: Vec::new(),
            failed: false,
            call: None,
            attempts: 0,
            map_run: None,
            frames: Vec::new(),
        }
    }

    /// An attempt begins, continues or fails.
    fn take(&mut self, event: &Event) {
        let role = event.role();
        match role {
            Role::Failed => self.failures.push(failure(event)),
            Role::Scheduled => {
                self.attempts += 1;
                self.call = Some(task_call(event));
            }
            _ => {}
        }
        if event.detail.map_run.is_some() {
            self.map_run.clone_from(&event.detail.map_run);
        }
        self.failed = role == Role::Failed;
    }
}

impl Place {
    const fn root() -> Self {
        Self {
            frame: ROOT,
            visit: None,
        }
    }
}

fn failure(event: &Event) -> Failure {
    Failure {
        event: event.id,
        error: event.detail.error.clone(),
        cause: event.detail.cause.clone(),
        at: event.at,
    }
}

fn task_call(event: &Event) -> TaskCall {
    TaskCall {
        event: event.id,
        resource: event.detail.resource.clone().unwrap_or_default(),
        resource_type: event.detail.resource_type.clone().unwrap_or_default(),
        at: event.at,
        timeout_seconds: event.detail.timeout_seconds,
    }
}

fn state_kind(event_kind: &str) -> &'static str {
    const KINDS: [&str; 8] = [
        "Task", "Wait", "Choice", "Pass", "Succeed", "Fail", "Parallel", "Map",
    ];
    let found = KINDS.iter().find(|kind| {
        event_kind
            .strip_prefix(**kind)
            .is_some_and(|rest| rest.starts_with("State"))
    });
    found.copied().unwrap_or_default()
}

/// The positions at which something holds. Collected, so that what they point into may change.
trait Positions<'a, T: 'a>: Iterator<Item = &'a T> + Sized {
    fn positions(self, holds: impl Fn(&T) -> bool) -> Vec<usize> {
        let found = self.enumerate().filter(|(_, item)| holds(item));
        found.map(|(position, _)| position).collect()
    }
}

impl<'a, T: 'a, I: Iterator<Item = &'a T>> Positions<'a, T> for I {}
