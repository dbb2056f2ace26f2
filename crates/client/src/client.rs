//! The connection, and how a call is made over it.

use std::future::Future;
use std::net::IpAddr;
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
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::InvalidUri;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::back_off::{BackOff, spread};
use crate::call::Repeat;
use crate::connector::Connector;
use crate::identity::Identity;
use crate::{Call, Error, GetProvider, ListProviders, Security, Write};

/// The timeout of a call if neither the call nor the client sets one.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest timeout of a call: one year, which fits into the header `grpc-timeout`.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Longest time to set up a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of HTTP/2 pings. Without pings, a quiet stream would never notice that its
/// connection was dropped.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The timeout of a ping.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The client gives up this much later than the gateway, so that a late answer still arrives.
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
    /// Connects now. An `https` address is trusted by the certificate authorities of the system.
    ///
    /// # Errors
    /// The address is not valid, or nothing answers there.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let connected = Gate::new(url, &Security::default())?.connect().await;
        let channel =
            connected.map_err(|error| Error::from_status(&Status::from_error(error.into())))?;
        Ok(Self::over(channel))
    }

    /// Connects with the first call, and again whenever the connection is lost.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn lazy(url: &str) -> Result<Self, Error> {
        Self::lazy_with(url, &Security::default())
    }

    /// Connects with certificates or a token, which authenticate the caller.
    ///
    /// # Errors
    /// The address is not valid, a file cannot be used, or a token would be sent unencrypted to
    /// another machine.
    pub fn lazy_with(url: &str, security: &Security) -> Result<Self, Error> {
        let mut client = Self::over(Gate::new(url, security)?.connect_lazy());
        client.identity.token.clone_from(&security.token);
        Ok(client)
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

    /// The timeout of calls without a timeout of their own.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Turns retries off.
    #[must_use]
    pub const fn without_retries(mut self) -> Self {
        self.back_off.most = 0;
        self
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
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

    /// A request with the identity of the caller.
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
                    // No gateway is connected yet.
                    Err(asking) if asking.code() == Code::Unavailable => {}
                    _ => return Err(error.not_repeated()),
                }
            }
        }
    }

    /// Asks the gateway whether the write is idempotent.
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

    /// Makes a call that writes, with the same request id for every try. If the provider does not
    /// support request ids, the call is made once, unless the caller asked for at-least-once.
    ///
    /// A call with an etag is made once. If the write was carried out and only its answer was lost,
    /// a second try would fail because of the changed etag, and the caller would see an error
    /// although the write succeeded.
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

/// How a call is retried.
struct Plan {
    back_off: BackOff,
    repeat: Repeat,
}

/// The connection was refused, so the gateway cannot have carried out the call.
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

/// Only `UNAVAILABLE` is retried automatically (AIP-194).
fn next_try(back_off: &BackOff, error: &Error, retry: u32) -> Option<Duration> {
    match error.code() {
        Code::Unavailable => back_off.pause(retry, error.retry_after(), spread()),
        _ => None,
    }
}

/// The connection settings of one gateway.
pub(crate) struct Gate {
    endpoint: Endpoint,
    /// None for an `http` address.
    connector: Option<Connector>,
}

impl Gate {
    pub(crate) fn new(url: &str, security: &Security) -> Result<Self, Error> {
        let wrong = |why: &str| Error::address(url, why);
        let uri: Uri = url
            .parse()
            .map_err(|error: InvalidUri| wrong(&error.to_string()))?;
        let connector = match uri.scheme_str() {
            Some("http") => {
                check_plain(&uri, security)?;
                None
            }
            Some("https") => Some(Connector::new(&uri, security)?),
            Some(other) => return Err(wrong(&format!("scheme `{other}` is not supported"))),
            None => return Err(wrong("it has no scheme")),
        };
        // The connector itself does TLS; the transport would refuse an https address.
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))
            .map_err(|error| wrong(&error.to_string()))?
            .origin(uri)
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        Ok(Self {
            endpoint,
            connector,
        })
    }

    async fn connect(self) -> Result<Channel, tonic::transport::Error> {
        match self.connector {
            Some(connector) => self.endpoint.connect_with_connector(connector).await,
            None => self.endpoint.connect().await,
        }
    }

    pub(crate) fn connect_lazy(self) -> Channel {
        match self.connector {
            Some(connector) => self.endpoint.connect_with_connector_lazy(connector),
            None => self.endpoint.connect_lazy(),
        }
    }
}

/// A token is never sent to another machine without TLS.
fn check_plain(uri: &Uri, security: &Security) -> Result<(), Error> {
    if security.ca.is_some() || security.certificate.is_some() {
        let why = "certificates need an address that begins with https://";
        return Err(Error::credentials(why.to_owned()));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if security.token.is_some() && !is_local {
        let why = format!("the token would be sent to `{host}` without encryption");
        return Err(Error::credentials(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_sent_over_tls_or_on_this_machine_only() {
        let security = Security::default().token("secret").unwrap();
        for local in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
            assert!(Client::lazy_with(local, &security).is_ok(), "{local}");
        }
        for remote in ["http://gateway.internal", "http://10.0.0.1:7380"] {
            let error = Client::lazy_with(remote, &security).unwrap_err();
            assert_eq!(error.reason(), "INVALID_CREDENTIALS", "{remote}");
        }
    }

    #[tokio::test]
    async fn certificates_without_tls_and_files_that_are_none_are_refused() {
        let security = Security::default().ca("missing.pem");
        for url in ["http://127.0.0.1:1", "https://127.0.0.1:1"] {
            let error = Client::lazy_with(url, &security).unwrap_err();
            assert_eq!(error.reason(), "INVALID_CREDENTIALS", "{url}");
        }
    }
}
