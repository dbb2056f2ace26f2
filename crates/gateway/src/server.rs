//! One port for gRPC, gRPC-Web, health, reflection, `/healthz`, `/metrics` and the pages for people.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures::future::BoxFuture;
use stateway_identity::Identity;
use stateway_proto::v1;
use stateway_provider_api::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::{AccessControl, AccessError, MetricsAccess};
use crate::audit::{AuditError, Auditor};
use crate::authentication::AuthenticationError;
use crate::front::{
    Acceptor, ConnectionLimits, Connections, Forward, Front, NamedHandler, Peer, PeerTlsError,
    Services, TlsError, no_page,
};
use crate::port::Port;
use crate::service::admin::Admin;
use crate::service::approvals::{ApprovalHub, Approvals};
use crate::service::definitions::Definitions;
use crate::service::executions::Executions;
use crate::service::providers::Providers;
use crate::service::recovery::Recovery;
use crate::service::triggers::Triggers;
use crate::service::workers::{Activities, Workers};
use crate::service::{Shell, ShellLimits};
use crate::settings::{Settings, TokenKey};
use crate::streams::{StreamKind, StreamPool};
use crate::token::Sealer;
use crate::upstream::{Directory, EngineHealth, Prober, Upstream, Upstreams};
use crate::watch::Hub;

/// Renders the page at `/metrics`.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// Makes pages for people over the gateway's own API; the token ends their streams at shutdown.
pub type Pages = Box<dyn FnOnce(Routes, CancellationToken) -> Router + Send>;

const NO_METRICS: &str = "Metrics cover every provider, and no access rule allows you to read everything. \
                          A rule with may = \"read\" and without `where` allows it.\n";

/// Calls one connection may have under way beside its watches.
const CALLS_PER_CONNECTION: u32 = 1_000;

/// Connections to the port for probes and scrapers, calls that one of them may have under way, and the time
/// after which an unused one is closed.
const PROBE_CONNECTIONS: usize = 1_024;
const PROBES_PER_CONNECTION: u32 = 16;
const PROBE_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long reads may take to end at shutdown.
const READ_GRACE: Duration = Duration::from_secs(2);
/// How often a shutdown checks whether the last write has ended.
const WRITE_CHECK: Duration = Duration::from_millis(20);

/// How often the health of the audit log is reported.
const AUDIT_CHECK: Duration = Duration::from_secs(1);

/// Why the gateway does not run.
#[derive(Debug, Error)]
pub enum StartError {
    /// Every caller that can reach an open port could control every execution.
    #[error(
        "refusing to listen on {0}: without TLS and a method of authentication only loopback addresses \
         are served"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A certificate for calls to other gateways cannot be used.
    #[error(transparent)]
    Peers(#[from] PeerTlsError),
    /// The authentication cannot be used.
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    /// The access rules cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The audit log cannot be used.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The API's description is broken: a defect of the build.
    #[error("the API's descriptors cannot be served: {0}")]
    Reflection(String),
}

impl StartError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotLoopback(_) => {
                "Configure `cert` and `key` in [server.tls], and at least one of \
                 [authentication.certificates], [authentication.jwt], [authentication.api_keys] and \
                 [authentication.proxy]; or listen on 127.0.0.1 or [::1]."
            }
            Self::Bind { .. } => {
                "Choose another address with --listen (or `server.monitoring_listen`), or stop the process \
                 that uses it."
            }
            Self::Tls(_) => {
                "Configure PEM files that this process can read: `server.tls.cert` with the \
                 certificate chain, `server.tls.key` with its private key."
            }
            Self::Peers(_) => {
                "Configure PEM files that this process can read: `server.peers.ca_file` with the authorities of \
                 the other gateways, `server.peers.cert` and `server.peers.key` with the client certificate of \
                 this one."
            }
            Self::Authentication(_) => {
                "docs/security.md shows what each method of authentication needs."
            }
            Self::Access(AccessError::NoAuthentication) => {
                "Configure a method of [authentication], or remove [access]. Without authentication \
                 everything is allowed, on loopback addresses only."
            }
            Self::Access(AccessError::File { .. }) => {
                "docs/access.md describes the rules; `stateway config check` reports every error."
            }
            Self::Audit(_) => {
                "Configure files in [audit] that this process can write (`file`) and read (`key_file`, \
                 `webhook.secret_file`). Each gateway needs its own log."
            }
            Self::Reflection(_) => "Turn reflection off with `server.reflection = false`.",
        }
    }
}

