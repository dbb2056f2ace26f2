//! Pages of a history, with as much of each event as the objects of a host need.

use aws_sdk_sfn::types::HistoryEvent;
use stateway_provider_api::Result;

use super::{Ask, Client, HistoryQuery, Turn};
use crate::host::GateEvent;
use crate::quota::Api;
use crate::response::{Page, time};

impl Client {
    pub(crate) async fn gate_events(
        &self,
        ask: Ask<'_>,
        page: HistoryQuery<'_>,
    ) -> Result<Page<GateEvent>> {
        let turn = if page.turn_taken {
            Turn::Taken(Api::GetExecutionHistory)
        } else {
            Turn::Of(Api::GetExecutionHistory)
        };
        let told = self
            .ask(ask, turn, async |sdk| {
                sdk.get_execution_history()
                    .execution_arn(page.arn)
                    .max_results(i32::try_from(page.size).unwrap_or(1_000))
                    .reverse_order(page.newest_first)
                    .include_execution_data(page.with_data)
                    .set_next_token(page.token.map(str::to_owned))
                    .send()
                    .await
            })
            .await?;
        Ok(Page {
            rows: told.events.into_iter().map(event).collect(),
            next: told.next_token,
        })
    }
}

fn event(told: HistoryEvent) -> GateEvent {
    let mut event = GateEvent {
        id: u64::try_from(told.id).unwrap_or_default(),
        kind: told.r#type.as_str().to_owned(),
        at: time(&told.timestamp),
        ..GateEvent::default()
    };
    let text = Option::unwrap_or_default;
    if let Some(it) = told.execution_started_event_details {
        event.data = text(it.input);
    } else if let Some(it) = told.state_entered_event_details {
        (event.name, event.data) = (it.name, text(it.input));
    } else if let Some(it) = told.task_scheduled_event_details {
        (event.name, event.data) = (it.resource, it.parameters);
    } else if let Some(it) = told.task_submitted_event_details {
        event.name = it.resource;
    } else if let Some(it) = told.task_succeeded_event_details {
        (event.name, event.data) = (it.resource, text(it.output));
    } else if let Some(it) = told.task_failed_event_details {
        event.name = it.resource;
    } else if let Some(it) = told.task_timed_out_event_details {
        event.name = it.resource;
    } else if let Some(it) = told.task_start_failed_event_details {
        event.name = it.resource;
    } else if let Some(it) = told.task_submit_failed_event_details {
        event.name = it.resource;
    } else if let Some(it) = told.execution_failed_event_details {
        (event.error, event.cause) = (text(it.error), text(it.cause));
    } else if let Some(it) = told.execution_aborted_event_details {
        (event.error, event.cause) = (text(it.error), text(it.cause));
    } else if let Some(it) = told.execution_timed_out_event_details {
        (event.error, event.cause) = (text(it.error), text(it.cause));
    }
    event
}
