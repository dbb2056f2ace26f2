//! Which requests of browsers are served: those for a host that is meant to be this gateway, from
//! its own pages or from configured origins.
//!
//! The gateway believes who can reach it. A browser can reach it on behalf of any page that its
//! user visits, so a request that a browser sends for a page of another site is refused, and so is
//! one for a host name that somebody else owns and points at this machine (DNS rebinding).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use thiserror::Error;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The origin of web pages: `https://ops.example.org`, with a port where it is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    text: String,
    host: String,
}

/// A text is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not an origin: write `http://host`, `https://host` or either with `:port`, without a path"
)]
pub struct OriginError(String);

impl Origin {
    /// The origin as browsers write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError(text.to_owned());
        let lower = text.to_ascii_lowercase();
        let (scheme, named) = lower.split_once("://").ok_or_else(wrong)?;
        let own_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return Err(wrong()),
        };
        // A browser leaves out the port of the scheme.
        let named = named.strip_suffix(own_port).unwrap_or(named);
        let authority: Authority = named.parse().map_err(|_| wrong())?;
        let is_plain = !named.contains(['@', '*']) && !authority.host().is_empty();
        if !is_plain || named.ends_with(':') {
            return Err(wrong());
        }
        Ok(Self {
            text: format!("{scheme}://{named}"),
            host: authority.host().to_owned(),
        })
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It names a host that is not this gateway.
    OtherHost,
    /// A browser sent it for a page of another site.
    OtherSite,
}

/// Who sent a request that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sender {
    /// A program, or a page of this gateway.
    Own,
    /// A page of a configured origin, which may read the response.
    Page(HeaderValue),
}

/// The origins whose pages may call, beside the gateway's own.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowedOrigins {
    origins: Vec<Origin>,
    /// The gateway's own origin as browsers see it, if it is configured.
    own: Option<Origin>,
    /// Whether requests may name any host.
    any_host: bool,
}

impl AllowedOrigins {
    pub(super) fn new(origins: Vec<Origin>, own: Option<&Origin>) -> Self {
        Self {
            origins,
            own: own.cloned(),
            any_host: false,
        }
    }

    /// No origins, for a port whose clients may know it by any name.
    pub(super) const fn none_on_any_host() -> Self {
        Self {
            origins: Vec::new(),
            own: None,
            any_host: true,
        }
    }

    /// Whether a page of this allowed origin is a page of the gateway itself.
    pub(super) fn is_own_page<B>(&self, request: &Request<B>, origin: &HeaderValue) -> bool {
        match request.headers().get(SEC_FETCH_SITE) {
            Some(site) => site == "same-origin",
            None => self.is_own(origin),
        }
    }

    fn is_own(&self, origin: &HeaderValue) -> bool {
        let own = self.own.as_ref().map(|own| own.text.as_bytes());
        own.is_some_and(|own| own.eq_ignore_ascii_case(origin.as_bytes()))
    }

    /// Who sent the request, or why it is refused.
    ///
    /// `is_plain_grpc` is true for the content type `application/grpc`. A browser sends that type to
    /// another origin only after a preflight request, and never over HTTP/2 without TLS. A gRPC
    /// client or a proxy may use any host name, so a request of this kind over HTTP/2 without
    /// the headers of a browser is not asked for its host.
    ///
    /// `is_encrypted` is true for TLS. A browser has compared the host name with the certificate then,
    /// so that a name of somebody else's cannot lead here.
    pub(super) fn sender<B>(
        &self,
        request: &Request<B>,
        is_plain_grpc: bool,
        is_encrypted: bool,
    ) -> Result<Sender, Refused> {
        let headers = request.headers();
        let origin = headers.get(ORIGIN);
        let site = headers.get(SEC_FETCH_SITE);
        let is_from_browser = origin.is_some() || site.is_some();
        if !is_from_browser && is_plain_grpc && request.version() == Version::HTTP_2 {
            return Ok(Sender::Own);
        }
        let host = self.host(request, is_encrypted).ok_or(Refused::OtherHost)?;
        if let Some(origin) = origin
            && self.contains(origin)
        {
            return Ok(Sender::Page(origin.clone()));
        }
        let is_own = match (site.map(HeaderValue::as_bytes), origin) {
            // Only the browser itself can set this header.
            (Some(site), _) => matches!(site, b"same-origin" | b"none"),
            (None, Some(origin)) => {
                self.is_own(origin) || is_origin_of(origin, &host, is_encrypted)
            }
            (None, None) => true,
        };
        if is_own || (!is_plain_grpc && is_navigation(request.method(), headers)) {
            Ok(Sender::Own)
        } else {
            Err(Refused::OtherSite)
        }
    }

