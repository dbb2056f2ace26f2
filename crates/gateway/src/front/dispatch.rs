//! Where a request goes: to the gRPC services, through the translation of gRPC-Web to the same
//! services, or to the pages.
//!
//! The content type alone decides. A page of another site can make a browser send `text/plain` or a
//! form without asking; such a request never comes near a service. `application/grpc` and
//! `application/grpc-web` need a preflight request first, which is refused unless the origin is
//! configured.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CACHE_CONTROL, CONTENT_TYPE, Entry, HOST, SET_COOKIE,
    VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use tonic::body::Body;
use tonic::service::Routes;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, Service};

use super::describe::{Described, DescribedBody, described};
use super::origin::{AllowedOrigins, Origin, Refused, Sender};
use super::peer::Link;
use super::services::Services;
use crate::authentication::{Authentication, Unauthenticated, name_caller, remove_proofs};

const OTHER_HOST: &str = "This gateway answers to loopback names (localhost, 127.0.0.1, [::1]) and to the hosts of \
     `server.allowed_origins`. A proxy in front of it must set Host to one of them.\n";
const OTHER_SITE: &str = "A page of another site sent this request. Pages may call only from the origins in \
     `server.allowed_origins`.\n";
const NOT_GRPC: &str =
    "gRPC methods take the content types application/grpc and application/grpc-web.\n";
const HTTP_2_ONLY: &str =
    "gRPC needs HTTP/2. Use the content type application/grpc-web over HTTP/1.1.\n";
const POST_ONLY: &str = "gRPC methods take POST.\n";

/// What a page of a configured origin may read of a response beside its body.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin, x-request-id");

/// How long a browser may remember the answer to a preflight request, in seconds.
const PREFLIGHT_LIFETIME: HeaderValue = HeaderValue::from_static("600");

/// The services and pages of one port.
pub(crate) struct Front {
    grpc: Services,
    web: GrpcWebService<Described<Services>>,
    pages: Routes,
    origins: AllowedOrigins,
    /// None if no method is configured: the headers of a request are believed then.
    authentication: Option<Arc<Authentication>>,
}

/// What a request is, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Grpc,
    GrpcWeb,
    Page,
}

impl Front {
    pub(crate) fn new(
        services: Services,
        pages: Routes,
        origins: Vec<Origin>,
        authentication: Option<Arc<Authentication>>,
    ) -> Self {
        Self {
            authentication,
            web: GrpcWebLayer::new().layer(Described::new(services.clone())),
            grpc: services,
            pages: pages.prepare(),
            origins: AllowedOrigins::new(origins),
        }
    }

    /// The front of the port for probes and scrapers, without authentication. Beyond loopback, clients
    /// know the port by addresses and names that are not configured here.
    pub(crate) fn for_monitoring(services: Services, pages: Routes, is_loopback: bool) -> Self {
        let front = Self::new(services, pages, Vec::new(), None);
        let origins = if is_loopback {
            AllowedOrigins::default()
        } else {
            AllowedOrigins::none_on_any_host()
        };
        Self { origins, ..front }
    }

    /// Answers a request.
    pub(super) async fn answer(
        &self,
        mut request: Request<Body>,
        link: &Link,
    ) -> Response<DescribedBody> {
        request.extensions_mut().insert(link.peer);
        let mut response = self.served(request, link).await;
        if link.is_encrypted() {
            secure_cookies(response.headers_mut());
        }
        response
    }

    async fn served(&self, request: Request<Body>, link: &Link) -> Response<DescribedBody> {
        let kind = kind(request.headers());
        let is_plain_grpc = kind == Kind::Grpc;
        match self
            .origins
            .sender(&request, is_plain_grpc, link.is_encrypted())
        {
            Ok(Sender::Own) => self.authenticated(kind, request, link).await,
            Ok(Sender::Page(origin)) if is_preflight(&request) => {
                preflight(&request, origin).map(DescribedBody::new)
            }
            Ok(Sender::Page(origin)) => {
                let mut response = self.authenticated(kind, request, link).await;
                share(response.headers_mut(), origin);
                response
            }
            Err(Refused::OtherHost) => refuse(StatusCode::MISDIRECTED_REQUEST, OTHER_HOST),
            Err(Refused::OtherSite) => refuse(StatusCode::FORBIDDEN, OTHER_SITE),
        }
    }

