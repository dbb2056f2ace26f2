//! The connection, and how a call is made over it.

use std::future::Future;
use std::time::Duration;

use stateway_proto::v1;
use stateway_proto::v1::admin_client::AdminClient;
use stateway_proto::v1::approvals_client::ApprovalsClient;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::providers_client::ProvidersClient;
use stateway_proto::v1::recovery_client::RecoveryClient;
use stateway_proto::v1::triggers_client::TriggersClient;
use stateway_proto::v1::workers_client::WorkersClient;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::back_off::{BackOff, spread};
use crate::call::Repeat;
use crate::identity::Identity;
use crate::{Call, Error, GetProvider, ListProviders, Write};

/// How long a call may take when neither it nor the client says.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// No call may ask for more: a year is as good as for ever, and fits the wire's form.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Longest time to set up a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection is asked whether it is still there. Without it a stream on which nothing
/// happens would wait for ever behind a connection that was dropped without a word.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long it may take to answer that.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much later than the gateway this side gives up: an answer that is on its way still counts.
const GRACE: Duration = Duration::from_millis(500);

/// A connection to a gateway. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    timeout: Duration,
    max_message: usize,
    back_off: BackOff,
    pub(crate) identity: Identity,
}

impl Client {
    /// Connects now.
    ///
    /// # Errors
    /// An address that is not one, or nothing that answers there.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let connected = endpoint(url)?.connect().await;
        let channel =
            connected.map_err(|error| Error::from_status(&Status::from_error(error.into())))?;
        Ok(Self::over(channel))
    }

    /// Connects with the first call, and again whenever the connection is lost.
    ///
    /// # Errors
    /// An address that is not one.
    pub fn lazy(url: &str) -> Result<Self, Error> {
        Ok(Self::over(endpoint(url)?.connect_lazy()))
    }

    fn over(channel: Channel) -> Self {
        Self {
            channel,
            timeout: DEFAULT_TIMEOUT,
            max_message: 64 * 1024 * 1024,
            back_off: BackOff::CALL,
            identity: Identity::default(),
        }
    }

    /// How long calls may take that do not say themselves.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Leaves trying again to the caller.
    #[must_use]
    pub const fn without_retries(mut self) -> Self {
        self.back_off.most = 0;
        self
    }

    pub(crate) fn executions(&self) -> ExecutionsClient<Channel> {
        ExecutionsClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    pub(crate) fn providers(&self) -> ProvidersClient<Channel> {
        ProvidersClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    pub(crate) fn definitions(&self) -> DefinitionsClient<Channel> {
        DefinitionsClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    pub(crate) fn approvals(&self) -> ApprovalsClient<Channel> {
        ApprovalsClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    pub(crate) fn workers(&self) -> WorkersClient<Channel> {
        WorkersClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone())
    }

    pub(crate) fn triggers(&self) -> TriggersClient<Channel> {
        TriggersClient::new(self.channel.clone())
    }

    pub(crate) fn recovery(&self) -> RecoveryClient<Channel> {
        RecoveryClient::new(self.channel.clone()).max_decoding_message_size(self.max_message)
    }

    /// A request that says who makes it.
    pub(crate) fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        self.identity.put(request.metadata_mut());
        request
    }

    /// Makes a call that reads.
    pub(crate) async fn read<M, R, F>(
        &self,
        call: Call<M>,
        send: impl Fn(tonic::Request<M>) -> F,
    ) -> Result<R, Error>
    where
        M: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let plan = Plan {
            back_off: self.back_off,
            repeat: Repeat::Harmless,
        };
        self.make(call, plan, send).await
    }

    async fn make<M, R, F>(
        &self,
        call: Call<M>,
        plan: Plan,
        send: impl Fn(tonic::Request<M>) -> F,
    ) -> Result<R, Error>
    where
        M: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let timeout = call.timeout.unwrap_or(self.timeout).min(LONGEST_TIMEOUT);
        let deadline = Instant::now() + timeout;
        let mut retry = 0;
        loop {
            let mut request = self.request(call.message.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let status = match timeout_at(deadline + GRACE, send(request)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_elapsed) => return Err(Error::deadline(timeout)),
            };
            let error = Error::from_status(&status);
            let is_safe = plan.repeat == Repeat::Harmless || was_not_sent(&status);
            loop {
                retry += 1;
                match next_try(&plan.back_off, &error, retry) {
                    Some(pause) if Instant::now() + pause < deadline => sleep(pause).await,
                    _ => return Err(error),
                }
                if is_safe {
                    break;
                }
                match self.may_repeat(&plan.repeat, deadline).await {
                    Ok(true) => break,
                    // Nobody to ask yet.
                    Err(asking) if asking.code() == Code::Unavailable => {}
                    _ => return Err(error.not_repeated()),
                }
            }
        }
    }

    /// Asks the gateway whether a write can be repeated without happening twice.
    async fn may_repeat(&self, repeat: &Repeat, deadline: Instant) -> Result<bool, Error> {
        let Repeat::Capability { needs, provider } = repeat else {
            return Ok(true);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let once = self.clone().without_retries().with_timeout(left);
        let can = |provider: &v1::Provider| {
            let capabilities = provider.capabilities.as_ref();
            capabilities.is_some_and(|offered| needs.is_offered(offered))
        };
        // Boxed: reading a provider is itself a call.
        match provider {
            Some(name) => {
                let found = Box::pin(once.provider(GetProvider::new(name))).await?;
                Ok(can(&found))
            }
            None => {
                let found = Box::pin(once.providers_page(ListProviders::new())).await?;
                let is_all = found.next_page_token.is_empty();
                Ok(is_all && found.providers.iter().all(can))
            }
        }
    }

    /// Makes a call that writes: the same id for every try, so that it happens once. Where the
    /// provider cannot keep ids there is one try, unless the caller wants at least one.
    ///
    /// With an etag there is one try. Had it been carried out and only its answer been lost, the
    /// next would be refused by the very etag it changed, and the caller be told it never happened.
    pub(crate) async fn write<M, R, F>(
        &self,
        mut call: Call<M>,
        send: impl Fn(tonic::Request<M>) -> F,
    ) -> Result<R, Error>
    where
        M: Clone + Write,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let id = call.message.request_id();
        if id.is_empty() {
            *id = uuid::Uuid::new_v4().to_string();
        }
        let most = match call.message.etag() {
            "" => self.back_off.most,
            _ => 0,
        };
        let repeat = if call.at_least_once {
            Repeat::Harmless
        } else {
            call.message.repeat()
        };
        let back_off = BackOff {
            most,
            ..self.back_off
        };
        self.make(call, Plan { back_off, repeat }, send).await
    }
}

/// How a call is tried again.
struct Plan {
    back_off: BackOff,
    repeat: Repeat,
}

/// Nobody listened, so the gateway cannot have carried the call out.
pub(crate) fn was_not_sent(status: &Status) -> bool {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(status);
    while let Some(error) = at {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        at = error.source();
    }
    false
}

/// Only `UNAVAILABLE` is worth another try without asking the caller (AIP-194).
fn next_try(back_off: &BackOff, error: &Error, retry: u32) -> Option<Duration> {
    match error.code() {
        Code::Unavailable => back_off.pause(retry, error.retry_after(), spread()),
        _ => None,
    }
}

pub(crate) fn endpoint(url: &str) -> Result<Endpoint, Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| Error::address(url, &error.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http") => Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)),
        Some(other) => Err(Error::address(
            url,
            &format!("scheme `{other}` is not supported"),
        )),
        None => Err(Error::address(url, "it has no scheme")),
    }
}