    /// The host that the request names, if it is a name of this gateway. A request with several
    /// names must have only such names.
    fn host<B>(&self, request: &Request<B>, is_encrypted: bool) -> Option<Authority> {
        let in_target = request.uri().authority().cloned();
        let mut named = request.headers().get_all(HOST).iter();
        let in_header = match named.next() {
            Some(host) => Some(host.to_str().ok()?.parse::<Authority>().ok()?),
            None => None,
        };
        let is_any = is_encrypted || self.any_host;
        let is_ours = |authority: &Authority| is_any || self.is_ours(authority.host());
        let are_ours = named.next().is_none()
            && in_target.as_ref().is_none_or(is_ours)
            && in_header.as_ref().is_none_or(is_ours);
        in_header.or(in_target).filter(|_| are_ours)
    }

    fn is_ours(&self, host: &str) -> bool {
        let is_configured = |origin: &Origin| origin.host.eq_ignore_ascii_case(host);
        is_loopback(host) || self.origins.iter().chain(&self.own).any(is_configured)
    }

    fn contains(&self, origin: &HeaderValue) -> bool {
        let origin = origin.as_bytes();
        let mut known = self.origins.iter();
        known.any(|known| known.text.as_bytes().eq_ignore_ascii_case(origin))
    }
}

/// Whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether this is the origin of pages that were fetched from this host, as this end sees it.
///
/// Without TLS here, a proxy may have had it. With TLS here, a page that came without it is another
/// origin.
fn is_origin_of(origin: &HeaderValue, host: &Authority, is_encrypted: bool) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let plain = origin.strip_prefix("http://").filter(|_| !is_encrypted);
    let Some(named) = plain.or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    named.eq_ignore_ascii_case(host.as_str())
}