    /// Answers a request whose sender has proved who it is.
    async fn authenticated(
        &self,
        kind: Kind,
        mut request: Request<Body>,
        link: &Link,
    ) -> Response<DescribedBody> {
        let Some(authentication) = &self.authentication else {
            return self.route(kind, request).await;
        };
        if is_probe(kind, request.uri().path()) {
            remove_proofs(request.headers_mut());
            return self.route(kind, request).await;
        }
        let identified = match link.subject() {
            Ok(subject) => authentication.identify(request.headers(), subject).await,
            Err(refused) => Err(refused),
        };
        // Neither a service nor a page sees a proof, or a name that this gateway has not given.
        remove_proofs(request.headers_mut());
        match identified {
            Ok(identity) => {
                if kind == Kind::Page {
                    name_caller(request.headers_mut(), &identity);
                }
                request.extensions_mut().insert(identity);
                self.route(kind, request).await
            }
            Err(refused) => {
                let (peer, reason) = (link.peer.0, refused.reason());
                tracing::debug!(%peer, reason, "request refused: {refused}");
                unauthenticated(kind, &refused, authentication)
            }
        }
    }

    async fn route(&self, kind: Kind, mut request: Request<Body>) -> Response<DescribedBody> {
        if kind != Kind::Page && request.method() != Method::POST {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, POST_ONLY);
            let post = HeaderValue::from_static("POST");
            response.headers_mut().insert(ALLOW, post);
            return response;
        }
        let answered = match kind {
            Kind::Grpc if request.version() < Version::HTTP_2 => {
                return refuse(StatusCode::HTTP_VERSION_NOT_SUPPORTED, HTTP_2_ONLY);
            }
            Kind::Grpc => return described(infallible(self.grpc.answer(request).await)),
            Kind::GrpcWeb => self.web.clone().call(request).await,
            Kind::Page => {
                name_host(&mut request);
                self.pages.clone().call(request).await
            }
        };
        // Pages have no trailers, and those of gRPC-Web were described before they became data.
        infallible(answered).map(DescribedBody::new)
    }
}

/// Whether a request asks only whether the gateway works. Probes have no credentials.
fn is_probe(kind: Kind, path: &str) -> bool {
    match kind {
        Kind::Page => path == "/healthz",
        Kind::Grpc | Kind::GrpcWeb => path.starts_with("/grpc.health.v1.Health/"),
    }
}

/// The response to a request whose sender has not proved who it is.
fn unauthenticated(
    kind: Kind,
    refused: &Unauthenticated,
    authentication: &Authentication,
) -> Response<DescribedBody> {
    let web = HeaderValue::from_static("application/grpc-web+proto");
    match kind {
        Kind::Grpc => described(refused.status().into_http()),
        Kind::GrpcWeb => {
            let mut response = described(refused.status().into_http());
            response.headers_mut().insert(CONTENT_TYPE, web);
            response
        }
        Kind::Page => {
            let text = format!("{refused} ({}).\n{}\n", refused.reason(), refused.hint());
            let mut response = refuse(StatusCode::UNAUTHORIZED, text);
            let headers = response.headers_mut();
            headers.insert(WWW_AUTHENTICATE, authentication.challenge());
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
    }
}

/// HTTP/2 names the host in `:authority`, which browsers use over TLS. The pages read `Host`.
fn name_host(request: &mut Request<Body>) {
    let authority = request.uri().authority().map(|name| name.as_str());
    let host = authority.and_then(|name| HeaderValue::from_str(name).ok());
    if let (Some(host), false) = (host, request.headers().contains_key(HOST)) {
        request.headers_mut().insert(HOST, host);
    }
}

/// A cookie that was set over TLS is never sent without it.
fn secure_cookies(headers: &mut HeaderMap) {
    if let Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE) {
        for cookie in cookies.iter_mut() {
            let secure = [cookie.as_bytes(), b"; Secure"].concat();
            if let Ok(secure) = HeaderValue::from_bytes(&secure) {
                *cookie = secure;
            }
        }
    }
}

