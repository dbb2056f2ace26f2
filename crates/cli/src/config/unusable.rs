//! Values that have the right type and still cannot work.
//!
//! Asked of the settings as they come out in the end, so that a mistake shows wherever its half is
//! written. What is no value of its type at all is refused by `read`.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use stateway_gateway::{
    AccessSettings, AuditSettings, AuthenticationSettings, Settings, TlsSettings, UpstreamSettings,
    WatchSettings,
};

use super::{Kind, Problem, ProviderConfig};

/// More often than this, bookmarks are all that a stream carries.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

/// Every topic holds a buffer; a larger one is memory that no reader catches up from.
const LARGEST_BUFFER: usize = 65_536;

/// In less, an execution with a few steps and its payloads would not fit.
const SMALLEST_MESSAGE: usize = 64 * 1024;

/// The largest message that clients accept.
const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// A token must live long enough to ask for the next page.
const SHORTEST_TOKEN: Duration = Duration::from_secs(60);

/// In less, a client on a busy machine could not begin.
const SHORTEST_HANDSHAKE: Duration = Duration::from_millis(100);

/// In less, reading files would be all that the gateway does.
const SHORTEST_RELOAD: Duration = Duration::from_millis(100);

/// In less, the issuer of tokens would be asked all the time.
const SHORTEST_REFRESH: Duration = Duration::from_secs(10);

/// In more, tokens that have expired would be as good as others.
const SHORTEST_SESSION: Duration = Duration::from_secs(60);
const LONGEST_SESSION: Duration = Duration::from_secs(30 * 24 * 3600);
const LONGEST_LEEWAY: Duration = Duration::from_secs(300);

/// In less, clients would have to connect for every call.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// In less, rotation would be all that the log does.
const SMALLEST_LOG: u64 = 64 * 1024;

/// The errors of `[server]`.
pub(super) fn server(path: Option<&Path>, server: &Settings) -> Vec<Problem> {
    let rules = [
        (
            server.default_deadline.is_zero(),
            "`default_deadline` must not be 0",
        ),
        (
            server.max_deadline.is_zero(),
            "`max_deadline` must not be 0",
        ),
        (
            server.default_deadline > server.max_deadline,
            "`default_deadline` must not be longer than `max_deadline`",
        ),
        (
            server.max_message_bytes < SMALLEST_MESSAGE,
            "`max_message_bytes` must be at least 65536 (64 KiB)",
        ),
        (
            server.max_message_bytes > LARGEST_MESSAGE,
            "`max_message_bytes` must be at most 67108864 (64 MiB)",
        ),
        (
            server.token_lifetime < SHORTEST_TOKEN,
            "`token_lifetime` must be at least 1m",
        ),
        (
            server.handshake_timeout < SHORTEST_HANDSHAKE,
            "`handshake_timeout` must be at least 100ms",
        ),
        (
            server.idle_timeout < SHORTEST_IDLE,
            "`idle_timeout` must be at least 1s",
        ),
        (
            server.max_unauthenticated_connections == 0,
            "`max_unauthenticated_connections` must be at least 1",
        ),
        (
            server.authentication_timeout < SHORTEST_IDLE,
            "`authentication_timeout` must be at least 1s",
        ),
    ];
    broken(path, "server", rules)
}

/// The errors of `[quotas]`.
pub(super) fn quotas(path: Option<&Path>, settings: &Settings) -> Vec<Problem> {
    let quotas = &settings.quotas;
    let all = || std::iter::once(&quotas.default).chain(quotas.rules.iter().map(|it| &it.quota));
    let rates = || all().flat_map(|it| [it.requests_per_second, it.starts_per_second]);
    let largest = settings.max_message_bytes.min(LARGEST_MESSAGE) as u64;
    let is_limited = quotas.default.requests_per_second.is_some()
        || quotas.default.starts_per_second.is_some()
        || quotas.default.max_streams.is_some()
        || !quotas.rules.is_empty();
    let rules = [
        (
            rates()
                .flatten()
                .any(|rate| !(rate.is_finite() && rate > 0.0)),
            "rates must be greater than 0",
        ),
        (
            all().any(|it| it.max_request_bytes.is_some_and(|most| most < largest)),
            "`max_request_bytes` must be at least `server.max_message_bytes`",
        ),
        (
            quotas.max_identities == 0,
            "`max_identities` must be at least 1",
        ),
        (
            is_limited && !settings.authentication.is_required(),
            "quotas need authenticated callers: configure a method in [authentication]",
        ),
    ];
    broken(path, "quotas", rules)
}

