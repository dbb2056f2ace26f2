//! The history of an execution over all branches of its log, numbered consecutively.

use stateway_engine::{EventRecord, MOST_PAGE_BYTES, Numbering, detailed, summary};
use stateway_model::Event;
use stateway_provider_api::adapter::cursor::{self, HISTORY, NEWEST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{Call, EventOrder, HistoryPage, HistoryRequest, Result, Verb, View};

use crate::BuiltinProvider;
use crate::provider::payload_bytes;
use crate::request::{HistoryPosition, MAX_PAGE};

/// A page of the history.
pub(crate) async fn history(
    provider: &BuiltinProvider,
    call: &Call,
    request: &HistoryRequest,
) -> Result<HistoryPage> {
    let list = match request.order {
        EventOrder::OldestFirst => HISTORY,
        EventOrder::NewestFirst => NEWEST,
    };
    let at: Option<HistoryPosition> = cursor::read(list, request.cursor.as_deref(), Verb::History)?;
    let limit = page_size(request.page_size, MAX_PAGE, Verb::History)? as usize;
    let mut records = records(provider, call, request, at, limit).await?;
    let more = records.len() > limit;
    records.truncate(limit);
    let full = request.view == View::Full;
    // Events that are read from the beginning are counted; all other numbers are looked up.
    let numbering = if full || request.order == EventOrder::NewestFirst {
        let asked = provider.engine.numbering(request.id.as_str().into());
        provider.line.carry(call, Verb::History, asked).await?
    } else {
        Numbering::default()
    };
    let (mut page, mut bytes) = (HistoryPage::default(), 0);
    let (mut last, mut all_shown) = (at.unwrap_or_default(), true);
    for record in &records {
        let number = match request.order {
            EventOrder::OldestFirst => last.events + 1,
            EventOrder::NewestFirst => {
                let number = numbering.number(record.branch, record.event.sequence);
                number.unwrap_or_default()
            }
        };
        let event = shown(record, number, full.then_some(&numbering));
        bytes += payload_bytes(&event);
        if bytes > MOST_PAGE_BYTES && !page.events.is_empty() {
            all_shown = false;
            break;
        }
        last = HistoryPosition {
            branch: record.branch,
            sequence: record.event.sequence,
            events: number,
        };
        page.events.push(event);
    }
    page.next = (more || !all_shown).then(|| cursor::write(list, &last));
    Ok(page)
}

/// The events that follow a position, and one more than wanted if there is one.
async fn records(
    provider: &BuiltinProvider,
    call: &Call,
    request: &HistoryRequest,
    at: Option<HistoryPosition>,
    limit: usize,
) -> Result<Vec<EventRecord>> {
    let (id, place) = (
        request.id.as_str().into(),
        at.map(|at| (at.branch, at.sequence)),
    );
    let (engine, line) = (&provider.engine, &provider.line);
    match request.order {
        EventOrder::OldestFirst => {
            let asked = engine.chronicle(id, place.unwrap_or_default(), limit + 1);
            line.carry(call, Verb::History, asked).await
        }
        EventOrder::NewestFirst => {
            let asked = engine.chronicle_back(id, place, limit + 1);
            line.carry(call, Verb::History, asked).await
        }
    }
}

/// An event with its number; with its details where the numbers of causes are known.
fn shown(record: &EventRecord, number: u64, numbering: Option<&Numbering>) -> Event {
    match numbering {
        Some(numbering) => {
            let cause = record.event.cause;
            let cause = cause.and_then(|cause| numbering.number(record.branch, cause));
            detailed(number, &record.event, cause)
        }
        None => summary(number, &record.event),
    }
}
