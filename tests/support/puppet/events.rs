//! The history of a puppet's executions: as many events as the test wants.

use stateway_model::Event;
use stateway_provider_api::{EventOrder, HistoryPage, HistoryRequest};

use super::Puppet;

impl Puppet {
    /// The history of every execution has this many events from now on.
    pub(crate) fn have_events(&self, count: u64) {
        self.lock().events = count;
    }
}

/// A page; the cursor is the number of events before it in the order of the request.
pub(super) fn page(total: u64, request: &HistoryRequest) -> HistoryPage {
    let cursor = request.cursor.as_deref();
    let begin: u64 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
    let end = total.min(begin + u64::from(request.page_size));
    let events = (begin..end).map(|place| match request.order {
        EventOrder::OldestFirst => event(place + 1),
        EventOrder::NewestFirst => event(total - place),
    });
    HistoryPage {
        events: events.collect(),
        next: (end < total).then(|| end.to_string()),
    }
}

fn event(sequence: u64) -> Event {
    Event {
        sequence,
        time: None,
        native_type: "Happened".to_owned(),
        step: String::new(),
        attempt: 0,
        summary: String::new(),
        phase: None,
        detail: None,
    }
}