/// The errors of `[audit]`.
pub(super) fn audit(path: Option<&Path>, audit: &AuditSettings) -> Vec<Problem> {
    let rules = [
        (
            audit.max_bytes < SMALLEST_LOG,
            "`max_bytes` must be at least 65536 (64 KiB)",
        ),
        (audit.keep == 0, "`keep` must be at least 1"),
        (audit.max_refusals == 0, "`max_refusals` must be at least 1"),
    ];
    broken(path, "audit", rules)
}

/// The errors of `[server.tls]`.
pub(super) fn tls(path: Option<&Path>, tls: &TlsSettings) -> Vec<Problem> {
    let rules = [
        (
            tls.max_handshakes == 0,
            "`max_handshakes` must be at least 1",
        ),
        (
            tls.reload_interval < SHORTEST_RELOAD,
            "`reload_interval` must be at least 100ms",
        ),
    ];
    broken(path, "server.tls", rules)
}

/// The errors of gateways that call each other: `store_address` of a provider, and `[server.peers]`.
pub(super) fn peers(
    path: Option<&Path>,
    settings: &Settings,
    providers: &[ProviderConfig],
) -> Vec<Problem> {
    let address = |provider: &ProviderConfig| {
        let address = provider.options.get("store_address");
        address.and_then(|address| address.as_str().map(str::to_owned))
    };
    let found = |message: String| Problem {
        file: path.map(Path::to_owned),
        place: None,
        message,
    };
    let shared = providers.iter().find_map(|it| Some((it, address(it)?)));
    let Some((provider, address)) = shared else {
        let unused = settings.peers.is_some().then(|| {
            found("[server.peers] is used only with `store_address` of a provider".to_owned())
        });
        return unused.into_iter().collect();
    };
    let id = &provider.id;
    let is_other =
        |it: &&ProviderConfig| it.id != *id && matches!(it.kind, Kind::Builtin | Kind::Memory);
    let mut problems: Vec<_> = providers
        .iter()
        .filter(is_other)
        .map(|other| {
            found(format!(
                "provider {id}: `store_address` forwards every call to the gateway that owns this store, so provider \
                 {}, whose engine runs in the gateway, needs a gateway of its own",
                other.id
            ))
        })
        .collect();
    let is_encrypted = address.starts_with("https://");
    let authentication = &settings.authentication;
    let rules = if authentication.is_required() {
        vec![
            (
                !is_encrypted,
                "with [authentication], other gateways reach this one by TLS: write `https://host:port`",
            ),
            (
                settings.tls.is_none(),
                "with [authentication], other gateways reach this one by TLS: configure [server.tls]",
            ),
            (
                settings.peers.is_none(),
                "with [authentication], this gateway needs a client certificate for calls to other gateways: \
                 configure [server.peers]",
            ),
            (
                authentication.proxies.is_empty(),
                "with [authentication], a gateway names the callers of the calls that it forwards: list the subjects \
                 of the certificates of all gateways in `subjects` of [authentication.proxy]",
            ),
        ]
    } else {
        let is_open = is_encrypted || settings.tls.is_some() || !is_loopback(&address);
        vec![
            (
                is_open,
                "without [authentication], calls are forwarded only on this machine and without TLS: write \
                 `http://127.0.0.1:port`, or configure [authentication], [server.tls] and [server.peers]",
            ),
            (
                settings.peers.is_some(),
                "[server.peers] is used only with [authentication]",
            ),
        ]
    };
    let broken = rules.into_iter().filter(|(broken, _)| *broken);
    problems
        .extend(broken.map(|(_, rule)| found(format!("provider {id}: `store_address`: {rule}"))));
    problems
}

