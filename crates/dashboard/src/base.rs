//! The path under which a proxy serves the pages, such as `/stateway`.
//!
//! The proxy removes the path from requests and names it in `x-forwarded-prefix`. Pages are written without
//! it; it is put before their addresses when they are sent. Every quote in a text of others is escaped
//! (`maud`), so ` href="/` is always an address of ours.

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

const HEADER: &str = "x-forwarded-prefix";
/// The longest path.
const LONGEST: usize = 200;
/// The attributes that hold addresses.
const ATTRIBUTES: [&str; 4] = [" href=\"/", " action=\"/", " src=\"/", " data-live=\"/"];

/// The path before every address; empty without a proxy that serves the pages under one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BasePath(String);

impl BasePath {
    /// The path in the header of the proxy. A path that could lead to another site or end an attribute is ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let named = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let path = named.unwrap_or_default().trim_end_matches('/');
        let plain = |symbol: char| {
            symbol.is_ascii_alphanumeric() || matches!(symbol, '/' | '-' | '_' | '.' | '~')
        };
        let is_path = path.starts_with('/') && !path.contains("//") && !path.contains("..");
        if is_path && path.len() <= LONGEST && path.chars().all(plain) {
            Self(path.to_owned())
        } else {
            Self::default()
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// An address without the path: the browser names pages with it.
    pub(crate) fn within<'a>(&self, address: &'a str) -> &'a str {
        let rest = address.strip_prefix(&self.0);
        rest.filter(|rest| rest.starts_with('/')).unwrap_or(address)
    }

    /// Markup with the path before its addresses.
    pub(crate) fn markup(&self, html: &str) -> String {
        let mut html = html.to_owned();
        if self.0.is_empty() {
            return html;
        }
        for attribute in ATTRIBUTES {
            let start = attribute.trim_end_matches('/');
            html = html.replace(attribute, &format!("{start}{}/", self.0));
        }
        html
    }

    /// An answer with the path before its addresses.
    pub(crate) async fn apply(&self, mut response: Response) -> Response {
        if self.0.is_empty() {
            return response;
        }
        let location = response.headers().get(LOCATION);
        if let Some(to) = location.and_then(|to| to.to_str().ok())
            && let Ok(to) = HeaderValue::from_str(&self.address(to))
        {
            response.headers_mut().insert(LOCATION, to);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if !is_page {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(CONTENT_LENGTH);
        // Pages are made here, whole: their size is bounded by what they show.
        let html = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let html = self.markup(&String::from_utf8_lossy(&html));
        Response::from_parts(parts, Body::from(html))
    }

    /// An address of ours with the path before it, unless it has it: the browser names pages with it.
    fn address(&self, to: &str) -> String {
        let rest = to.strip_prefix(&self.0);
        let has_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        if !to.starts_with('/') || has_it {
            return to.to_owned();
        }
        format!("{}{to}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(value: &str) -> BasePath {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_str(value).unwrap());
        BasePath::of(&headers)
    }

    #[test]
    fn addresses_of_ours_get_the_path() {
        let html = r##"<a href="/x"></a><a href="#y"></a><form action="/z" data-live="/l?a=/b">"##;
        let wanted = r##"<a href="/ops/x"></a><a href="#y"></a><form action="/ops/z" data-live="/ops/l?a=/b">"##;
        assert_eq!(base("/ops/").markup(html), wanted);
        assert_eq!(BasePath::default().markup(html), html);
    }

    #[test]
    fn a_text_of_others_that_looks_like_an_address_stays_as_it_is() {
        let page = maud::html! { p title=" href=\"/x" { "<a href=\"/x\">" } }.into_string();
        assert_eq!(base("/ops").markup(&page), page);
    }

    #[test]
    fn the_path_is_put_before_an_address_once() {
        let base = base("/ops");
        assert_eq!(base.address("/executions?a=b"), "/ops/executions?a=b");
        assert_eq!(base.address("/ops/executions"), "/ops/executions");
        assert_eq!(base.address("/opsy"), "/ops/opsy");
        assert_eq!(base.address("https://elsewhere/"), "https://elsewhere/");
        assert_eq!(base.within("/ops/inbox"), "/inbox");
        assert_eq!(base.within("/inbox"), "/inbox");
    }

    #[test]
    fn a_path_that_could_do_harm_counts_for_nothing() {
        for wrong in [
            "//evil.example",
            "/a\"><script>",
            "ops",
            "/a/../b",
            "/a//b",
            "/",
        ] {
            assert_eq!(base(wrong), BasePath::default(), "{wrong}");
        }
    }
}
