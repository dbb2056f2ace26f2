//! The history of one branch, or of every branch by its own numbers.

use std::sync::Arc;

use stateway_engine::{EventRecord, MOST_PAGE_BYTES, detailed, summary};
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_provider_api::{Call, View};
use tonic::Status;

use super::super::recovery::BRANCHES;
use super::super::validate;
use super::read::event_view;
use super::{Executions, page_token_refused};
use crate::convert;

/// Every branch.
const ALL: &str = "-";

impl Executions {
    pub(super) async fn branch_history(
        &self,
        call: Call,
        name: &ExecutionName,
        request: v1::ListEventsRequest,
        page_size: usize,
    ) -> Result<v1::ListEventsResponse, Status> {
        let chosen = self.directory.of(&name.provider, BRANCHES)?;
        let purpose = format!("events|{name}|{}", request.branch);
        let after: Option<(u32, u64)> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let id: Arc<str> = name.id.as_str().into();
        // One more than wanted says whether there is more.
        let limit = page_size + 1;
        let (lineage, mut found) = if request.branch == ALL {
            let after = after.unwrap_or_default();
            let asked = chosen.engine.chronicle(id, after, limit);
            (None, chosen.answer(&call, asked).await?)
        } else {
            let (branch, sequence) = match after {
                // What was current on the first page is read to its end.
                Some((branch, sequence)) => (Some(branch), sequence),
                None => (validate::branch(&request.branch)?, 0),
            };
            let asked = chosen.engine.lineage(id, branch, sequence, limit);
            let (branch, found) = chosen.answer(&call, asked).await?;
            (Some(branch), found)
        };
        let mut more = found.len() > page_size;
        found.truncate(page_size);
        let full = event_view(request.view()) == View::Full;
        let full = full && self.upstream(&name.provider)?.capabilities.payloads;
        let mut events = Vec::new();
        let mut bytes = 0;
        for record in &found {
            let told = event(record, full);
            bytes += told
                .payload
                .as_ref()
                .map_or(0, |payload| payload.data.len());
            if bytes > MOST_PAGE_BYTES && !events.is_empty() {
                more = true;
                break;
            }
            events.push(told);
        }
        found.truncate(events.len());
        let next = found.last().filter(|_| more).map(|last| {
            let branch = lineage.unwrap_or(last.branch);
            self.sealer.seal(&purpose, (branch, last.event.sequence))
        });
        Ok(v1::ListEventsResponse {
            events,
            next_page_token: next.unwrap_or_default(),
        })
    }
}

fn event(record: &EventRecord, full: bool) -> v1::Event {
    let event = &record.event;
    let told = if full {
        detailed(event.sequence, event, event.cause)
    } else {
        summary(event.sequence, event)
    };
    v1::Event {
        branch: record.branch.to_string(),
        ..convert::event(told)
    }
}
