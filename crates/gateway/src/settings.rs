//! What an operator can set, with the defaults and the reason for each.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use stateway_model::ProviderId;

use crate::access::AccessSettings;
use crate::audit::AuditSettings;
use crate::authentication::AuthenticationSettings;
use crate::front::Origin;
use crate::quota::QuotaSettings;

/// The key that seals page tokens and cursors. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// Settings of the gateway as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where to listen. Loopback only, unless TLS and a method of authentication are configured.
    pub listen: SocketAddr,
    /// A second address that serves `/healthz`, `/metrics` and the health service, and nothing else:
    /// without TLS and without authentication, for probes and scrapers.
    pub monitoring_listen: Option<SocketAddr>,
    /// The deadline of a call that has none.
    pub default_deadline: Duration,
    /// No call may ask for more. Bounds `WaitExecution`; streams have no deadline.
    pub max_deadline: Duration,
    /// The largest message accepted or sent, gRPC's own default.
    pub max_message_bytes: usize,
    /// How long streams and calls may take to end at shutdown.
    pub drain: Duration,
    /// Seals page tokens and cursors. Replicas behind one address must share it for page tokens to
    /// work on each of them; without one a random key is made and tokens end with the process.
    /// Cursors are valid only in the process that issued them.
    pub token_key: Option<TokenKey>,
    /// How long a page token may be used.
    pub token_lifetime: Duration,
    /// TLS on the port. Without it HTTP is served without encryption.
    pub tls: Option<TlsSettings>,
    /// How this gateway calls other gateways that share its store.
    pub peers: Option<PeerSettings>,
    /// How callers authenticate.
    pub authentication: AuthenticationSettings,
    /// Which rules decide about authenticated callers.
    pub access: AccessSettings,
    /// The audit log. Without one nothing is recorded.
    pub audit: Option<AuditSettings>,
    /// Time in which a new connection must begin to speak HTTP, the TLS handshake included.
    pub handshake_timeout: Duration,
    /// With authentication: connections whose client is not authenticated. Beyond it the oldest one
    /// is cut off.
    pub max_unauthenticated_connections: usize,
    /// With authentication: time in which the client of a connection must prove who it is.
    pub authentication_timeout: Duration,
    /// Limits of callers.
    pub quotas: QuotaSettings,
    /// Time after which a connection without open calls is closed.
    pub idle_timeout: Duration,
    /// Origins whose web pages may call the API from a browser, beside the gateway's own pages. A
    /// request may also name their hosts.
    pub allowed_origins: Vec<Origin>,
    /// Whether clients may ask for the API's description.
    pub reflection: bool,
    /// Whether the dashboard is served.
    pub dashboard: bool,
    /// The provider that is the default of a portable definition for which `MigrateDefinition` has chosen none.
    /// Without one it is the first provider by name.
    pub default_provider: Option<ProviderId>,
    /// Watches.
    pub watch: WatchSettings,
    /// Limits for providers without an entry of their own.
    pub default_upstream: UpstreamSettings,
    /// Limits by provider.
    pub upstreams: BTreeMap<ProviderId, UpstreamSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7380)),
            monitoring_listen: None,
            default_deadline: Duration::from_secs(30),
            max_deadline: Duration::from_secs(3600),
            max_message_bytes: 4 * 1024 * 1024,
            drain: Duration::from_secs(10),
            token_key: None,
            token_lifetime: Duration::from_secs(24 * 3600),
            tls: None,
            peers: None,
            authentication: AuthenticationSettings::default(),
            access: AccessSettings::default(),
            audit: None,
            handshake_timeout: Duration::from_secs(10),
            max_unauthenticated_connections: 1024,
            authentication_timeout: Duration::from_secs(30),
            quotas: QuotaSettings::default(),
            idle_timeout: Duration::from_secs(5 * 60),
            allowed_origins: Vec::new(),
            reflection: true,
            dashboard: true,
            default_provider: None,
            watch: WatchSettings::default(),
            default_upstream: UpstreamSettings::default(),
            upstreams: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The limits of one provider.
    #[must_use]
    pub fn upstream(&self, provider: &ProviderId) -> &UpstreamSettings {
        self.upstreams
            .get(provider)
            .unwrap_or(&self.default_upstream)
    }
}

/// TLS on the port. The files are PEM and are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate of the gateway, followed by the intermediate certificates.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities whose client certificates are accepted. Without a file no certificate is asked
    /// for.
    pub client_ca: Option<PathBuf>,
    /// The maximum number of handshakes under way. Beyond it the oldest one is cut off.
    pub max_handshakes: usize,
    /// How often the files are checked for a change.
    pub reload_interval: Duration,
}

impl TlsSettings {
    /// TLS with this certificate and key.
    #[must_use]
    pub fn new(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
            max_handshakes: 1024,
            reload_interval: Duration::from_secs(5),
        }
    }
}

/// TLS to other gateways. The files are PEM and are read for each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// The authorities whose certificates other gateways have.
    pub ca_file: PathBuf,
    /// The client certificate of this gateway, followed by the intermediate certificates. The other gateways list its
    /// subject in `authentication.proxy`.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Settings of watches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchSettings {
    /// A bookmark is sent when nothing else was for this long, so that proxies keep the stream.
    pub heartbeat: Duration,
    /// Changes kept per watched topic: how far a reader may fall behind or resume from.
    pub buffer: usize,
    /// The maximum number of open watches. A caller can open another watch while it has fewer open than are free.
    pub max_streams: usize,
    /// The maximum number of open calls to `WaitExecution`, shared in the same way.
    pub max_waits: usize,
    /// The maximum number of topics: different executions and collections that are watched.
    pub max_topics: usize,
    /// The most executions of one provider that a watch on a collection follows.
    pub max_watched_executions: usize,
    /// How long a topic stays warm after its last reader has left, so that a reader who reconnects
    /// can resume.
    pub linger: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(15),
            buffer: 256,
            max_streams: 20_000,
            max_waits: 20_000,
            max_topics: 50_000,
            max_watched_executions: 100_000,
            linger: Duration::from_secs(30),
        }
    }
}

/// Limits of one provider. What one provider does wrong must not reach the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpstreamSettings {
    /// The maximum number of concurrent calls; further ones are refused, not queued.
    pub max_concurrent: usize,
    /// No single upstream call may take longer.
    pub timeout: Duration,
    /// A list, a count or a watch over several providers waits this long for each of them.
    pub multi_provider_timeout: Duration,
    /// This many failures in a row open the breaker.
    pub breaker_failures: u32,
    /// An open breaker admits a probe after this long; the pause doubles with each probe that fails, up
    /// to eight times.
    pub breaker_cool_down: Duration,
    /// Polling while things change.
    pub min_poll_interval: Duration,
    /// Polling when nothing has changed for a while.
    pub max_poll_interval: Duration,
    /// How often health is asked for.
    pub health_interval: Duration,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            timeout: Duration::from_secs(10),
            multi_provider_timeout: Duration::from_secs(3),
            breaker_failures: 5,
            breaker_cool_down: Duration::from_secs(5),
            min_poll_interval: Duration::from_millis(250),
            max_poll_interval: Duration::from_secs(5),
            health_interval: Duration::from_secs(5),
        }
    }
}
