//! People in browsers: the answers of the sign-in, `/whoami`, and pages that end with their session.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use futures::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use serde_json::json;
use stateway_identity::Identity;
use stateway_identity::sign_in::SignInPage;
use tonic::body::Body;

use super::describe::DescribedBody;
use super::proven::report;
use crate::audit::StreamRefusal;
use crate::authentication::{ProofEnd, StreamProof};

/// How the command line can sign in.
pub(super) const METHODS: &str = "/sign-in/methods";
/// Who sends the request.
pub(super) const WHO: &str = "/whoami";

/// Without authentication there is no sign-in.
pub(super) const NO_METHODS: &str =
    r#"{"authentication":false,"oidc":null,"api_keys":false,"tokens":false}"#;

/// Without authentication there are no sessions.
pub(super) const ANONYMOUS: &str =
    r#"{"subject":"anonymous","roles":[],"tenant":null,"method":"none","permissions":null}"#;

/// Whether a browser loads a page with this request, and shows the answer to a person.
pub(super) fn is_page_load(headers: &HeaderMap) -> bool {
    let mode = headers.get(HeaderName::from_static("sec-fetch-mode"));
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let accepts_html = accepts.is_some_and(|accept| accept.contains("text/html"));
    match mode {
        Some(mode) => mode == "navigate",
        None => accepts_html,
    }
}

/// Whether a browser sends a request, by itself or for a page.
pub(super) fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(HeaderName::from_static("sec-fetch-mode"))
}

/// Whether a page follows what happens. That alone does not keep a session alive.
pub(super) fn is_live_stream(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT);
    accepts.is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"))
}

/// Whether a page stays open and reports changes, whatever its request has asked for.
pub(super) fn is_live<B>(response: &Response<B>) -> bool {
    let content = response.headers().get(CONTENT_TYPE);
    content.is_some_and(|content| content.as_bytes().starts_with(b"text/event-stream"))
}

/// A file of the dashboard that every visitor may have: style, script and icon.
pub(super) fn is_asset(path: &str) -> bool {
    path.starts_with("/assets/")
}

/// The request for the page of the sign-in, as the dashboard gets it.
pub(super) fn page_request(page: SignInPage) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static("/sign-in");
    request.extensions_mut().insert(page);
    request
}

/// Sends a browser to another address.
pub(super) fn redirect(to: &str, cookies: Vec<HeaderValue>) -> Response<DescribedBody> {
    let mut response = Response::new(DescribedBody::new(Body::empty()));
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(LOCATION, to);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The code of a sign-in is in the address.
    let referrer = HeaderName::from_static("referrer-policy");
    headers.insert(referrer, HeaderValue::from_static("no-referrer"));
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
    }
    response
}

/// JSON for programs.
pub(super) fn json_response(text: &str) -> Response<DescribedBody> {
    let body = Body::new(axum::body::Body::from(format!("{text}\n")));
    let mut response = Response::new(DescribedBody::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Who somebody is, and which permissions the access rules give to that identity for something.
pub(super) fn described_identity(identity: &Identity, permissions: &[&str]) -> String {
    let who = json!({
        "subject": &*identity.subject,
        "roles": identity.roles.iter().map(|role| &**role).collect::<Vec<_>>(),
        "tenant": identity.tenant.as_deref(),
        "method": identity.method.as_str(),
        "permissions": permissions,
    });
    who.to_string()
}

/// Ends the stream of a page when the proof of its request ends, and records the reason. The page itself gets no
/// error: its next request gets the reason, or leads to the sign-in.
pub(super) fn page_until_proof_ends(
    response: Response<DescribedBody>,
    proof: StreamProof,
    record: Option<StreamRefusal>,
) -> Response<DescribedBody> {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        DescribedBody::new(Body::new(PageBody {
            body,
            ended: Some(Box::pin(proof.ended())),
            record,
        }))
    })
}

/// The body of a page that ends with the proof of its request.
struct PageBody {
    body: DescribedBody,
    /// None after the end.
    ended: Option<BoxFuture<'static, ProofEnd>>,
    record: Option<StreamRefusal>,
}

impl HttpBody for PageBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let Some(ended) = &mut self.ended else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(end) = ended.as_mut().poll(context) {
            self.ended = None;
            report(&end, self.record.take());
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ended.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        HeaderMap::from_iter(lines.map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        }))
    }

    #[test]
    fn only_what_a_person_sees_leads_to_the_sign_in() {
        let html = ("accept", "text/html,application/xhtml+xml");
        assert!(is_page_load(&headers(&[html])));
        assert!(is_page_load(&headers(&[("sec-fetch-mode", "navigate")])));
        for other in [
            headers(&[]),
            headers(&[("accept", "*/*")]),
            headers(&[html, ("sec-fetch-mode", "cors")]),
            headers(&[("accept", "text/event-stream"), ("sec-fetch-mode", "cors")]),
        ] {
            assert!(!is_page_load(&other), "{other:?}");
        }
        assert!(is_live_stream(&headers(&[("accept", "text/event-stream")])));
        assert!(!is_live_stream(&headers(&[html])));
    }
}
