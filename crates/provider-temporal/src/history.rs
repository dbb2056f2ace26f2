//! Histories: the events of all runs of an execution that the server still has, the oldest run first. Events that
//! a reset copied from another run are left out.
//!
//! The server's pages are groups of events that were written together, so a page here may end in the
//! middle of one of them: a cursor has the server's token and the last event that was shown.

mod chain;
mod chosen;
mod event;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_provider_api::adapter::cursor::{self, HISTORY, NEWEST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{ErrorKind, EventOrder, HistoryPage, HistoryRequest, Result, View};

use crate::api::history::v1::HistoryEvent;
use crate::api::workflowservice::v1::{
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryReverseRequest,
};
use crate::client::{Ask, Client};
use crate::facts::Facts;
use crate::id::WorkflowRef;
use crate::query;
use crate::quota::Api;
use crate::reader::{Reader, not_found};
use crate::time::timestamp;
use chain::{Chain, Run};
pub(crate) use chosen::{ResetPoint, event_number};
use event::Before;

/// The most events of one page.
const LONGEST: u32 = 1_000;

/// Where a history continues.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    run: String,
    /// When the run began, in case that the server deletes it before the next page is read.
    started: Option<Timestamp>,
    /// The server's token of the page that contains the next event; empty: the run's first page.
    token: Vec<u8>,
    /// The last event of this run that was shown; 0: none.
    shown: i64,
    /// The run that was the current one when the first page was read, and its last event then.
    current: String,
    until: i64,
}

impl Position {
    /// The beginning of another run.
    fn of(run: &Run, current: String, until: i64) -> Self {
        Self {
            run: run.id.clone(),
            started: run.started,
            token: Vec::new(),
            shown: 0,
            current,
            until,
        }
    }

    fn next(&self, run: Option<&Run>) -> Option<Self> {
        run.map(|run| Self::of(run, self.current.clone(), self.until))
    }

    /// Where to read on: here, or in the next run that the server still has.
    fn place(self, runs: &[Run], newest_first: bool) -> Option<(usize, Self)> {
        if let Some(place) = runs.iter().position(|run| run.id == self.run) {
            return Some((place, self));
        }
        let place = if newest_first {
            runs.iter().rposition(|run| run.started < self.started)
        } else {
            runs.iter().position(|run| run.started > self.started)
        };
        let place = place?;
        Some((place, self.next(runs.get(place))?))
    }
}