/// A gateway that is bound to its port.
pub struct Gateway {
    port: Port,
    settings: Settings,
    upstreams: Arc<Upstreams>,
    metrics: MetricsPage,
    pages: Option<Pages>,
}

impl Gateway {
    /// Takes the port of the settings. Nothing is answered before [`serve`](Self::serve).
    ///
    /// # Errors
    /// The address is not loopback, or another process uses it.
    pub async fn bind(
        registry: Registry,
        settings: Settings,
        metrics: MetricsPage,
    ) -> Result<Self, StartError> {
        let port = Port::open(&settings).await?;
        Ok(Self::on(port, &registry, settings, metrics))
    }

    /// A gateway on a port that was taken before its providers were created.
    #[must_use]
    pub fn on(port: Port, registry: &Registry, settings: Settings, metrics: MetricsPage) -> Self {
        let upstreams = Arc::new(Upstream::all(registry, &settings));
        Self {
            port,
            settings,
            upstreams,
            metrics,
            pages: None,
        }
    }

    /// Serves pages for people beside the API, unless the settings say otherwise. They see what a
    /// client sees: the API's routes are all they get.
    #[must_use]
    pub fn with_pages(
        mut self,
        pages: impl FnOnce(Routes, CancellationToken) -> Router + Send + 'static,
    ) -> Self {
        self.pages = self.settings.dashboard.then(|| Box::new(pages) as Pages);
        self
    }

