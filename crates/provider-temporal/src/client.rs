//! The gRPC API. Bounded in time by the call's deadline and in size by a constant; it does not retry,
//! because the gateway decides that.

mod calls;
mod connection;
mod connector;
mod credentials;
mod stamp;

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stateway_provider_api::adapter::{Quotas, SkippingClock, lock};
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::api::common::v1::WorkflowExecution;
use crate::api::workflowservice::v1::workflow_service_client::WorkflowServiceClient;
use crate::error::{refusal, throttle, timeout};
use crate::id::WorkflowRef;
use crate::quota::{Api, RESERVE};
use crate::{Config, ConfigError};
use connection::Connection;
use connector::Connector;
use credentials::ApiKey;

/// The longest answer that is read. The server's own messages are smaller.
const LONGEST_ANSWER: usize = 64 << 20;
/// How often a silent connection is checked, and how long the answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a call that waits for the end of a pause checks the clock, which tests move.
const TICK: Duration = Duration::from_millis(50);

/// The smallest burst with which watches find turns to spare: a quarter is left to people, and an
/// execution that was never read takes two.
const LEAST_BURST: u32 = 4;

/// One question: whose deadline, and under which verb its errors are reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) call: &'a Call,
    pub(crate) verb: Verb,
}

/// The namespace of one frontend.
pub(crate) struct Client {
    connection: Connection,
    key: ApiKey,
    namespace: String,
    namespace_header: Option<MetadataValue<Ascii>>,
    identity: String,
    quotas: Quotas<Api>,
    clock: SkippingClock,
    /// The server asked for no background calls of this kind before this time.
    paused: Mutex<[Option<Instant>; Api::ALL.len()]>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects when it is first used.
    pub(crate) fn new(
        config: &Config,
        clock: &SkippingClock,
    ) -> std::result::Result<Self, ConfigError> {
        if config.namespace.is_empty() {
            return Err(ConfigError::Namespace);
        }
        for (key, quota) in [
            ("visibility", config.quotas.visibility),
            ("reads", config.quotas.reads),
        ] {
            if quota.burst < LEAST_BURST || quota.per_second == 0 {
                return Err(ConfigError::Quota(key));
            }
        }
        let connector = Connector::new(config)?;
        let key = ApiKey::new(config)?;
        if !connector.is_secure() && !matches!(key, ApiKey::None) {
            return Err(ConfigError::KeyWithoutTls);
        }
        let wrong = || ConfigError::Address(config.address.clone());
        let address = Endpoint::from_shared(config.address.clone()).map_err(|_| wrong())?;
        let origin = address.uri().clone();
        // The connector speaks TLS itself; the transport would refuse an https address.
        let plain = format!("http://{}", origin.authority().ok_or_else(wrong)?);
        let endpoint = Endpoint::from_shared(plain)
            .map_err(|_| wrong())?
            .origin(origin)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        Ok(Self {
            connection: Connection::new(endpoint, connector, config.max_long_polls),
            key,
            namespace: config.namespace.clone(),
            namespace_header: config.namespace.parse().ok(),
            identity: config.identity.clone(),
            quotas: crate::quota::quotas(&config.quotas, clock),
            clock: clock.clone(),
            paused: Mutex::default(),
        })
    }

