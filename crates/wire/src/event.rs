//! Events of histories.

use stateway_model::{AttemptPhase, Event, EventDetail};
use stateway_provider_api::HistoryPage;

use crate::misfit::{signed, signed32, unsigned, unsigned32};
use crate::parts::{payload, read_payload};
use crate::time::{read_time, timestamp};
use crate::v1::event::Phase;
use crate::{Misfit, v1};

/// An event for the wire.
#[must_use]
pub fn event(event: &Event) -> v1::Event {
    let phase = match event.phase {
        None => Phase::Unspecified,
        Some(AttemptPhase::Started) => Phase::Started,
        Some(AttemptPhase::Succeeded) => Phase::Succeeded,
        Some(AttemptPhase::Failed) => Phase::Failed,
        Some(AttemptPhase::CompensationStarted) => Phase::CompensationStarted,
        Some(AttemptPhase::Compensated) => Phase::CompensationSucceeded,
        Some(AttemptPhase::CompensationFailed) => Phase::CompensationFailed,
    };
    v1::Event {
        sequence: signed(event.sequence),
        occur_time: event.time.map(timestamp),
        native_type: event.native_type.clone(),
        step: event.step.clone(),
        attempt: signed32(event.attempt),
        summary: event.summary.clone(),
        phase: phase.into(),
        detail: event.detail.as_ref().map(|detail| v1::EventDetail {
            payload: detail.payload.as_ref().map(payload),
            payload_truncated: detail.payload_truncated,
            correlation_id: detail.correlation_id.clone(),
            request_id: detail.request_id.clone(),
            cause_sequence: signed(detail.cause_sequence),
            actor: detail.actor.clone(),
        }),
    }
}

/// An event of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_event(event: v1::Event) -> Result<Event, Misfit> {
    let phase = match Phase::try_from(event.phase) {
        Ok(Phase::Started) => Some(AttemptPhase::Started),
        Ok(Phase::Succeeded) => Some(AttemptPhase::Succeeded),
        Ok(Phase::Failed) => Some(AttemptPhase::Failed),
        Ok(Phase::CompensationStarted) => Some(AttemptPhase::CompensationStarted),
        Ok(Phase::CompensationSucceeded) => Some(AttemptPhase::Compensated),
        Ok(Phase::CompensationFailed) => Some(AttemptPhase::CompensationFailed),
        Ok(Phase::Unspecified) | Err(_) => None,
    };
    let detail = event.detail.map(|detail| {
        Ok(Box::new(EventDetail {
            payload: detail.payload.map(read_payload),
            payload_truncated: detail.payload_truncated,
            correlation_id: detail.correlation_id,
            request_id: detail.request_id,
            cause_sequence: unsigned("detail.cause_sequence", detail.cause_sequence)?,
            actor: detail.actor,
        }))
    });
    Ok(Event {
        sequence: unsigned("sequence", event.sequence)?,
        time: read_time("occur_time", event.occur_time)?,
        native_type: event.native_type,
        step: event.step,
        attempt: unsigned32("attempt", event.attempt)?,
        summary: event.summary,
        phase,
        detail: detail.transpose()?,
    })
}

/// A page of a history for the wire.
#[must_use]
pub fn history_page(page: &HistoryPage) -> v1::ListEventsResponse {
    v1::ListEventsResponse {
        events: page.events.iter().map(event).collect(),
        next_cursor: page.next.clone().unwrap_or_default(),
    }
}

/// A page of a history of the wire.
///
/// # Errors
/// An event breaks a rule, or there are more events than asked for.
pub fn read_history_page(
    page: v1::ListEventsResponse,
    page_size: u32,
) -> Result<HistoryPage, Misfit> {
    crate::request::check_page("events", page.events.len(), page_size)?;
    let events = page.events.into_iter().map(read_event);
    let events: Result<Vec<_>, _> = events.collect();
    Ok(HistoryPage {
        events: events.map_err(|misfit| misfit.inside("events"))?,
        next: crate::request::read_next_cursor(page.next_cursor)?,
    })
}

#[cfg(test)]
mod tests {
    use stateway_model::Payload;

    use super::*;

    #[test]
    fn an_event_comes_back_as_it_was() {
        for phase in AttemptPhase::ALL.iter().copied().map(Some).chain([None]) {
            let whole = Event {
                sequence: 7,
                time: Some("2026-11-17T12:00:00Z".parse().unwrap()),
                native_type: "TaskFailed".into(),
                step: "charge".into(),
                attempt: 2,
                summary: "failed".into(),
                phase,
                detail: Some(Box::new(EventDetail {
                    payload: Some(Payload::json("{}")),
                    payload_truncated: true,
                    correlation_id: "c".into(),
                    request_id: "r".into(),
                    cause_sequence: 6,
                    actor: "ann".into(),
                })),
            };
            assert_eq!(read_event(event(&whole)), Ok(whole));
        }
    }
}