    /// The address that it listens on, with the real port if port 0 was configured.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.port.address
    }

    /// Where probes and scrapers are served, if they have a port of their own.
    #[must_use]
    pub fn monitoring_addr(&self) -> Option<SocketAddr> {
        self.port.monitoring.as_ref().map(|port| port.address)
    }

    /// Whether clients must use TLS.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.port.tls.is_some()
    }

    /// Serves until `shutdown` resolves, then lets calls and streams end.
    ///
    /// # Errors
    /// The server could not be set up or broke off.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), StartError> {
        self.serve_until(Box::pin(shutdown)).await
    }

    /// A trait object, so that the code of the server is generated in this crate, and not again in every crate that
    /// serves a gateway.
    fn serve_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(self.serve_boxed(shutdown))
    }

    async fn serve_boxed(mut self, shutdown: BoxFuture<'_, ()>) -> Result<(), StartError> {
        let stop = CancellationToken::new();
        let sealer = Arc::new(Sealer::new(
            self.settings.token_key.as_ref().map(TokenKey::bytes),
            self.settings.token_lifetime,
        ));
        let hub = Hub::new(
            self.upstreams.clone(),
            self.settings.watch,
            sealer.clone(),
            stop.clone(),
        );
        let approval_hub = ApprovalHub::new(self.settings.watch, stop.clone());
        let (reporter, health) = tonic_health::server::health_reporter();
        let engines = Arc::new(EngineHealth::new(&self.upstreams));
        let is_authenticated = self.port.authentication.is_some();
        let mut shared = self.upstreams.values();
        let active = shared.find_map(|upstream| upstream.active_gateway());
        let peers = self.port.peers.take();
        let forward = active.map(|active| {
            let forward = Forward::new(peers, is_authenticated, stop.clone());
            (Arc::new(forward), active)
        });
        let (forward, active) = forward.unzip();
        let prober = Arc::new(Prober {
            forward: forward.clone(),
            upstreams: self.upstreams.clone(),
            engines: engines.clone(),
            reporter,
            stop: stop.clone(),
        });
        let access = self.port.access.take();
        let mut services = self.services((&hub, &approval_hub), &sealer, &stop, &access)?;
        services.push(NamedHandler::new(health.clone()));
        let audit = self.port.audit.take();
        let services = Services::new(services, audit.clone()).with_forward(forward.clone());
        let pages = self.pages.take();
        let pages = pages.map(|make| make(services.routes(), stop.clone()));
        let authentication = self.port.authentication.take();
        let is_brief = authentication.is_some();
        let monitoring = self.port.monitoring.take();
        let for_monitoring = monitoring.as_ref().map(|port| {
            // Every caller that can reach this port may read metrics: the access rules apply to the main port.
            let metrics = (self.metrics.clone(), MetricsAccess(None));
            let pages = plain_pages(metrics, engines.clone(), audit.clone(), false);
            let pages = Routes::from(pages.fallback(nowhere));
            let services = Services::new(vec![NamedHandler::new(health)], None);
            Front::for_monitoring(services, pages, port.address.ip().is_loopback())
        });
        let metrics = (self.metrics.clone(), MetricsAccess(access.clone()));
        let plain = plain_pages(metrics, engines, audit.clone(), is_brief);
        let pages = match pages {
            // They answer to unknown paths themselves, except to those of gRPC methods.
            Some(pages) => plain.merge(pages).layer(from_fn(refuse_methods)),
            None => plain.fallback(nowhere),
        };
        let origins = std::mem::take(&mut self.settings.allowed_origins);
        let pages = Routes::from(pages);
        let front = Front::new(
            services,
            pages,
            origins,
            (authentication.clone(), access.clone()),
            audit.clone(),
            std::mem::take(&mut self.settings.quotas),
        );

        let probes = TaskTracker::new();
        for upstream in self.upstreams.values() {
            probes.spawn(prober.clone().run(upstream.clone()));
        }
        if let (Some(forward), Some(active)) = (forward.clone(), active) {
            probes.spawn(forward.run(active));
        }
        let cut = CancellationToken::new();
        let max_unauthenticated = authentication
            .is_some()
            .then_some(self.settings.max_unauthenticated_connections);
        if let Some(authentication) = authentication {
            probes.spawn(authentication.keep_current(stop.clone()));
        }
        if let Some(access) = access {
            probes.spawn(access.keep_current(stop.clone()));
        }
        if let Some(audit) = &audit {
            probes.spawn(audit.clone().deliver(stop.clone()));
            let reporter = prober.reporter.clone();
            probes.spawn(report_audit(audit.clone(), reporter, stop.clone()));
        }
        let tls = self.port.tls.take();
        if let Some(tls) = &tls {
            probes.spawn(tls.clone().keep_current(stop.clone()));
        }
        let limits = self.limits();
        if let (Some(port), Some(front)) = (monitoring, for_monitoring) {
            let limits = ConnectionLimits {
                max_streams: PROBES_PER_CONNECTION,
                idle_timeout: limits.idle_timeout.min(PROBE_IDLE_TIMEOUT),
                ..limits
            };
            let connections =
                Connections::new(front, limits, None, None, stop.clone(), cut.clone());
            probes.spawn(monitor_until(port.listener, connections, stop.clone()));
        }
        let connections = Connections::new(
            front,
            limits,
            tls,
            max_unauthenticated,
            stop.clone(),
            cut.clone(),
        );
        let open = accept_until(self.port.listener, connections, shutdown).await;
        tracing::info!("shutting down: refusing new calls, ending streams");
        // The probers stop first: none may call a provider healthy after this.
        stop.cancel();
        prober.drain().await;
        let drain = self.settings.drain;
        tokio::select! {
            () = open.wait() => {}
            () = drained(&self.upstreams, forward, drain) => {
                tracing::warn!("calls did not end in time and were cancelled");
                cut.cancel();
            }
        }
        probes.close();
        let rest = async {
            open.wait().await;
            hub.drained().await;
            approval_hub.drained().await;
            probes.wait().await;
        };
        if tokio::time::timeout(drain, rest).await.is_err() {
            tracing::warn!("some upstream calls did not end in time and were abandoned");
        }
        if let Some(audit) = audit {
            audit.close().await;
        }
        Ok(())
    }

    fn limits(&self) -> ConnectionLimits {
        let watch = &self.settings.watch;
        let streams = watch.max_streams.saturating_add(watch.max_waits);
        let streams = u32::try_from(streams).unwrap_or(u32::MAX);
        ConnectionLimits {
            handshake_timeout: self.settings.handshake_timeout,
            idle_timeout: self.settings.idle_timeout,
            authentication_timeout: self.settings.authentication_timeout,
            // A client may have all of its watches and waits on one connection, and calls beside them.
            max_streams: streams.saturating_add(CALLS_PER_CONNECTION),
        }
    }

    fn services(
        &self,
        (hub, approval_hub): (&Arc<Hub>, &Arc<ApprovalHub>),
        sealer: &Arc<Sealer>,
        stop: &CancellationToken,
        access: &Option<Arc<AccessControl>>,
    ) -> Result<Vec<NamedHandler>, StartError> {
        let most = self.settings.max_message_bytes;
        let limits = ShellLimits {
            default_deadline: self.settings.default_deadline,
            max_deadline: self.settings.max_deadline,
            max_message_bytes: most,
        };
        let shell = Arc::new(Shell::new(limits, access.clone()));
        let watch = &self.settings.watch;
        let watches = StreamPool::new(StreamKind::Watch, watch.max_streams);
        let directory = Arc::new(Directory {
            upstreams: self.upstreams.clone(),
            default_provider: self.settings.default_provider.clone(),
        });
        let definitions = Definitions {
            shell: shell.clone(),
            directory: directory.clone(),
            sealer: sealer.clone(),
        };
        let approvals = Approvals {
            shell: shell.clone(),
            directory: directory.clone(),
            sealer: sealer.clone(),
            hub: approval_hub.clone(),
            watches: watches.clone(),
        };
        let workers = Workers {
            shell: shell.clone(),
            directory: directory.clone(),
            sealer: sealer.clone(),
            activities: Activities::default(),
            stop: stop.clone(),
        };
        let admin = Admin {
            shell: shell.clone(),
            directory: directory.clone(),
        };
        let triggers = Triggers {
            shell: shell.clone(),
            directory: directory.clone(),
        };
        let executions = Arc::new(Executions {
            directory: directory.clone(),
            shell: shell.clone(),
            upstreams: self.upstreams.clone(),
            hub: hub.clone(),
            sealer: sealer.clone(),
            watches,
            waits: StreamPool::new(StreamKind::Wait, watch.max_waits),
        });
        let recovery = Recovery {
            shell: shell.clone(),
            directory,
            executions: executions.clone(),
            sealer: sealer.clone(),
        };
        let providers = Providers {
            shell,
            upstreams: self.upstreams.clone(),
            sealer: sealer.clone(),
        };
        let mut services = vec![
            NamedHandler::new(
                v1::executions_server::ExecutionsServer::from_arc(executions)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::providers_server::ProvidersServer::new(providers)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::definitions_server::DefinitionsServer::new(definitions)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::approvals_server::ApprovalsServer::new(approvals)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::workers_server::WorkersServer::new(workers)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::admin_server::AdminServer::new(admin)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::triggers_server::TriggersServer::new(triggers)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
            NamedHandler::new(
                v1::recovery_server::RecoveryServer::new(recovery)
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            ),
        ];
        if self.settings.reflection {
            let broken =
                |error: tonic_reflection::server::Error| StartError::Reflection(error.to_string());
            let described = || {
                tonic_reflection::server::Builder::configure()
                    .register_encoded_file_descriptor_set(stateway_proto::DESCRIPTORS)
                    .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            };
            services.push(NamedHandler::new(described().build_v1().map_err(broken)?));
            services.push(NamedHandler::new(
                described().build_v1alpha().map_err(broken)?,
            ));
        }
        Ok(services)
    }
}

