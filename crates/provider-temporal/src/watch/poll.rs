//! The long poll on the history of one run. The server answers when there is a new event, or after a
//! while without one; it does not answer for retries, heartbeats and pauses of activities.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use stateway_provider_api::{Call, ErrorKind, Result, Verb};

use crate::api::enums::v1::HistoryEventFilterType;
use crate::api::workflowservice::v1::GetWorkflowExecutionHistoryRequest;
use crate::client::{Ask, Client};
use crate::facts::WINDOW;
use crate::id::WorkflowRef;
use crate::quota::Api;
use crate::reader::Reader;

/// How long a poll may take. Servers answer after 20 to 60 seconds.
const LONGEST: Duration = Duration::from_secs(70);
/// A server that does not wait is asked no more often than this.
const SHORTEST: Duration = Duration::from_millis(200);
/// The most events of one page.
const PAGE: i32 = 256;
/// The most pages that are read to reach the end of a history.
const MOST_PAGES: usize = 8;

/// What a poll follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) run: WorkflowRef,
    /// Only the end is of interest, or the history is too long to be read to its end.
    pub(super) only_end: bool,
    /// The number of the last event that the description counted.
    described: i64,
}

impl Target {
    pub(super) fn new(run: WorkflowRef, history_length: i64, only_end: bool) -> Self {
        Self {
            run,
            only_end: only_end || history_length > WINDOW,
            described: history_length,
        }
    }
}

/// A poll under way. It returns the token for the next one and whether something happened.
pub(super) type LongPoll = BoxFuture<'static, Result<(Vec<u8>, bool)>>;

/// Begins a poll. An empty token is that of the first one, which returns as soon as the end of the
/// history is known; it shows whether something happened after the description.
pub(super) fn begin(reader: &Arc<Reader>, target: &Target, token: Vec<u8>) -> LongPoll {
    Box::pin(poll(Arc::clone(reader), target.clone(), token))
}

async fn poll(reader: Arc<Reader>, target: Target, token: Vec<u8>) -> Result<(Vec<u8>, bool)> {
    let began = Instant::now();
    let call = Call::within(LONGEST);
    let verb = if target.only_end {
        Verb::WatchEnd
    } else {
        Verb::WatchOne
    };
    let is_first = token.is_empty();
    let filter = if target.only_end {
        HistoryEventFilterType::CloseEvent
    } else {
        HistoryEventFilterType::AllEvent
    };
    let (mut token, mut newest) = (token, 0);
    for _ in 0..MOST_PAGES {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: reader.client.namespace(),
            execution: Client::execution(&target.run),
            maximum_page_size: PAGE,
            next_page_token: token.clone(),
            wait_new_event: true,
            history_event_filter_type: filter as i32,
            skip_archival: true,
        };
        let ask = Ask { call: &call, verb };
        reader.client.count(Api::Reads);
        let page = match reader
            .client
            .poll_workflow_execution_history(ask, request)
            .await
        {
            Ok(page) => page,
            // Nothing happened for as long as a poll may take.
            Err(error) if error.kind == ErrorKind::Timeout => return Ok((token, false)),
            Err(error) => return Err(error),
        };
        let events = page
            .history
            .map(|history| history.events)
            .unwrap_or_default();
        let count = events.len();
        newest = events.last().map_or(newest, |event| event.event_id);
        token = page.next_page_token;
        let reads_on = is_first && !target.only_end && count >= PAGE as usize;
        if token.is_empty() || !reads_on {
            let happened = if is_first && !target.only_end {
                newest > target.described
            } else {
                count > 0
            };
            if !is_first && !happened {
                tokio::time::sleep(SHORTEST.saturating_sub(began.elapsed())).await;
            }
            return Ok((token, happened));
        }
    }
    Ok((token, newest > target.described))
}
