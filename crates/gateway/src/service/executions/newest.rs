//! Histories with the newest event first, of providers that read a history only from its beginning: the
//! gateway reads every event in large pages, up to a limit, and answers with the last ones.

use std::collections::VecDeque;

use stateway_proto::v1;
use stateway_provider_api::EventOrder;
use tonic::{Code, Status};

use super::{Executions, page_token_refused};
use crate::access::ApiCall;
use crate::status::Refusal;

/// Events in one call to the provider.
const EVENTS_PER_READ: i32 = 1_000;
/// The most bytes of payloads in one page.
const MOST_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// The longest history whose last events are read in this way.
const MOST_EVENTS: u64 = 100_000;

/// The order behind `order_by` (AIP-132).
pub(super) fn order(text: &str) -> Result<EventOrder, Status> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.as_slice() {
        [] | ["sequence"] => Ok(EventOrder::OldestFirst),
        ["sequence", "desc"] => Ok(EventOrder::NewestFirst),
        _ => Err(Refusal::invalid(
            "order_by",
            "`order_by` must be `sequence` or `sequence desc`",
        )
        .into()),
    }
}

impl Executions {
    /// The events before those of the page of the token; the last events without a token.
    pub(super) async fn last_events(
        &self,
        call: ApiCall,
        request: v1::ListEventsRequest,
        page_size: usize,
    ) -> Result<v1::ListEventsResponse, Status> {
        let purpose = format!("newest|{}|{}", request.parent, request.branch);
        let purpose = call.access.bound(purpose);
        let end: Option<u64> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let mut newest = Newest::new(page_size, end);
        let mut read = v1::ListEventsRequest {
            page_size: EVENTS_PER_READ,
            page_token: String::new(),
            order_by: String::new(),
            ..request
        };
        loop {
            let page = self.events_page(call.clone(), read.clone(), EventOrder::OldestFirst);
            let page = page.await?;
            let full = newest.add(page.events);
            if full || page.next_page_token.is_empty() {
                break;
            }
            if newest.seen >= MOST_EVENTS {
                return Err(too_long(&read.parent));
            }
            read.page_token = page.next_page_token;
        }
        let (events, first) = newest.page();
        Ok(v1::ListEventsResponse {
            payloads_redacted: false,
            events,
            next_page_token: match first {
                0 => String::new(),
                first => self.sealer.seal(&purpose, first),
            },
        })
    }
}

fn too_long(execution: &str) -> Status {
    let message = format!("{execution} has more than {MOST_EVENTS} events");
    Refusal::new(Code::FailedPrecondition, "HISTORY_TOO_LONG", message)
        .hint("List the events without `order_by`, oldest first.")
        .into()
}

/// The last events before an end.
struct Newest {
    kept: VecDeque<v1::Event>,
    most: usize,
    /// The position of the first event that is not wanted.
    end: Option<u64>,
    /// The number of events so far; events beyond the end do not count.
    seen: u64,
}

impl Newest {
    fn new(most: usize, end: Option<u64>) -> Self {
        Self {
            kept: VecDeque::new(),
            most,
            end,
            seen: 0,
        }
    }

    /// Adds the events that follow, oldest first. Returns whether the end is reached.
    fn add(&mut self, events: Vec<v1::Event>) -> bool {
        for event in events {
            if self.end == Some(self.seen) {
                return true;
            }
            self.seen += 1;
            self.kept.push_back(event);
            if self.kept.len() > self.most {
                self.kept.pop_front();
            }
        }
        self.end == Some(self.seen)
    }

    /// The events, newest first, within the bound of a page, and the position of the oldest of them.
    fn page(self) -> (Vec<v1::Event>, u64) {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for event in self.kept.into_iter().rev() {
            bytes += event.payload.as_ref().map_or(0, |body| body.data.len());
            if bytes > MOST_PAGE_BYTES && !events.is_empty() {
                break;
            }
            events.push(event);
        }
        let first = self.seen - events.len() as u64;
        (events, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(numbers: std::ops::RangeInclusive<i64>) -> Vec<v1::Event> {
        let event = |sequence| v1::Event {
            sequence,
            ..v1::Event::default()
        };
        numbers.map(event).collect()
    }

    fn page(most: usize, end: Option<u64>) -> (Vec<i64>, u64) {
        let mut newest = Newest::new(most, end);
        if !newest.add(events(1..=4)) {
            newest.add(events(5..=7));
        }
        let (events, first) = newest.page();
        (events.iter().map(|event| event.sequence).collect(), first)
    }

    #[test]
    fn pages_go_back_to_the_first_event() {
        assert_eq!(page(3, None), (vec![7, 6, 5], 4));
        assert_eq!(page(3, Some(4)), (vec![4, 3, 2], 1));
        assert_eq!(page(3, Some(1)), (vec![1], 0));
        assert_eq!(page(9, None), (vec![7, 6, 5, 4, 3, 2, 1], 0));
    }

    #[test]
    fn a_page_is_bounded_in_bytes() {
        let large = |sequence| v1::Event {
            sequence,
            payload: Some(v1::Payload {
                data: vec![0; MOST_PAGE_BYTES].into(),
                ..v1::Payload::default()
            }),
            ..v1::Event::default()
        };
        let mut newest = Newest::new(9, None);
        newest.add(vec![large(1), large(2)]);
        let (events, first) = newest.page();
        assert_eq!((events.len(), events[0].sequence, first), (1, 2, 1));
    }

    #[test]
    fn an_order_is_one_of_two() {
        assert_eq!(order("").unwrap(), EventOrder::OldestFirst);
        assert_eq!(order("sequence").unwrap(), EventOrder::OldestFirst);
        assert_eq!(order(" sequence  desc").unwrap(), EventOrder::NewestFirst);
        for wrong in ["desc", "time desc", "sequence asc desc", "sequence, name"] {
            assert!(order(wrong).is_err(), "{wrong}");
        }
    }
}