/// Whether the host of `http://host:port` is this machine.
fn is_loopback(address: &str) -> bool {
    let host = address.strip_prefix("http://").unwrap_or(address);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The errors of `[authentication]`.
pub(super) fn authentication(
    path: Option<&Path>,
    authentication: &AuthenticationSettings,
) -> Vec<Problem> {
    let jwt = authentication.jwt.as_ref();
    let sign_in = &authentication.sign_in;
    let rules = [
        (
            authentication.reload_interval < SHORTEST_RELOAD,
            "`reload_interval` must be at least 100ms",
        ),
        (
            jwt.is_some_and(|jwt| jwt.refresh < SHORTEST_REFRESH),
            "`jwt.jwks_refresh` must be at least 10s",
        ),
        (
            jwt.is_some_and(|jwt| jwt.rules.leeway > LONGEST_LEEWAY),
            "`jwt.leeway` must be at most 5m",
        ),
        (
            sign_in.idle_timeout < SHORTEST_SESSION || sign_in.lifetime < SHORTEST_SESSION,
            "`sign_in.idle_timeout` and `sign_in.lifetime` must be at least 1m",
        ),
        (
            sign_in.lifetime > LONGEST_SESSION,
            "`sign_in.lifetime` must be at most 30d",
        ),
    ];
    broken(path, "authentication", rules)
}

/// The errors of `[access]`.
pub(super) fn access(path: Option<&Path>, access: &AccessSettings) -> Vec<Problem> {
    let rules = [(
        access.reload_interval < SHORTEST_RELOAD,
        "`reload_interval` must be at least 100ms",
    )];
    broken(path, "access", rules)
}

/// The errors of `[watch]`.
pub(super) fn watch(path: Option<&Path>, watch: &WatchSettings) -> Vec<Problem> {
    let rules = [
        (
            watch.heartbeat < SHORTEST_HEARTBEAT,
            "`heartbeat` must be at least 100ms",
        ),
        (watch.buffer == 0, "`buffer` must be at least 1"),
        (
            watch.buffer > LARGEST_BUFFER,
            "`buffer` must be at most 65536",
        ),
        (watch.max_streams == 0, "`max_streams` must be at least 1"),
        (watch.max_waits == 0, "`max_waits` must be at least 1"),
        (watch.max_topics == 0, "`max_topics` must be at least 1"),
        (
            watch.max_watched_executions == 0,
            "`max_watched_executions` must be at least 1",
        ),
    ];
    broken(path, "watch", rules)
}

/// The errors of `[limits]`, or of the limits of one provider.
pub(super) fn limits(
    path: Option<&Path>,
    section: &str,
    limits: &UpstreamSettings,
) -> Vec<Problem> {
    let rules = [
        (
            limits.max_concurrent == 0,
            "`max_concurrent` must be at least 1",
        ),
        (limits.timeout.is_zero(), "`timeout` must not be 0"),
        (
            limits.multi_provider_timeout.is_zero(),
            "`multi_provider_timeout` must not be 0",
        ),
        (
            limits.breaker_failures == 0,
            "`breaker_failures` must be at least 1",
        ),
        (
            limits.min_poll_interval.is_zero(),
            "`min_poll_interval` must not be 0",
        ),
        (
            limits.health_interval.is_zero(),
            "`health_interval` must not be 0",
        ),
        (
            limits.min_poll_interval > limits.max_poll_interval,
            "`min_poll_interval` must not be longer than `max_poll_interval`",
        ),
    ];
    broken(path, section, rules)
}

fn broken<const N: usize>(
    path: Option<&Path>,
    section: &str,
    rules: [(bool, &'static str); N],
) -> Vec<Problem> {
    let broken = rules.into_iter().filter(|(broken, _)| *broken);
    broken
        .map(|(_, rule)| Problem {
            file: path.map(Path::to_owned),
            place: None,
            message: format!("[{section}] {rule}"),
        })
        .collect()
}
