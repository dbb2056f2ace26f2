//! The connections that calls are made on. Long polls have their own, because servers and proxies limit
//! the calls under way on one connection, and a poll takes up to a minute. When the certificate files change, another connection is made
//! with them and takes over once it works; calls under way end on the old one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stateway_provider_api::adapter::lock;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use super::connector::Connector;
use super::stamp::Stamp;
use crate::api::workflowservice::v1::GetSystemInfoRequest;
use crate::api::workflowservice::v1::workflow_service_client::WorkflowServiceClient;

/// The most long polls that are meant for one connection. Common proxies allow 100 calls under way.
const POLLS_EACH: usize = 90;
/// How often the files are checked for a change while calls are made.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long to wait after new files that cannot be used.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a new connection may take until its first answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One frontend.
pub(super) struct Connection {
    endpoint: Endpoint,
    current: Arc<Mutex<Current>>,
}

struct Current {
    /// The one that made the channels. Its certificates are those that the server has accepted.
    connector: Connector,
    channel: Channel,
    /// For long polls, in turn.
    polls: Vec<Channel>,
    next_poll: usize,
    /// The files that the channels were made with.
    stamp: Stamp,
    next_check: Instant,
    /// The connection that is being made; ends with this value.
    replacement: JoinSet<()>,
}

impl Connection {
    /// Connections that are made when they are first used.
    pub(super) fn new(endpoint: Endpoint, connector: Connector, long_polls: usize) -> Self {
        let stamp = connector.stamp();
        let count = long_polls.div_ceil(POLLS_EACH).max(1);
        let channel = || endpoint.connect_with_connector_lazy(connector.clone());
        let (first, polls) = (channel(), (0..count).map(|_| channel()).collect());
        let current = Current {
            connector,
            channel: first,
            polls,
            next_poll: 0,
            stamp,
            next_check: Instant::now() + CHECK_EVERY,
            replacement: JoinSet::new(),
        };
        Self {
            endpoint,
            current: Arc::new(Mutex::new(current)),
        }
    }

    /// The channel for the next call, or for the next long poll.
    pub(super) fn channel(&self, polls: bool) -> Channel {
        let mut current = lock(&self.current);
        let now = Instant::now();
        if now >= current.next_check && current.connector.has_files() {
            current.next_check = now + CHECK_EVERY;
            while current.replacement.try_join_next().is_some() {}
            let stamp = current.connector.stamp();
            if stamp != current.stamp && current.replacement.is_empty() {
                let (endpoint, connector) = (self.endpoint.clone(), current.connector.clone());
                let place = Arc::downgrade(&self.current);
                current.replacement.spawn(async move {
                    let made = replacement(&endpoint, &connector);
                    let made = tokio::time::timeout(PATIENCE, made);
                    let made = made
                        .await
                        .unwrap_or_else(|_| Err("no answer in time".to_owned()));
                    let Some(place) = place.upgrade() else {
                        return;
                    };
                    let mut current = lock(&place);
                    match made {
                        Ok((connector, channel)) => {
                            (current.channel, current.stamp) = (channel, stamp);
                            for poll in &mut current.polls {
                                *poll = endpoint.connect_with_connector_lazy(connector.clone());
                            }
                            current.connector = connector;
                            tracing::info!("connected with the changed certificates");
                        }
                        Err(why) => {
                            current.next_check = Instant::now() + RETRY_AFTER;
                            tracing::warn!(why, "changed certificates cannot be used yet");
                        }
                    }
                });
            }
        }
        if polls {
            current.next_poll = (current.next_poll + 1) % current.polls.len();
            current.polls[current.next_poll].clone()
        } else {
            current.channel.clone()
        }
    }
}

/// A connection with the files as they are now, after it has answered once. A server reports that it
/// refuses a certificate only with the first answer.
async fn replacement(
    endpoint: &Endpoint,
    connector: &Connector,
) -> Result<(Connector, Channel), String> {
    let renewed = connector.renewed().map_err(|error| error.to_string())?;
    let channel = endpoint.connect_with_connector(renewed.clone()).await;
    let channel = channel.map_err(|error| error.to_string())?;
    let mut grpc = WorkflowServiceClient::new(channel.clone());
    let answer = grpc
        .get_system_info(Request::new(GetSystemInfoRequest {}))
        .await;
    match answer {
        Err(status) if is_transport(status.code()) => Err(status.message().to_owned()),
        // A refusal is an answer too: the request has no API key.
        _ => Ok((renewed, channel)),
    }
}

fn is_transport(code: Code) -> bool {
    use Code::{Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown};
    matches!(
        code,
        Unavailable | Unknown | Internal | Cancelled | DeadlineExceeded
    )
}