fn infallible<T>(answered: Result<T, Infallible>) -> T {
    answered.unwrap_or_else(|never| match never {})
}

/// The answer to a path that has no page.
pub(crate) fn no_page(method: &Method, path: &str) -> (StatusCode, &'static str) {
    // `/package.Service/Method`.
    let mut segments = path.split('/').skip(1);
    let is_service = segments.next().is_some_and(|name| name.contains('.'));
    if is_service && segments.count() == 1 && method == Method::POST {
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_GRPC)
    } else {
        (StatusCode::NOT_FOUND, "This gateway has no such page.\n")
    }
}

fn kind(headers: &HeaderMap) -> Kind {
    let Some(content_type) = headers.get(CONTENT_TYPE) else {
        return Kind::Page;
    };
    let Some(rest) = content_type.as_bytes().strip_prefix(b"application/grpc") else {
        return Kind::Page;
    };
    // The end of a name, a subtype (`+proto`) or a parameter.
    let is_end = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';'));
    let web = rest.strip_prefix(b"-web");
    let web = web.map(|rest| rest.strip_prefix(b"-text").unwrap_or(rest));
    if is_end(rest) {
        Kind::Grpc
    } else if web.is_some_and(is_end) {
        Kind::GrpcWeb
    } else {
        Kind::Page
    }
}

fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Lets a page of a configured origin call.
fn preflight<B>(request: &Request<B>, origin: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    share(headers, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("POST"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_LIFETIME);
    if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

/// Lets a page of a configured origin read a response.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

fn refuse(status: StatusCode, text: impl Into<String>) -> Response<DescribedBody> {
    let body = Body::new(axum::body::Body::from(text.into()));
    let mut response = Response::new(DescribedBody::new(body));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(content_type: &'static str) -> Kind {
        let value = HeaderValue::from_static(content_type);
        kind(&HeaderMap::from_iter([(CONTENT_TYPE, value)]))
    }

    #[test]
    fn only_the_content_types_of_grpc_reach_the_services() {
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;a=b",
        ] {
            assert_eq!(kind_of(grpc), Kind::Grpc, "{grpc}");
        }
        for web in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ] {
            assert_eq!(kind_of(web), Kind::GrpcWeb, "{web}");
        }
        for page in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=application/grpc",
            "text/plain;application/grpc",
            "application/grpcx",
            "application/grpc-webx",
            "application/grpc-other",
        ] {
            assert_eq!(kind_of(page), Kind::Page, "{page}");
        }
        assert_eq!(kind(&HeaderMap::new()), Kind::Page);
    }

    #[test]
    fn cookies_over_tls_are_secure() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1; HttpOnly", "b=2"] {
            headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
        }
        secure_cookies(&mut headers);
        let cookies: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; HttpOnly; Secure", "b=2; Secure"]);
    }

    #[test]
    fn a_method_with_another_content_type_is_told_the_right_one() {
        let status = |method, path| no_page(method, path).0;
        let method = "/stateway.v1.Executions/GetExecution";
        assert_eq!(
            status(&Method::POST, method),
            StatusCode::UNSUPPORTED_MEDIA_TYPE
        );
        assert_eq!(status(&Method::GET, method), StatusCode::NOT_FOUND);
        assert_eq!(
            status(&Method::POST, "/executions/x"),
            StatusCode::NOT_FOUND
        );
    }
}