/// Resolves when the time for open calls is over: reads have [`READ_GRACE`] to end, and
/// writes have `drain`: the caller of a write should hear how it ended.
async fn drained(upstreams: &Upstreams, forward: Option<Arc<Forward>>, drain: Duration) {
    let latest = tokio::time::Instant::now() + drain;
    tokio::time::sleep(READ_GRACE.min(drain)).await;
    let writing = || {
        // Whether a forwarded call is a write is not known here.
        let is_forwarding = forward.as_ref().is_some_and(|forward| forward.is_waiting());
        is_forwarding || upstreams.values().any(|upstream| upstream.is_writing())
    };
    while writing() && tokio::time::Instant::now() < latest {
        tokio::time::sleep(WRITE_CHECK).await;
    }
}

/// Accepts connections until `shutdown` resolves; returns those that are still open. The port is free
/// then.
async fn accept_until(
    listener: TcpListener,
    connections: Connections,
    mut shutdown: BoxFuture<'_, ()>,
) -> TaskTracker {
    let open = TaskTracker::new();
    let mut acceptor = Acceptor::new(listener);
    loop {
        let (stream, address) = tokio::select! {
            () = &mut shutdown => break,
            accepted = acceptor.next() => accepted,
        };
        open.spawn(connections.clone().serve(stream, Peer(address)));
    }
    open.close();
    open
}

