//! The sections of the file. Every key is optional; what is left out keeps its default.
//!
//! The same types read the file and print the effective configuration, so the two cannot differ
//! in a key.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stateway_gateway::{
    Origin, OriginError, PeerSettings, Settings, TlsSettings, UpstreamSettings, WatchSettings,
};

use stateway_identity::Secret;

use crate::duration::Span;

/// A section whose keys are fields of a settings type.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $section:ident for $target:ident {
            $( $(#[$key_doc:meta])* $key:ident: $type:ty, )+
        }
        beside { $( $(#[$extra_doc:meta])* $extra:ident: $extra_type:ty, )* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $(
                $(#[$key_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )+
            $( $(#[$extra_doc])* pub $extra: $extra_type, )*
        }

        impl $section {
            /// Applies the values of the section; keeps all other values.
            pub fn apply(&self, target: &mut $target) {
                $( if let Some(value) = self.$key { target.$key = value.into(); } )+
            }

            /// The section with all values.
            #[must_use]
            pub fn of(target: &$target) -> Self {
                Self { $( $key: Some(target.$key.into()), )+ $( $extra: Default::default(), )* }
            }
        }
    };
}

section! {
    /// `[server]`.
    Server for Settings {
        /// Where to listen. Loopback only, unless TLS and authentication are configured.
        listen: SocketAddr,
        /// The deadline of a call that sets none.
        default_deadline: Span,
        /// No call may ask for more.
        max_deadline: Span,
        /// The largest message accepted or sent.
        max_message_bytes: usize,
        /// How long streams and calls may take to end at shutdown.
        drain: Span,
        /// How long a page token may be used.
        token_lifetime: Span,
        /// Time in which a new connection must begin to speak HTTP.
        handshake_timeout: Span,
        /// Time after which a connection without open calls is closed.
        idle_timeout: Span,
        /// With authentication: connections whose client is not authenticated.
        max_unauthenticated_connections: usize,
        /// With authentication: time in which a client must authenticate.
        authentication_timeout: Span,
        /// Whether clients may ask for the API's description.
        reflection: bool,
        /// Whether the dashboard is served.
        dashboard: bool,
    }
    beside {
        /// A second address, for probes and scrapers.
        #[serde(skip_serializing_if = "Option::is_none")]
        monitoring_listen: Option<SocketAddr>,
        /// Origins whose web pages may call the API from a browser.
        allowed_origins: Vec<AllowedOrigin>,
        /// A file with the key of page tokens and cursors, as 64 hexadecimal digits.
        #[serde(skip_serializing_if = "Option::is_none")]
        token_key_file: Option<PathBuf>,
        /// The key itself, which is refused: a secret is in a file of its own. It is never printed.
        #[serde(skip_serializing)]
        token_key: Option<SecretText>,
        /// TLS on the port.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<Tls>,
        /// TLS to other gateways that share the store.
        #[serde(skip_serializing_if = "Option::is_none")]
        peers: Option<Peers>,
    }
}

/// A secret in the file: read, never printed.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(from = "String", into = "String")]
pub struct SecretText(Secret);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Secret::new(text))
    }
}

/// The printed configuration has no secrets.
impl From<SecretText> for String {
    fn from(_: SecretText) -> Self {
        Self::new()
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose() == other.0.expose()
    }
}

/// `[server.tls]`. Paths are relative to the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain of the gateway.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// The maximum number of handshakes under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_handshakes: Option<usize>,
    /// How often the files are checked for a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_interval: Option<Span>,
}

impl Tls {
    /// The settings of the section in a file of this directory.
    #[must_use]
    pub fn settings(&self, directory: &Path) -> TlsSettings {
        let mut settings = TlsSettings::new(directory.join(&self.cert), directory.join(&self.key));
        settings.client_ca = self.client_ca.as_ref().map(|file| directory.join(file));
        settings.max_handshakes = self.max_handshakes.unwrap_or(settings.max_handshakes);
        let interval = self.reload_interval.map(Duration::from);
        settings.reload_interval = interval.unwrap_or(settings.reload_interval);
        settings
    }

    /// The section with all values.
    #[must_use]
    pub fn of(settings: &TlsSettings) -> Self {
        Self {
            cert: settings.cert.clone(),
            key: settings.key.clone(),
            client_ca: settings.client_ca.clone(),
            max_handshakes: Some(settings.max_handshakes),
            reload_interval: Some(settings.reload_interval.into()),
        }
    }
}

/// `[server.peers]`. Paths are relative to the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peers {
    /// The authorities of the other gateways.
    pub ca_file: PathBuf,
    /// The client certificate chain of this gateway.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Peers {
    /// The settings of the section in a file of this directory.
    #[must_use]
    pub fn settings(&self, directory: &Path) -> PeerSettings {
        PeerSettings {
            ca_file: directory.join(&self.ca_file),
            cert: directory.join(&self.cert),
            key: directory.join(&self.key),
        }
    }

    /// The section with all values.
    #[must_use]
    pub fn of(settings: &PeerSettings) -> Self {
        Self {
            ca_file: settings.ca_file.clone(),
            cert: settings.cert.clone(),
            key: settings.key.clone(),
        }
    }
}

/// One of `allowed_origins`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedOrigin(pub Origin);

impl TryFrom<String> for AllowedOrigin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        text.parse().map(Self)
    }
}

impl From<AllowedOrigin> for String {
    fn from(AllowedOrigin(origin): AllowedOrigin) -> Self {
        origin.to_string()
    }
}

section! {
    /// `[watch]`.
    Watch for WatchSettings {
        /// A bookmark is sent when nothing else was for this long.
        heartbeat: Span,
        /// Changes kept per watched topic.
        buffer: usize,
        /// The maximum number of open watches.
        max_streams: usize,
        /// The maximum number of open calls to WaitExecution.
        max_waits: usize,
        /// Maximum number of topics.
        max_topics: usize,
        /// The most executions of one provider that a watch on a collection follows.
        max_watched_executions: usize,
        /// How long a topic stays warm after its last reader has left.
        linger: Span,
    }
    beside {}
}

section! {
    /// `[limits]` for every provider, and `[providers.<id>.limits]` for one.
    Limits for UpstreamSettings {
        /// Maximum number of concurrent calls.
        max_concurrent: usize,
        /// No single upstream call may take longer.
        timeout: Span,
        /// A list, a count or a watch over several providers waits this long for each of them.
        multi_provider_timeout: Span,
        /// This many failures in a row open the breaker.
        breaker_failures: u32,
        /// An open breaker admits a probe after this long.
        breaker_cool_down: Span,
        /// Polling while things change.
        min_poll_interval: Span,
        /// Polling when nothing has changed for a while.
        max_poll_interval: Span,
        /// How often health is asked for.
        health_interval: Span,
    }
    beside {}
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Which lines, in the notation of `tracing`: `info`, or `info,stateway_gateway=debug`.
    pub filter: String,
    /// For people or for machines.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            filter: "info".into(),
            format: LogFormat::Text,
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[otlp]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// Whether traces are exported.
    pub enabled: bool,
    /// The collector's gRPC address.
    pub endpoint: String,
    /// The name of this gateway in traces.
    pub service_name: String,
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            enabled: false,
            endpoint: "http://127.0.0.1:4317".into(),
            service_name: "stateway".into(),
        }
    }
}
