//! Cookies: read from a request, written to an answer. Values are plain words, encoded where needed.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

/// The value of a cookie, as it came.
pub(crate) fn read<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// A cookie that no script reads and no other site sends. Without a lifetime it ends with the
/// browser; one of zero ends it now.
pub(crate) fn write(name: &str, value: &str, seconds: Option<u32>) -> HeaderValue {
    let age = seconds.map(|seconds| format!("; Max-Age={seconds}"));
    let line = format!(
        "{name}={value}; Path=/; HttpOnly; SameSite=Strict{}",
        age.unwrap_or_default()
    );
    HeaderValue::from_str(&line).unwrap_or_else(|_| HeaderValue::from_static("invalid=; Max-Age=0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; session=x=y"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(read(&headers, "session"), Some("x=y"));
        assert_eq!(read(&headers, "b"), Some("2"));
        assert_eq!(read(&headers, "ession"), None);
    }

    #[test]
    fn a_value_that_no_header_can_hold_sets_nothing() {
        assert_eq!(write("a", "x\ny", None), "invalid=; Max-Age=0");
    }
}
