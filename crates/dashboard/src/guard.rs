//! What every request and every answer of the pages goes through: who may send a form, and the
//! headers that keep a page from doing what it was not made for.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::base::BasePath;
use crate::problem::Problem;

/// No script, style, image or frame but our own, and no form to elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

const FIXED: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// Refuses forms of other sites; sets the headers of every answer.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let base = BasePath::of(request.headers());
    let response = if reads || is_ours(request.headers()) {
        next.run(request).await
    } else {
        foreign().into_response()
    };
    let mut response = base.apply(response).await;
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether a form was sent from a page of this dashboard. A browser reports that in `Sec-Fetch-Site`, whatever
/// proxies there are on the way; an older one in `Origin`.
fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let (Some(origin), Some(host)) = (text(ORIGIN), text(HOST)) else {
        return false;
    };
    let named = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    named == Some(host)
}

fn foreign() -> Problem {
    Problem::forbidden(
        "This form was not sent from a page of this gateway.",
        "Open the page and send the form again. Programs use the API, not the pages.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        is_ours(&headers.collect())
    }

    #[test]
    fn only_a_page_of_the_same_origin_sends_forms() {
        assert!(ours(&[("sec-fetch-site", "same-origin")]));
        assert!(ours(&[
            ("origin", "http://localhost:7380"),
            ("host", "localhost:7380")
        ]));
        assert!(!ours(&[("host", "localhost:7380")]));
        assert!(!ours(&[("origin", "null"), ("host", "localhost:7380")]));
        assert!(!ours(&[
            ("origin", "http://localhost:1"),
            ("host", "localhost:7380")
        ]));
        for site in ["cross-site", "same-site", "none", ""] {
            let both = [
                ("sec-fetch-site", site),
                ("origin", "http://localhost:7380"),
                ("host", "localhost:7380"),
            ];
            assert!(!ours(&both), "{site}");
        }
    }
}
