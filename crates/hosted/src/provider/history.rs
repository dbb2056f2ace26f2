//! The history of an execution, from the events that its object stored.

use serde::{Deserialize, Serialize};
use stateway_driver::{MOST_PAGE_BYTES, detailed, summary};
use stateway_machine::{Event, decode};
use stateway_model::ErrorKind;
use stateway_provider_api::adapter::cursor::{self, HISTORY};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{Call, Error, HistoryPage, HistoryRequest, Result, Verb, View};

use super::{CAPABILITIES, HostPort, HostedProvider, MAX_PAGE, ObjectKind};
use crate::object::EVENTS;

/// Where a history continues: after this event, which is stored under this key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    key: String,
    sequence: u64,
}

impl<P: HostPort> HostedProvider<P> {
    pub(super) async fn history_page(
        &self,
        call: &Call,
        request: &HistoryRequest,
    ) -> Result<HistoryPage> {
        request.order.check(&CAPABILITIES, Verb::History)?;
        let at: Option<Position> = cursor::read(HISTORY, request.cursor.as_deref(), Verb::History)?;
        let limit = page_size(request.page_size, MAX_PAGE, Verb::History)? as usize;
        let (from, after) = at.map_or_else(Default::default, |at| (at.key, at.sequence));
        let object = (ObjectKind::Execution, request.id.as_str());
        // Each key has at least one event, and the first key may have only events that were shown.
        let keys = (EVENTS, from.as_str(), limit + 2);
        let found = self
            .host
            .port
            .values_from(call, Verb::History, object, keys)
            .await?;
        if found.is_empty() && after == 0 {
            // An execution without events does not exist.
            self.view(call, Verb::History, &request.id).await?;
        }
        let (mut page, mut bytes) = (HistoryPage::default(), 0);
        let mut last = None;
        for found in found {
            for line in found.value.split(|byte| *byte == b'\n') {
                if line.is_empty() {
                    continue;
                }
                let event = read(line)?;
                if event.sequence <= after {
                    continue;
                }
                let shown = if request.view == View::Full {
                    detailed(event.sequence, &event, event.cause)
                } else {
                    summary(event.sequence, &event)
                };
                let payload = shown
                    .detail
                    .as_ref()
                    .and_then(|detail| detail.payload.as_ref());
                bytes += payload.map_or(0, |payload| payload.data.len());
                let full = page.events.len() >= limit || bytes > MOST_PAGE_BYTES;
                if full && !page.events.is_empty() {
                    page.next = last.map(|last: Position| cursor::write(HISTORY, &last));
                    return Ok(page);
                }
                last = Some(Position {
                    key: found.key.clone(),
                    sequence: event.sequence,
                });
                page.events.push(shown);
            }
        }
        Ok(page)
    }
}

fn read(line: &[u8]) -> Result<Event> {
    decode(line).map_err(|error| {
        let message = format!("a stored event cannot be read: {error}");
        Error::new(ErrorKind::DataLoss, Verb::History, message)
    })
}