pub(crate) async fn history(
    reader: &Reader,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &HistoryRequest,
) -> Result<HistoryPage> {
    let newest_first = request.order == EventOrder::NewestFirst;
    let name = if newest_first { NEWEST } else { HISTORY };
    let from: Option<Position> = cursor::read(name, request.cursor.as_deref(), ask.verb)?;
    let size = page_size(request.page_size, LONGEST, ask.verb)? as usize;
    let chain = reader.chain(ask, of).await?;
    let runs = &chain.runs;
    let first = if newest_first {
        runs.last()
    } else {
        runs.first()
    };
    let (Some(first), Some(current)) = (first, runs.last()) else {
        return Ok(HistoryPage::default());
    };
    let from = from.unwrap_or_else(|| Position::of(first, current.id.clone(), current.length));
    let mut next = Some(from);
    let mut events = Vec::new();
    while events.len() < size {
        let Some((place, mut at)) = next.and_then(|at| at.place(runs, newest_first)) else {
            next = None;
            break;
        };
        let run = &runs[place];
        let other = if newest_first {
            place.checked_sub(1).map(|place| &runs[place])
        } else {
            runs.get(place + 1)
        };
        let read = reader.run_page(ask, of, run, &at, newest_first, size).await;
        let (mut page, token, facts) = match read {
            Ok(read) => read,
            // The server has deleted the run since it was listed.
            Err(error) if error.kind == ErrorKind::NotFound && place + 1 < runs.len() => {
                next = at.next(other);
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(codec) = &reader.codec {
            match request.view {
                View::Full => codec.decode_events(ask.call, &mut page).await,
                // Its summaries have the messages of failures.
                View::Basic => codec.decode_texts(ask.call, &mut page).await,
            };
        }
        let is_oldest = place == 0 && page.iter().any(|event| event.event_id == 1);
        let before = if is_oldest {
            reader.before(ask, of, &chain, &facts).await?
        } else {
            None
        };
        let room = size - events.len();
        let is_cut = page.len() > room;
        for event in page.iter().take(room) {
            at.shown = event.event_id;
            let shown = event::shown(event, run.offset, request.view, &facts, before.as_ref());
            events.push(shown);
        }
        next = if is_cut {
            Some(at)
        } else if !token.is_empty() {
            Some(Position { token, ..at })
        } else {
            at.next(other)
        };
    }
    Ok(HistoryPage {
        events,
        next: next.map(|position| cursor::write(name, &position)),
    })
}

/// Whether an event of a page is to be shown: not twice, not a copy, nothing that may be taken back.
fn is_shown(
    event: &HistoryEvent,
    run: &Run,
    facts: &Facts,
    at: &Position,
    newest_first: bool,
) -> bool {
    let id = event.event_id;
    let until = if run.id == at.current {
        at.until
    } else {
        run.length
    };
    let is_new = at.shown == 0
        || if newest_first {
            id < at.shown
        } else {
            id > at.shown
        };
    is_new && id <= until && !is_copy(event, run, facts)
}

/// Whether a reset copied the event from another run.
fn is_copy(event: &HistoryEvent, run: &Run, facts: &Facts) -> bool {
    if let Some(reset) = &facts.reset {
        return event.event_id < reset.event;
    }
    // The reset may be too long ago for the facts. The start of a run may be rounded.
    let earliest = run
        .started
        .and_then(|time| time.checked_sub(query::IMPRECISION).ok());
    timestamp(event.event_time.as_ref()) < earliest
}

impl Reader {
    /// The next events of a run that are to be shown, and the server's token of the page after them.
    async fn run_page(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        run: &Run,
        at: &Position,
        newest_first: bool,
        size: usize,
    ) -> Result<(Vec<HistoryEvent>, Vec<u8>, Arc<Facts>)> {
        let named = of.run(&run.id);
        let page = self.page(ask, &named, at, newest_first, size).await;
        let (mut page, token) = page?;
        let facts = self.facts(ask, of, &run.info).await?;
        page.retain(|event| is_shown(event, run, &facts, at, newest_first));
        Ok((page, token, facts))
    }

    /// The run before the oldest one that is shown.
    async fn before(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        chain: &Chain,
        oldest: &Facts,
    ) -> Result<Option<Before>> {
        let begin = oldest.begin.as_ref().filter(|_| chain.is_cut);
        let Some(run) = begin.and_then(|begin| begin.previous_run.clone()) else {
            return Ok(None);
        };
        let run = of.run(&run);
        Ok(Some(Before {
            is_gone: !self.has_run(ask, &run).await?,
            name: run.name(),
        }))
    }

    /// The page of the server that contains the next events.
    async fn page(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        at: &Position,
        newest_first: bool,
        size: usize,
    ) -> Result<(Vec<HistoryEvent>, Vec<u8>)> {
        self.client.count(Api::Reads);
        let namespace = self.client.namespace();
        let execution = Client::execution(run);
        let maximum_page_size = i32::try_from(size).unwrap_or(i32::MAX);
        let next_page_token = at.token.clone();
        let (history, token) = if newest_first {
            let request = GetWorkflowExecutionHistoryReverseRequest {
                namespace,
                execution,
                maximum_page_size,
                next_page_token,
            };
            let page = self
                .client
                .get_workflow_execution_history_reverse(ask, request);
            let page = page
                .await
                .map_err(|error| not_found(error, ask.verb, run))?;
            (page.history, page.next_page_token)
        } else {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace,
                execution,
                maximum_page_size,
                next_page_token,
                ..Default::default()
            };
            let page = self.client.get_workflow_execution_history(ask, request);
            let page = page
                .await
                .map_err(|error| not_found(error, ask.verb, run))?;
            (page.history, page.next_page_token)
        };
        Ok((history.unwrap_or_default().events, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::workflow::v1::WorkflowExecutionInfo;
    use crate::facts::Reset;

    fn run(id: &str, second: i64) -> Run {
        Run {
            id: id.to_owned(),
            info: WorkflowExecutionInfo::default(),
            started: Timestamp::from_second(second).ok(),
            length: 10,
            offset: 0,
        }
    }

    fn event(event_id: i64, nanos: i32) -> HistoryEvent {
        HistoryEvent {
            event_id,
            event_time: Some(prost_types::Timestamp { seconds: 30, nanos }),
            ..HistoryEvent::default()
        }
    }

    #[test]
    fn a_start_that_the_server_has_rounded_up_does_not_hide_the_first_event() {
        let mut run = run("b", 30);
        run.started = Timestamp::new(30, 1_000).ok();
        assert!(!is_copy(&event(1, 600), &run, &Facts::default()));
        run.started = Timestamp::from_second(31).ok();
        assert!(is_copy(&event(1, 600), &run, &Facts::default()));
    }

    #[test]
    fn what_comes_before_a_reset_is_a_copy() {
        let facts = Facts {
            reset: Some(Reset {
                base_run: "a".to_owned(),
                at: None,
                why: String::new(),
                event: 4,
            }),
            ..Facts::default()
        };
        let run = run("b", 30);
        assert!(is_copy(&event(3, 0), &run, &facts));
        assert!(!is_copy(&event(4, 0), &run, &facts));
    }

    #[test]
    fn a_history_continues_after_a_run_that_is_gone() {
        let runs = [run("b", 20), run("c", 30)];
        let at = |id: &str, second| Position::of(&run(id, second), "c".to_owned(), 10);
        let place = |at: Position, newest_first| {
            let found = at.place(&runs, newest_first);
            found.map(|(place, at)| (place, at.run))
        };
        assert_eq!(place(at("a", 10), false), Some((0, "b".to_owned())));
        assert_eq!(place(at("a", 10), true), None);
        assert_eq!(place(at("d", 25), true), Some((0, "b".to_owned())));
        assert_eq!(place(at("c", 30), false), Some((1, "c".to_owned())));
    }
}
