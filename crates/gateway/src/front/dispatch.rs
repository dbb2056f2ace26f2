//! Where a request goes: to the gRPC services, through the translation of gRPC-Web to the same
//! services, or to the pages.
//!
//! The content type alone decides. A page of another site can make a browser send `text/plain` or a
//! form without asking; such a request never comes near a service. `application/grpc` and
//! `application/grpc-web` need a preflight request first, which is refused unless the origin is
//! configured.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CACHE_CONTROL, CONTENT_TYPE, Entry, HOST, REFRESH,
    RETRY_AFTER, SET_COOKIE, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use stateway_identity::Identity;
use tonic::Code;
use tonic::body::Body;
use tonic::service::Routes;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, Service};

use super::describe::{Described, DescribedBody, described};
use super::origin::{AllowedOrigins, Origin, Refused, Sender};
use super::peer::Link;
use super::people;
use super::services::Services;
use crate::access::AccessControl;
use crate::audit::Auditor;
use crate::authentication::{
    Authentication, CookieJar, Identified, PeerCertificate, SignInAnswer, StreamProof,
    Unauthenticated, is_sign_in, name_caller,
};
use crate::quota::{CallKind, Exceeded, MeteredBody, QuotaSettings, Quotas};
use stateway_identity::sign_in::{SignInPage, SignedIn};

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
    /// None if callers prove nothing: everything is allowed then.
    access: Option<Arc<AccessControl>>,
    audit: Option<Arc<Auditor>>,
    /// None if no method of authentication is configured: callers have no identity then.
    quotas: Option<Quotas>,
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
        (authentication, access): (Option<Arc<Authentication>>, Option<Arc<AccessControl>>),
        audit: Option<Arc<Auditor>>,
        quotas: QuotaSettings,
    ) -> Self {
        let people = authentication.as_ref().and_then(|it| it.people());
        let origins = AllowedOrigins::new(origins, people.and_then(|it| it.public_url()));
        Self {
            quotas: authentication.is_some().then(|| Quotas::new(quotas)),
            audit,
            web: GrpcWebLayer::new().layer(Described::new(services.clone())),
            grpc: services,
            pages: pages.prepare(),
            origins,
            authentication,
            access,
        }
    }

    /// The front of the port for probes and scrapers, without authentication. Beyond loopback, clients
    /// know the port by addresses and names that are not configured here.
    pub(crate) fn for_monitoring(services: Services, pages: Routes, is_loopback: bool) -> Self {
        let quotas = QuotaSettings::default();
        let front = Self::new(services, pages, Vec::new(), (None, None), None, quotas);
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
        link: &Arc<Link>,
    ) -> Response<DescribedBody> {
        request.extensions_mut().insert(link.peer);
        let is_secure = link.is_encrypted() || is_forwarded_over_tls(request.headers());
        let mut response = self.served(request, link).await;
        if is_secure {
            secure_cookies(response.headers_mut());
        }
        response
    }

    async fn served(&self, request: Request<Body>, link: &Arc<Link>) -> Response<DescribedBody> {
        let kind = kind(request.headers());
        let is_plain_grpc = kind == Kind::Grpc;
        match self
            .origins
            .sender(&request, is_plain_grpc, link.is_encrypted())
        {
            Ok(Sender::Own) => self.authenticated(kind, request, link, true).await,
            Ok(Sender::Page(origin)) if is_preflight(&request) => {
                preflight(&request, origin).map(DescribedBody::new)
            }
            Ok(Sender::Page(origin)) => {
                let is_own = self.origins.is_own_page(&request, &origin);
                let mut response = self.authenticated(kind, request, link, is_own).await;
                share(response.headers_mut(), origin);
                response
            }
            Err(Refused::OtherHost) => {
                self.record(&request, Code::PermissionDenied, "OTHER_HOST")
                    .await;
                refuse(StatusCode::MISDIRECTED_REQUEST, OTHER_HOST)
            }
            Err(Refused::OtherSite) => {
                self.record(&request, Code::PermissionDenied, "OTHER_SITE")
                    .await;
                refuse(StatusCode::FORBIDDEN, OTHER_SITE)
            }
        }
    }

    /// Answers an authenticated request. `is_own` is false for a page of another
    /// origin, which has no part in the sessions of this one.
    async fn authenticated(
        &self,
        kind: Kind,
        mut request: Request<Body>,
        link: &Arc<Link>,
        is_own: bool,
    ) -> Response<DescribedBody> {
        let path = request.uri().path();
        let asks = (kind == Kind::Page).then_some(path);
        let Some(authentication) = &self.authentication else {
            return match asks {
                Some(people::METHODS) => people::json_response(people::NO_METHODS),
                Some(people::WHO) => people::json_response(people::ANONYMOUS),
                _ => self.route(kind, request).await,
            };
        };
        if asks == Some(people::METHODS) {
            return people::json_response(authentication.sign_in_methods());
        }
        let sign_in = authentication.people().filter(|_| is_own);
        let is_public = sign_in.is_some() && asks.is_some_and(people::is_asset);
        if is_probe(kind, path) || is_public {
            authentication.remove_proofs(request.headers_mut());
            return self.route(kind, request).await;
        }
        let jar = sign_in
            .filter(|_| kind != Kind::Grpc)
            .map(|sign_in| CookieJar {
                is_secure: sign_in.is_secure(link.is_encrypted()),
            });
        if let (Some(sign_in), Some(jar)) = (sign_in, jar)
            && asks.is_some_and(is_sign_in)
        {
            let (parts, body) = request.into_parts();
            let mut asked = Request::from_parts(parts.clone(), Body::empty());
            let request = Request::from_parts(parts, body);
            let answer = authentication.answer_sign_in(sign_in, request, jar).await;
            if let Some((reason, owner)) = answer.refusal() {
                if let Some(owner) = owner {
                    asked.extensions_mut().insert(owner);
                }
                self.record(&asked, Code::Unauthenticated, reason).await;
            }
            return self.answer_sign_in(answer).await;
        }
        let identified = match link.subject() {
            Ok(subject) => {
                authentication
                    .identify(request.headers(), subject, jar)
                    .await
            }
            Err(refused) => Err(refused),
        };
        // What stays open is checked again. A start can wait for the end of its execution.
        let stays_open = kind == Kind::Page || CallKind::of(path) != CallKind::Plain;
        let proof = identified.as_ref().ok().filter(|_| stays_open);
        let proof = proof.map(|identified| {
            let (headers, identity) = (request.headers(), identified.identity.clone());
            authentication.stream_proof(headers, jar, link.clone(), identity)
        });
        // Neither a service nor a page sees a proof, or a name that this gateway has not given.
        authentication.remove_proofs(request.headers_mut());
        match identified {
            Ok(identified) => {
                link.prove();
                self.identified(kind, request, identified, jar, proof).await
            }
            Err(refused) => {
                let (peer, reason) = (link.peer.0, refused.reason());
                tracing::debug!(%peer, reason, "request refused: {refused}");
                // For the record. No service gets this request.
                if let Some(owner) = refused.owner() {
                    request.extensions_mut().insert(owner);
                }
                self.record(&request, refused.status().code(), reason).await;
                let headers = request.headers();
                match sign_in {
                    Some(sign_in) if kind == Kind::Page && people::is_page_load(headers) => {
                        let to = sign_in.address(request.method(), request.uri());
                        // A session that is not accepted must not be combined with another proof.
                        let useless = jar.filter(|_| refused.is_about_session());
                        let removed = useless.map(CookieJar::remove_session);
                        people::redirect(&to, removed.into_iter().collect())
                    }
                    _ => {
                        // A browser that is asked for a password asks the person, whatever the page does.
                        let is_asked = sign_in.is_none() || !people::is_browser(headers);
                        unauthenticated(kind, &refused, authentication, is_asked)
                    }
                }
            }
        }
    }

    /// Answers a request whose sender is known.
    async fn identified(
        &self,
        kind: Kind,
        mut request: Request<Body>,
        identified: Identified,
        jar: Option<CookieJar>,
        proof: Option<StreamProof>,
    ) -> Response<DescribedBody> {
        let Identified {
            identity, session, ..
        } = identified;
        let is_page = kind == Kind::Page;
        if is_page && request.uri().path() == people::WHO {
            let access = self.access.as_ref();
            let permissions = access.map(|access| access.permissions(&identity));
            let described = people::described_identity(&identity, &permissions.unwrap_or_default());
            return people::json_response(&described);
        }
        if is_page {
            name_caller(request.headers_mut(), &identity);
            if let Some(access) = &self.access {
                request.extensions_mut().insert(access.visitor(&identity));
            }
        }
        request.extensions_mut().insert(identity.clone());
        if session.is_some() {
            request.extensions_mut().insert(SignedIn);
        }
        let is_live = people::is_live_stream(request.headers());
        let (proof, page_proof) = if is_page {
            (None, proof)
        } else {
            (proof, None)
        };
        if let Some(proof) = proof {
            request.extensions_mut().insert(proof);
        }
        let audit = self.audit.clone().filter(|_| is_page);
        let record = audit.map(|audit| audit.stream_refusal(&request));
        let mut response = self.within_quota(kind, request, &identity).await;
        if let (Some(session), Some(jar), Some(authentication), false) =
            (session, jar, &self.authentication, is_live)
        {
            let sign_in = authentication.people();
            if let Some(cookie) = sign_in.and_then(|sign_in| sign_in.renewal(&session, jar)) {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
        }
        match page_proof {
            Some(proof) => people::page_until_proof_ends(response, proof, record),
            None => response,
        }
    }

    /// Answers a request of an identity that has not used up its quota.
    async fn within_quota(
        &self,
        kind: Kind,
        mut request: Request<Body>,
        identity: &Identity,
    ) -> Response<DescribedBody> {
        let Some(quotas) = &self.quotas else {
            return self.route(kind, request).await;
        };
        let called = CallKind::of(request.uri().path());
        let permit = match quotas.admit(identity, called, Instant::now()) {
            Ok(permit) => permit,
            Err(exceeded) => {
                self.record(&request, Code::ResourceExhausted, exceeded.reason)
                    .await;
                return beyond_quota(kind, &exceeded);
            }
        };
        // Calls of pages do not pass this place.
        if kind == Kind::Page || called == CallKind::Start {
            request.extensions_mut().insert(permit.caller());
        }
        let audit = self.audit.clone().filter(|_| kind == Kind::Page);
        let record = audit.map(|audit| audit.stream_refusal(&request));
        let is_stream = called == CallKind::Stream;
        let metered = permit.clone();
        let request = request.map(|body| Body::new(MeteredBody::new(body, metered, is_stream)));
        let response = self.route(kind, request).await;
        if kind == Kind::Page
            && people::is_live(&response)
            && let Err(exceeded) = permit.become_stream()
        {
            if let Some(record) = record {
                record.write(Code::ResourceExhausted, exceeded.reason);
            }
            return beyond_quota(kind, &exceeded);
        }
        response.map(|body| body.keeping(permit))
    }

    async fn answer_sign_in(&self, answer: SignInAnswer) -> Response<DescribedBody> {
        match answer {
            SignInAnswer::Redirect { to, cookies } => people::redirect(&to, cookies),
            SignInAnswer::Page {
                status,
                page,
                cookies,
                ..
            } => self.sign_in_page(status, *page, cookies).await,
            SignInAnswer::Method(method) => {
                let text = format!("This address takes {method}.\n");
                let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, text);
                let method = HeaderValue::from_static(method);
                response.headers_mut().insert(ALLOW, method);
                response
            }
        }
    }

    /// Records a request that is refused here.
    fn record<'a>(
        &'a self,
        request: &Request<Body>,
        code: Code,
        reason: &str,
    ) -> impl Future<Output = ()> + Send + use<'a> {
        let audit = self.audit.as_ref();
        let recorded = audit.map(|audit| audit.refused(request, code, reason));
        async move {
            if let Some(recorded) = recorded {
                recorded.await;
            }
        }
    }

    /// The page for people who are not signed in.
    async fn sign_in_page(
        &self,
        status: StatusCode,
        page: SignInPage,
        cookies: Vec<HeaderValue>,
    ) -> Response<DescribedBody> {
        let leads_on = page.provider_sign_out.clone();
        let mut response = self.route(Kind::Page, people::page_request(page)).await;
        if response.status().is_success() {
            *response.status_mut() = status;
        }
        let headers = response.headers_mut();
        for cookie in cookies {
            headers.append(SET_COOKIE, cookie);
        }
        // A redirect would not do: the policy of the pages lets no form lead to another site.
        let refresh = leads_on.map(|to| HeaderValue::from_str(&format!("0; url={to}")));
        if let Some(Ok(refresh)) = refresh {
            headers.insert(REFRESH, refresh);
        }
        response
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

/// The response to a request that is not authenticated.
fn unauthenticated(
    kind: Kind,
    refused: &Unauthenticated,
    authentication: &Authentication,
    is_asked: bool,
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
            headers.insert(WWW_AUTHENTICATE, authentication.challenge(is_asked));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
    }
}