    /// The time in which quotas and pauses are counted.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone()
    }

    /// Who makes a request: the gateway, for this caller.
    pub(crate) fn identity(&self, call: &Call) -> String {
        if *call.actor == *stateway_provider_api::ANONYMOUS {
            self.identity.clone()
        } else {
            format!("{}:{}", self.identity, call.actor)
        }
    }

    /// The workflow execution that a request is about.
    pub(crate) fn execution(of: &WorkflowRef) -> Option<WorkflowExecution> {
        Some(WorkflowExecution {
            workflow_id: of.workflow_id.clone(),
            run_id: of.run_id.clone().unwrap_or_default(),
        })
    }

    /// Takes a turn of the quota if that leaves this part of it for others, and if the server did not
    /// ask to slow down. Never waits.
    pub(crate) fn spare(&self, api: Api, reserve: f64) -> bool {
        !self.is_paused(api) && self.quotas.spare(api, reserve)
    }

    /// Takes the turns of a background read of an execution: the first read needs a description and
    /// a history.
    pub(crate) fn spare_look(&self, was_read: bool) -> bool {
        let turns = if was_read { 1 } else { 2 };
        self.turns(Api::Reads, RESERVE) >= turns
            && (0..turns).all(|_| self.spare(Api::Reads, RESERVE))
    }

    /// Counts a call that is made in any case, also if no turn is left: background calls wait for it.
    pub(crate) fn count(&self, api: Api) {
        self.quotas.spend(api);
    }

    /// How many turns could be taken now.
    pub(crate) fn turns(&self, api: Api, reserve: f64) -> usize {
        if self.is_paused(api) {
            0
        } else {
            self.quotas.turns(api, reserve)
        }
    }

    /// Whether the server asked for no background calls of this kind.
    pub(crate) fn is_paused(&self, api: Api) -> bool {
        !self.pause_left(api).is_zero()
    }

    fn pause_left(&self, api: Api) -> Duration {
        let until = lock(&self.paused)[api as usize];
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(self.clock.now())
        })
    }

    /// Waits until the server wants calls of this kind again, and for the next turn of the quota.
    pub(crate) async fn turn(&self, ask: Ask<'_>, api: Api) -> Result<()> {
        loop {
            let left = self.pause_left(api);
            if left.is_zero() {
                break;
            }
            if left >= ask.call.remaining() {
                let message = "the Temporal server asked for a delay, which has not passed yet";
                let error = Error::new(ErrorKind::Throttled, ask.verb, message);
                return Err(error.with_retry_after(left).without_engine());
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
        self.turn_within_quota(ask, api).await
    }

    /// Waits for the next turn of the quota, for a call that somebody waits for.
    pub(crate) async fn turn_within_quota(&self, ask: Ask<'_>, api: Api) -> Result<()> {
        let wait = self.quotas.take(api, ask.verb, ask.call)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Makes a call. One that is refused because the API key is out of date is made again if the file
    /// has another key.
    async fn send<T, R, F>(
        &self,
        ask: Ask<'_>,
        api: Option<Api>,
        message: T,
        rpc: impl Fn(WorkflowServiceClient<Channel>, Request<T>) -> F,
    ) -> Result<R>
    where
        T: Clone,
        F: Future<Output = std::result::Result<Response<R>, Status>>,
    {
        let again = self.key.is_file().then(|| message.clone());
        let key = self.key.header();
        let polls = api == Some(Api::LongPolls);
        let channel = || self.connection.channel(polls);
        let mut sent = self
            .send_once(ask, (channel(), key.as_ref()), message, &rpc)
            .await?;
        let is_refused = matches!(&sent, Err(status) if status.code() == Code::Unauthenticated);
        if let (true, Some(message)) = (is_refused, again)
            && self.key.changed(key.as_ref())
        {
            let key = self.key.header();
            let with = (channel(), key.as_ref());
            sent = self.send_once(ask, with, message, &rpc).await?;
        }
        sent.map(Response::into_inner).map_err(|status| {
            self.respect(api, &status);
            refusal(ask.verb, &status)
        })
    }

    async fn send_once<T, R, F>(
        &self,
        ask: Ask<'_>,
        (channel, key): (Channel, Option<&MetadataValue<Ascii>>),
        message: T,
        rpc: impl Fn(WorkflowServiceClient<Channel>, Request<T>) -> F,
    ) -> Result<std::result::Result<Response<R>, Status>>
    where
        F: Future<Output = std::result::Result<Response<R>, Status>>,
    {
        let remaining = ask.call.remaining();
        let mut request = Request::new(message);
        request.set_timeout(remaining);
        let metadata = request.metadata_mut();
        if let Some(namespace) = &self.namespace_header {
            metadata.insert("temporal-namespace", namespace.clone());
        }
        if let Some(key) = key {
            metadata.insert("authorization", key.clone());
        }
        let grpc = WorkflowServiceClient::new(channel).max_decoding_message_size(LONGEST_ANSWER);
        // In a box: the future of a call is large, and every verb contains several.
        tokio::time::timeout(remaining, Box::pin(rpc(grpc, request)))
            .await
            .map_err(|_| timeout(ask.verb))
    }

    /// Pauses the background calls that a refusal is about.
    fn respect(&self, api: Option<Api>, status: &Status) {
        let Some(throttle) = throttle(status) else {
            return;
        };
        let until = self.clock.now() + throttle.pause;
        let mut paused = lock(&self.paused);
        for other in Api::ALL {
            if throttle.limit.concerns(api, other) {
                let known = &mut paused[other as usize];
                *known = Some(known.map_or(until, |known| known.max(until)));
            }
        }
    }
}
