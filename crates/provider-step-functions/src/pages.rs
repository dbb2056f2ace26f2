//! How much of a history is read: newest first, and no further back than it takes.
//!
//! The top of a state machine is one sequence, so the newest entry into a top-level state is as
//! far back as anything open can reach. Decides only; the pages are fetched by
//! [`client`](crate::client).

use crate::event::{Event, Role};
use crate::{Definition, Fold};

/// The first page is short: it is all that a sequential history takes.
pub(crate) const FIRST_PAGE: u32 = 100;
/// The largest page the service gives.
const NEXT_PAGE: u32 = 1_000;

/// Takes pages, newest event first, until enough is known.
#[derive(Debug)]
pub struct HistoryPages<'d> {
    definition: &'d Definition,
    known: Option<Fold>,
    most_pages: usize,
    pages: usize,
    /// Newest first.
    read: Vec<Event>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The events join on to what was known.
    Joined,
    /// The events begin where nothing before them matters.
    Whole,
    /// The bound was reached.
    Partial,
}

impl<'d> HistoryPages<'d> {
    /// A reader that continues after the events that are known.
    #[must_use]
    pub const fn new(definition: &'d Definition, known: Option<Fold>, most_pages: usize) -> Self {
        Self {
            definition,
            known,
            most_pages,
            pages: 0,
            read: Vec::new(),
            state: State::Reading,
        }
    }

    /// How many events to ask for next; `None` when enough is known.
    #[must_use]
    pub fn wants(&self) -> Option<u32> {
        match (self.state, self.pages) {
            (State::Reading, 0) => Some(FIRST_PAGE),
            (State::Reading, _) => Some(NEXT_PAGE),
            _ => None,
        }
    }

    /// Takes a page, newest event first, and whether there is another behind it.
    pub fn take(&mut self, page: Vec<Event>, more: bool) {
        self.pages += 1;
        let last_known = self.known.as_ref().map_or(0, Fold::last_id);
        for event in page {
            if event.id <= last_known {
                self.state = State::Joined;
                return;
            }
            let is_bound = self.is_bound(&event);
            self.read.push(event);
            if is_bound {
                self.state = State::Whole;
                return;
            }
        }
        if !more {
            self.state = State::Whole;
        } else if self.pages >= self.most_pages {
            self.state = State::Partial;
        }
    }

    fn is_bound(&self, event: &Event) -> bool {
        let name = event.detail.name.as_deref().unwrap_or_default();
        event.role() == Role::Entered && self.definition.is_top(name)
    }

    /// What is known now.
    #[must_use]
    pub fn finish(self) -> Fold {
        let redrives = self.known.as_ref().map_or(0, Fold::redrives);
        let mut fold = match self.state {
            State::Joined => self.known.unwrap_or_default(),
            State::Whole => Fold::default(),
            State::Partial | State::Reading => {
                let mut fold = Fold::default();
                fold.mark_partial();
                fold
            }
        };
        for event in self.read.iter().rev() {
            fold.feed(event, self.definition);
        }
        fold.keep_redrives(redrives);
        fold
    }
}