/// The response to a request beyond a quota.
fn beyond_quota(kind: Kind, exceeded: &Exceeded) -> Response<DescribedBody> {
    match kind {
        Kind::Grpc => described(exceeded.status().into_http()),
        Kind::GrpcWeb => {
            let web = HeaderValue::from_static("application/grpc-web+proto");
            let mut response = described(exceeded.status().into_http());
            response.headers_mut().insert(CONTENT_TYPE, web);
            response
        }
        Kind::Page => {
            let text = format!("{} ({}).\n", exceeded.text(), exceeded.reason);
            let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, text);
            let seconds = exceeded.pause.as_secs() + 1;
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
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

/// Whether a proxy reports that the browser uses TLS. The header is not verified, which is safe: it can only add
/// `Secure` to a cookie.
fn is_forwarded_over_tls(headers: &HeaderMap) -> bool {
    let scheme = headers.get("x-forwarded-proto");
    scheme.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

/// A cookie that was set over TLS is never sent without it.
fn secure_cookies(headers: &mut HeaderMap) {
    if let Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE) {
        for cookie in cookies.iter_mut() {
            if cookie.as_bytes().ends_with(b"; Secure") {
                continue;
            }
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
        for cookie in ["a=1; HttpOnly", "b=2", "c=3; Secure"] {
            headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
        }
        secure_cookies(&mut headers);
        let cookies: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
        assert_eq!(
            cookies,
            ["a=1; HttpOnly; Secure", "b=2; Secure", "c=3; Secure"]
        );
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