/// Keeps the entry `audit` of the standard health service up to date.
async fn report_audit(audit: Arc<Auditor>, reporter: HealthReporter, stop: CancellationToken) {
    loop {
        let status = match audit.trouble() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        };
        reporter.set_service_status("audit", status).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AUDIT_CHECK) => {}
        }
    }
}

/// Answers probes and scrapers until `stop` is cancelled. Their connections are few and their calls short, so
/// that a connection beyond [`PROBE_CONNECTIONS`] waits until another one ends.
async fn monitor_until(listener: TcpListener, connections: Connections, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(PROBE_CONNECTIONS));
    let open = TaskTracker::new();
    let mut acceptor = Acceptor::new(listener);
    loop {
        let accepted = async {
            let permit = room.clone().acquire_owned().await;
            (permit, acceptor.next().await)
        };
        let (permit, (stream, address)) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        let serving = connections.clone().serve(stream, Peer(address));
        open.spawn(async move {
            serving.await;
            drop(permit);
        });
    }
    open.close();
    open.wait().await;
}

/// The answer to a path that has no page.
async fn nowhere(method: Method, uri: Uri) -> Response {
    no_page(&method, uri.path()).into_response()
}

/// Refuses the path of a gRPC method without the content type of gRPC; no page has such a path.
async fn refuse_methods(request: Request, next: Next) -> Response {
    match no_page(request.method(), request.uri().path()) {
        (StatusCode::NOT_FOUND, _) => next.run(request).await,
        refused => refused.into_response(),
    }
}

/// Pages for probes and scrapers.
///
/// With authentication, `/healthz` is for callers without credentials and names no provider.
fn plain_pages(
    (metrics, access): (MetricsPage, MetricsAccess),
    engines: Arc<EngineHealth>,
    audit: Option<Arc<Auditor>>,
    is_brief: bool,
) -> Router {
    let health = async move || {
        let (status, mut text) = engines.page();
        if is_brief {
            let first = text.find('\n').map_or(text.len(), |end| end + 1);
            text.truncate(first);
        }
        if let Some((effect, why)) = audit.as_ref().and_then(|audit| audit.trouble()) {
            text.push_str(effect);
            if !is_brief {
                text.push_str(&format!(" ({why})"));
            }
            text.push('\n');
        }
        (status, text)
    };
    let metrics = async move |sender: Option<Extension<Arc<Identity>>>| {
        if access.allows(sender.as_deref()) {
            metrics().into_response()
        } else {
            (StatusCode::FORBIDDEN, NO_METRICS).into_response()
        }
    };
    Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
}