/// Somebody follows a link to a page. It changes nothing, and the other site cannot read it.
fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, value: &str| headers.get(name).is_some_and(|said| said == value);
    matches!(*method, Method::GET | Method::HEAD)
        && says(SEC_FETCH_MODE, "navigate")
        && says(SEC_FETCH_DEST, "document")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(version: Version, method: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().version(version).method(method).uri("/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn sender(headers: &[(&str, &str)]) -> Result<Sender, Refused> {
        let configured = vec!["https://ops.example.org".parse().unwrap()];
        let request = asked(Version::HTTP_11, "POST", headers);
        AllowedOrigins::new(configured, None).sender(&request, false, false)
    }

    #[test]
    fn a_program_names_a_loopback_host() {
        for host in [
            "localhost",
            "LOCALHOST:7380",
            "127.0.0.1:7380",
            "127.8.8.8",
            "[::1]:7380",
            "ops.example.org",
            "ops.example.org:8443",
        ] {
            assert_eq!(sender(&[("host", host)]), Ok(Sender::Own), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "a b",
        ] {
            let refused = Err(Refused::OtherHost);
            assert_eq!(sender(&[("host", host)]), refused, "{host}");
        }
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(sender(&twice), Err(Refused::OtherHost));
        assert_eq!(sender(&[]), Err(Refused::OtherHost));
    }

    #[test]
    fn a_target_with_a_foreign_host_is_refused_whatever_the_header_says() {
        let mut request = asked(Version::HTTP_11, "GET", &[("host", "localhost")]);
        *request.uri_mut() = "http://evil.example/x".parse().unwrap();
        let refused = AllowedOrigins::default().sender(&request, false, false);
        assert_eq!(refused, Err(Refused::OtherHost));
    }

    #[test]
    fn only_own_pages_and_configured_origins_are_served() {
        let with = |more: &[(&'static str, &'static str)]| {
            let mut headers = vec![("host", "localhost:7380")];
            headers.extend_from_slice(more);
            sender(&headers)
        };
        let configured = HeaderValue::from_static("https://ops.example.org");
        let page = Ok(Sender::Page(configured));
        assert_eq!(with(&[("origin", "https://ops.example.org")]), page);
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(with(&[("origin", "https://ops.example.org"), cross]), page);
        for own in [
            [("origin", "http://localhost:7380")].as_slice(),
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            // A proxy changed the host on the way.
            &[
                ("origin", "https://proxy.example"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert_eq!(with(own), Ok(Sender::Own), "{own:?}");
        }
        for foreign in [
            [("origin", "http://evil.example")].as_slice(),
            &[("origin", "null")],
            &[("origin", "http://localhost:3000")],
            &[("origin", "http://ops.example.org")],
            &[("origin", "https://ops.example.org.evil.example")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("origin", "http://localhost:7380"), cross],
        ] {
            assert_eq!(with(foreign), Err(Refused::OtherSite), "{foreign:?}");
        }
    }

    #[test]
    fn a_link_to_a_page_may_be_followed_and_nothing_else() {
        let link = [
            ("host", "localhost"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let by = |method, headers: &[(&str, &str)], grpc| {
            let request = asked(Version::HTTP_11, method, headers);
            AllowedOrigins::default().sender(&request, grpc, false)
        };
        assert_eq!(by("GET", &link, false), Ok(Sender::Own));
        assert_eq!(by("POST", &link, false), Err(Refused::OtherSite));
        assert_eq!(by("GET", &link, true), Err(Refused::OtherSite));
        let framed = [link[0], link[1], link[2], ("sec-fetch-dest", "iframe")];
        assert_eq!(by("GET", &framed, false), Err(Refused::OtherSite));
    }

    #[test]
    fn a_grpc_client_over_http_2_may_use_any_name_and_a_browser_may_not() {
        let over = |headers: &[(&str, &str)], grpc| {
            let mut request = asked(Version::HTTP_2, "POST", headers);
            *request.uri_mut() = "http://gateway.internal/x".parse().unwrap();
            AllowedOrigins::default().sender(&request, grpc, false)
        };
        assert_eq!(over(&[], true), Ok(Sender::Own));
        assert_eq!(over(&[], false), Err(Refused::OtherHost));
        for browser in [
            ("origin", "http://gateway.internal"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(over(&[browser], true), Err(Refused::OtherHost));
        }
    }

    #[test]
    fn over_tls_any_host_is_served_and_only_its_own_https_pages() {
        let over_tls = |headers: &[(&str, &str)]| {
            let mut all = vec![("host", "stateway.example.org")];
            all.extend_from_slice(headers);
            let request = asked(Version::HTTP_11, "POST", &all);
            AllowedOrigins::default().sender(&request, false, true)
        };
        assert_eq!(over_tls(&[]), Ok(Sender::Own));
        let own = [("origin", "https://stateway.example.org")];
        assert_eq!(over_tls(&own), Ok(Sender::Own));
        for foreign in [
            ("origin", "http://stateway.example.org"),
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert_eq!(over_tls(&[foreign]), Err(Refused::OtherSite), "{foreign:?}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_a_host_and_nothing_else() {
        let origin = |text: &str| text.parse::<Origin>().map(|origin| origin.text);
        assert_eq!(
            origin("HTTPS://Ops.Example.org:443").unwrap(),
            "https://ops.example.org"
        );
        assert_eq!(
            origin("http://localhost:3000").unwrap(),
            "http://localhost:3000"
        );
        for wrong in [
            "",
            "*",
            "null",
            "ops.example.org",
            "https://",
            "https://*.example.org",
            "https://a/",
            "https://a/b",
            "ftp://a",
            "https://u@a",
            "https://a:",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }
}
