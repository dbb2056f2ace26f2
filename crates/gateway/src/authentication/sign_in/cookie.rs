//! The two cookies of a sign-in. No script can read them, no other site can make a browser send them
//! with anything but a link, and over TLS no other host can set them (`__Host-`).

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use stateway_identity::ProofError;

/// The session.
const SESSION: &str = "stateway-identity";
/// A sign-in under way.
const TRANSACTION: &str = "stateway-sign-in";
/// A browser takes a cookie with this prefix only over TLS, from the host itself and for all paths.
const HOST_ONLY: &str = "__Host-";

/// The longest value of a cookie that every browser keeps.
pub(super) const LONGEST: usize = 3800;

/// Reads and writes the cookies of browsers that use TLS, or do not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CookieJar {
    pub(crate) is_secure: bool,
}

impl CookieJar {
    /// The session of a request.
    pub(crate) fn session(self, headers: &HeaderMap) -> Result<Option<&str>, ProofError> {
        self.read(headers, SESSION)
    }

    /// The sign-in under way.
    pub(super) fn transaction(self, headers: &HeaderMap) -> Option<&str> {
        self.read(headers, TRANSACTION).ok().flatten()
    }

    pub(super) fn set_session(self, value: &str, lifetime: Duration) -> HeaderValue {
        self.write(SESSION, value, lifetime)
    }

    pub(crate) fn remove_session(self) -> HeaderValue {
        self.write(SESSION, "", Duration::ZERO)
    }

    pub(super) fn set_transaction(self, value: &str, lifetime: Duration) -> HeaderValue {
        self.write(TRANSACTION, value, lifetime)
    }

    pub(super) fn remove_transaction(self) -> HeaderValue {
        self.write(TRANSACTION, "", Duration::ZERO)
    }

    /// Two cookies of one name are a conflict: which one counts must not be guessed.
    fn read<'h>(self, headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ProofError> {
        let prefix = self.prefix();
        let lines = headers.get_all(COOKIE).into_iter();
        let mut found = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(key, _)| key.strip_prefix(prefix) == Some(name))
            .map(|(_, value)| value);
        let first = found.next();
        if found.next().is_some() {
            return Err(ProofError::Conflicting);
        }
        Ok(first)
    }

    // Not `Strict`: the provider sends people back, and others send links. Nothing but a link carries
    // the cookie, and a link changes nothing.
    fn write(self, name: &str, value: &str, lifetime: Duration) -> HeaderValue {
        // Rounded up: an age of zero removes a cookie.
        let (prefix, age) = (self.prefix(), lifetime.as_millis().div_ceil(1000));
        let secure = if self.is_secure { "; Secure" } else { "" };
        let line = format!(
            "{prefix}{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}"
        );
        // Values are base64 and names are constants.
        HeaderValue::from_str(&line).unwrap_or(HeaderValue::from_static("invalid=; Max-Age=0"))
    }

    const fn prefix(self) -> &'static str {
        if self.is_secure { HOST_ONLY } else { "" }
    }
}

/// Removes the cookies of a sign-in from a request, so that no page sees them.
pub(crate) fn remove_cookies(headers: &mut HeaderMap) {
    if !headers.contains_key(COOKIE) {
        return;
    }
    let is_ours = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        let name = name.strip_prefix(HOST_ONLY).unwrap_or(name);
        name == SESSION || name == TRANSACTION
    };
    let lines: Vec<String> = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .map(|line| {
            let kept: Vec<&str> = line.split(';').filter(|pair| !is_ours(pair)).collect();
            kept.join(";").trim().to_owned()
        })
        .filter(|line| !line.is_empty())
        .collect();
    headers.remove(COOKIE);
    for line in lines {
        if let Ok(line) = HeaderValue::from_str(&line) {
            headers.append(COOKIE, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLS: CookieJar = CookieJar { is_secure: true };
    const PLAIN: CookieJar = CookieJar { is_secure: false };

    fn sent(lines: &[&'static str]) -> HeaderMap {
        let lines = lines.iter().map(|line| HeaderValue::from_static(line));
        HeaderMap::from_iter(lines.map(|line| (COOKIE, line)))
    }

    #[test]
    fn a_cookie_over_tls_has_every_guard() {
        let cookie = TLS.set_session("x", Duration::from_secs(60));
        assert_eq!(
            cookie,
            "__Host-stateway-identity=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"
        );
        assert!(!PLAIN.remove_session().to_str().unwrap().contains("Secure"));
    }

    #[test]
    fn a_cookie_that_another_host_could_have_set_does_not_count() {
        let tossed = sent(&["stateway-identity=evil; a=b"]);
        assert_eq!(TLS.session(&tossed), Ok(None));
        assert_eq!(PLAIN.session(&tossed), Ok(Some("evil")));
        let twice = sent(&["stateway-identity=a", "stateway-identity=b"]);
        assert_eq!(PLAIN.session(&twice), Err(ProofError::Conflicting));
    }

    #[test]
    fn pages_see_the_other_cookies_only() {
        let mut headers = sent(&[
            "a=1; __Host-stateway-identity=s; b=2",
            "stateway-sign-in=t",
            "stateway-identity=s",
        ]);
        remove_cookies(&mut headers);
        let left: Vec<_> = headers.get_all(COOKIE).iter().collect();
        assert_eq!(left, ["a=1; b=2"]);
    }
}
