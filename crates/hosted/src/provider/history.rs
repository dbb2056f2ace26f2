//! The history of an execution over all branches of its log, numbered consecutively.
//!
//! The oldest events are read a page at a time. The newest ones, and the causes of events on later
//! branches, need the whole log.

use serde::{Deserialize, Serialize};
use stateway_driver::{MOST_PAGE_BYTES, detailed, summary};
use stateway_machine::Event;
use stateway_model::Event as ShownEvent;
use stateway_provider_api::adapter::cursor::{self, HISTORY, NEWEST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{Call, EventOrder, HistoryPage, HistoryRequest, Result, Verb, View};
use stateway_replay::Numbering;
use stateway_replay::recording::Row;

use super::log::damaged;
use super::{HostPort, HostedProvider, MAX_PAGE, ObjectKind};
use crate::object::{EVENTS, events_key, place_of_key};

/// Where a history continues: the branch and the sequence of the last event shown, and its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    branch: u32,
    sequence: u64,
    number: u64,
    /// The first event of the key that has it.
    first: u64,
}

/// An event of a log, and where it is stored.
struct StoredEvent {
    branch: u32,
    first: u64,
    event: Event,
}

impl<P: HostPort> HostedProvider<P> {
    pub(super) async fn history_page(
        &self,
        call: &Call,
        request: &HistoryRequest,
    ) -> Result<HistoryPage> {
        let list = match request.order {
            EventOrder::OldestFirst => HISTORY,
            EventOrder::NewestFirst => NEWEST,
        };
        let at: Option<Position> = cursor::read(list, request.cursor.as_deref(), Verb::History)?;
        let limit = page_size(request.page_size, MAX_PAGE, Verb::History)? as usize;
        let (found, numbering) = match request.order {
            EventOrder::OldestFirst => self.oldest(call, request, at, limit).await?,
            EventOrder::NewestFirst => self.newest(call, request, at).await?,
        };
        let full = request.view == View::Full;
        let (mut page, mut bytes) = (HistoryPage::default(), 0);
        let mut last = at.unwrap_or_default();
        for StoredEvent {
            branch,
            first,
            event,
        } in found
        {
            let number = match &numbering {
                Some(numbering) => numbering.number(branch, event.sequence).unwrap_or_default(),
                None => last.number + 1,
            };
            let shown = if full {
                let cause = event.cause.and_then(|cause| match &numbering {
                    Some(numbering) => numbering.number(branch, cause),
                    // Without branches, events are numbered by their sequence.
                    None => Some(cause),
                });
                detailed(number, &event, cause)
            } else {
                summary(number, &event)
            };
            bytes += payload_bytes(&shown);
            let is_full = page.events.len() >= limit || bytes > MOST_PAGE_BYTES;
            if is_full && !page.events.is_empty() {
                page.next = Some(cursor::write(list, &last));
                return Ok(page);
            }
            last = Position {
                branch,
                sequence: event.sequence,
                number,
                first,
            };
            page.events.push(shown);
        }
        Ok(page)
    }

    /// The events after a position, and one more than wanted if there is one.
    async fn oldest(
        &self,
        call: &Call,
        request: &HistoryRequest,
        at: Option<Position>,
        limit: usize,
    ) -> Result<(Vec<StoredEvent>, Option<Numbering>)> {
        let from = at.map_or_else(String::new, |at| events_key(at.branch, at.first));
        let after = at.map_or((0, 0), |at| (at.branch, at.sequence));
        let object = (ObjectKind::Execution, request.id.as_str());
        // Each key has at least one event, and the first key may have only events that were shown.
        let keys = (EVENTS, from.as_str(), limit + 2);
        let port = &self.host.port;
        let page = port.values_from(call, Verb::History, object, keys).await?;
        if page.is_empty() && at.is_none() {
            // An execution without events does not exist.
            self.view(call, Verb::History, &request.id).await?;
        }
        let mut found = Vec::new();
        for value in page {
            let Some((branch, first)) = place_of_key(&value.key) else {
                continue;
            };
            let row = Row {
                branch,
                first,
                hash: stateway_replay::BEGINNING,
                lines: value.value,
                line: 0,
            };
            let events = row.decode();
            let events = events.map_err(|error| damaged(Verb::History, &error.to_string()))?;
            let events = events.into_iter().map(|event| StoredEvent {
                branch,
                first,
                event,
            });
            found.extend(events.filter(|it| (it.branch, it.event.sequence) > after));
        }
        let has_branches = found.iter().any(|it| it.branch != 0);
        let numbering = if has_branches && request.view == View::Full {
            let log = self.log(call, Verb::History, &request.id).await?;
            Some(log.numbering(Verb::History)?)
        } else {
            None
        };
        Ok((found, numbering))
    }

    /// The events before a position, the newest first.
    async fn newest(
        &self,
        call: &Call,
        request: &HistoryRequest,
        at: Option<Position>,
    ) -> Result<(Vec<StoredEvent>, Option<Numbering>)> {
        let log = self.log(call, Verb::History, &request.id).await?;
        let before = at.map(|at| (at.branch, at.sequence));
        let events = log.events(Verb::History)?.into_iter().rev();
        let events = events.filter(|(branch, event)| {
            before.is_none_or(|before| (*branch, event.sequence) < before)
        });
        let found = events.map(|(branch, event)| StoredEvent {
            branch,
            first: 0,
            event,
        });
        Ok((found.collect(), Some(log.numbering(Verb::History)?)))
    }
}

/// The size of what a page of events counts.
pub(super) fn payload_bytes(event: &ShownEvent) -> usize {
    let payload = event.detail.as_ref().and_then(|it| it.payload.as_ref());
    payload.map_or(0, |payload| payload.data.len())
}
