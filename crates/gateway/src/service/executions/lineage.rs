//! The history of one branch, or of every branch by its own numbers.

use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_provider_api::{BranchEventsRequest, EventOrder, Verb};
use tonic::Status;

use super::read::{event_view, token_purpose};
use super::{Executions, page_token_refused};
use crate::access::ApiCall;
use crate::branch::{branch_name, branch_of};
use crate::convert;
use crate::upstream::Topic;

impl Executions {
    pub(super) async fn branch_history(
        &self,
        call: ApiCall,
        name: &ExecutionName,
        request: v1::ListEventsRequest,
        (page_size, order): (usize, EventOrder),
    ) -> Result<v1::ListEventsResponse, Status> {
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::EVENT_LOG)?;
        let purpose = format!("{}|{name}|{}", token_purpose(order), request.branch);
        let purpose = call.access.bound(purpose);
        let cursor: Option<(u32, u64)> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let events = BranchEventsRequest {
            id: name.id.clone(),
            branch: branch_of(name, &request.branch)?,
            cursor,
            page_size,
            view: event_view(request.view()),
            order,
        };
        let guarded = upstream.within(&call);
        let page = guarded.event_log(Verb::BranchEvents, |log, call| {
            log.branch_events(call, events)
        });
        let page = page.await?;
        let events = page.events.into_iter().map(|found| v1::Event {
            branch: branch_name(name, found.branch),
            ..convert::event(found.event)
        });
        let next = page.next.map(|next| self.sealer.seal(&purpose, next));
        Ok(v1::ListEventsResponse {
            payloads_redacted: false,
            events: events.collect(),
            next_page_token: next.unwrap_or_default(),
        })
    }
}
