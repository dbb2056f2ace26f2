//! Where HTTP steps may go: the allow-list of the configuration.
//!
//! An entry is an origin with an optional path: `https://api.example.com`,
//! `https://*.example.org:8443/v2`, `http://10.1.2.3:9000`. A pure matter of text; what a name
//! resolves to is judged by `resolver` when the connection is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;
use thiserror::Error;

use super::address::inside;

/// The most entries a list may have.
pub const MOST_ENTRIES: usize = 1_000;

/// The addresses that HTTP steps may call. Empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<Entry>,
    /// Names may resolve to addresses inside a network.
    allow_private: bool,
}

/// Why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{entry}` in the list of allowed addresses {why}")]
pub struct AllowError {
    /// The entry as it was written.
    pub entry: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Why a step may not call an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAllowed {
    /// Nothing is allowed.
    #[error("HTTP steps are off: `http.allow` of the provider is empty")]
    Nothing,
    /// No entry covers the address.
    #[error("{0} is in no entry of `http.allow`")]
    NoEntry(String),
    /// It is inside a network.
    #[error(
        "{host} has the address {address}, which is {why}; only `http.allow_private = true` \
         allows that"
    )]
    Inside {
        /// The host of the address that was called.
        host: String,
        /// What it resolved to.
        address: IpAddr,
        /// What kind of address that is.
        why: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    scheme: String,
    host: Host,
    port: u16,
    /// Without a trailing slash; empty for everything.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// Any name, `*`.
    Any,
    /// Any name below this one, `*.example.org`.
    Below(String),
    Name(String),
    Address(IpAddr),
}

impl AllowList {
    /// Reads a list. With `allow_private`, names may resolve to private addresses.
    ///
    /// # Errors
    /// The first entry that is not understood.
    pub fn new<S: AsRef<str>>(entries: &[S], allow_private: bool) -> Result<Self, AllowError> {
        let wrong = |entry: &str, why| AllowError {
            entry: entry.to_owned(),
            why,
        };
        if entries.len() > MOST_ENTRIES {
            return Err(wrong("…", "is one entry too many"));
        }
        let read = |entry: &S| {
            let entry = entry.as_ref();
            Entry::read(entry).map_err(|why| wrong(entry, why))
        };
        Ok(Self {
            entries: entries.iter().map(read).collect::<Result<_, _>>()?,
            allow_private,
        })
    }

    /// Whether any entry is of this scheme.
    pub(super) fn uses(&self, scheme: &str) -> bool {
        self.entries.iter().any(|entry| entry.scheme == scheme)
    }

    /// Whether a step may call this address, decided by its text alone.
    pub(super) fn check(&self, url: &Url) -> Result<(), NotAllowed> {
        if self.entries.is_empty() {
            return Err(NotAllowed::Nothing);
        }
        if !self.entries.iter().any(|entry| entry.covers(url)) {
            return Err(NotAllowed::NoEntry(shown(url)));
        }
        // No name is resolved for an address, so it is judged here.
        match host_of(url) {
            Some(Host::Address(address)) => self.check_address(&address.to_string(), address),
            _ => Ok(()),
        }
    }

    /// Whether a step may call a host at this address.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), NotAllowed> {
        let Some(why) = inside(address) else {
            return Ok(());
        };
        if self.allow_private || self.names(host, address) {
            return Ok(());
        }
        Err(NotAllowed::Inside {
            host: host.to_owned(),
            address,
            why,
        })
    }

    /// Whether an entry names this very address, or `localhost` for a loopback one.
    fn names(&self, host: &str, address: IpAddr) -> bool {
        let local = |name: &str| name == "localhost" && host == name && address.is_loopback();
        self.entries.iter().any(|entry| match &entry.host {
            Host::Address(named) => *named == address && host == address.to_string(),
            Host::Name(name) => local(name),
            Host::Any | Host::Below(_) => false,
        })
    }
}

impl Entry {
    fn read(text: &str) -> Result<Self, &'static str> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("has no scheme: write https://…");
        };
        let starred = rest.strip_prefix('*');
        // A name that a URL may have, in place of the star that it may not.
        let rest = starred.map_or_else(|| rest.to_owned(), |rest| format!("{STAR}{rest}"));
        if rest.contains('*') {
            return Err("may have one `*`, in place of the first part of the host");
        }
        let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| "is not a URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must be http or https");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not have a user or a password");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not have a query or a fragment");
        }
        let host = match host_of(&url).ok_or("has no host")? {
            Host::Name(name) => match name.strip_prefix(STAR).filter(|_| starred.is_some()) {
                None => Host::Name(name),
                Some("") => Host::Any,
                Some(below) => match below.strip_prefix('.') {
                    Some(below) => Host::Below(below.to_owned()),
                    None => return Err("may have a `*` only before a dot: https://*.example.org"),
                },
            },
            host => host,
        };
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host,
            port: url.port_or_known_default().ok_or("has no port")?,
            path: url.path().trim_end_matches('/').to_owned(),
        })
    }

    fn covers(&self, url: &Url) -> bool {
        let host = match (&self.host, host_of(url)) {
            (Host::Any, Some(Host::Name(_))) => true,
            (Host::Below(below), Some(Host::Name(name))) => name
                .strip_suffix(below.as_str())
                .is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
            (named, Some(host)) => *named == host,
            (_, None) => false,
        };
        host && self.scheme == url.scheme()
            && url.port_or_known_default() == Some(self.port)
            && self.covers_path(url.path())
    }

    fn covers_path(&self, path: &str) -> bool {
        if self.path.is_empty() {
            return true;
        }
        // A server may take these for slashes, and leave the folder by them.
        let lower = path.to_ascii_lowercase();
        if lower.contains("%2f") || lower.contains("%5c") {
            return false;
        }
        path.strip_prefix(&self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Stands for `*` while an entry is read.
const STAR: &str = "stateway-star";

fn host_of(url: &Url) -> Option<Host> {
    let host = url.host_str()?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    Some(address.map_or_else(|| Host::Name(host.to_owned()), Host::Address))
}

/// An address for messages: without what may be a secret.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only where there is no host, and then there is no user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(entry: &str, url: &str) -> bool {
        let list = AllowList::new(&[entry], false).unwrap();
        list.check(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn an_entry_covers_its_origin_and_what_is_below_its_path() {
        for (entry, url, wanted) in [
            ("https://api.example.com", "https://api.example.com/", true),
            (
                "https://api.example.com",
                "https://API.example.com:443/a?b=c",
                true,
            ),
            (
                "https://api.example.com/",
                "https://api.example.com/a/b",
                true,
            ),
            ("https://api.example.com", "http://api.example.com/", false),
            (
                "https://api.example.com",
                "https://api.example.com:8443/",
                false,
            ),
            (
                "https://api.example.com",
                "https://api.example.com./",
                false,
            ),
            (
                "https://api.example.com",
                "https://xapi.example.com/",
                false,
            ),
            (
                "https://api.example.com",
                "https://api.example.com.evil.org/",
                false,
            ),
            (
                "https://api.example.com",
                "https://evil.org/https://api.example.com",
                false,
            ),
            ("https://*.example.org", "https://a.example.org/", true),
            ("https://*.example.org", "https://a.b.example.org/", true),
            ("https://*.example.org", "https://example.org/", false),
            ("https://*.example.org", "https://.example.org/", false),
            ("https://*.example.org", "https://aexample.org/", false),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org:8443/v2",
                true,
            ),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org:8443/v2/x",
                true,
            ),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org:8443/v2?x",
                true,
            ),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org:8443/v20",
                false,
            ),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org:8443/",
                false,
            ),
            (
                "https://*.example.org:8443/v2",
                "https://a.example.org/v2",
                false,
            ),
            (
                "https://x.example/v2/",
                "https://x.example/v2/../admin",
                false,
            ),
            (
                "https://x.example/v2/",
                "https://x.example/v2/%2e%2e/admin",
                false,
            ),
            (
                "https://x.example/v2/",
                "https://x.example/v2/..%2fadmin",
                false,
            ),
            (
                "https://x.example/v2/",
                "https://x.example/v2/..\\admin",
                false,
            ),
            (
                "https://x.example/v2/",
                "https://x.example/v2/..%5Cadmin",
                false,
            ),
            ("https://x.example", "https://x.example/a%2fb", true),
            ("https://*", "https://anything.example/x", true),
            ("https://*", "http://anything.example/x", false),
            ("https://*", "https://1.1.1.1/", false),
            ("https://1.1.1.1", "https://1.1.1.1/", true),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000/x", true),
            ("http://127.0.0.1:9000", "http://2130706433:9000/x", true),
            ("http://127.0.0.1:9000", "http://127.0.0.1/x", false),
            ("http://127.0.0.1", "http://127.0.0.2/", false),
            ("http://[::1]:9000", "http://[::1]:9000/", true),
            ("http://[::1]:9000", "http://[0:0::1]:9000/", true),
            (
                "http://[::1]:9000",
                "http://[::ffff:127.0.0.1]:9000/",
                false,
            ),
            ("http://localhost:1", "http://localhost:1/", true),
            (
                "https://bücher.example",
                "https://xn--bcher-kva.example/",
                true,
            ),
        ] {
            assert_eq!(allows(entry, url), wanted, "{entry} and {url}");
        }
    }

    #[test]
    fn an_entry_that_is_not_understood_is_refused() {
        for (entry, why) in [
            ("api.example.com", "has no scheme: write https://…"),
            ("ftp://x.example", "must be http or https"),
            ("file:///etc/passwd", "must be http or https"),
            ("https://", "is not a URL"),
            (
                "https://u:p@x.example",
                "must not have a user or a password",
            ),
            ("https://x.example?a", "must not have a query or a fragment"),
            ("https://x.example#a", "must not have a query or a fragment"),
            (
                "https://a.*.example",
                "may have one `*`, in place of the first part of the host",
            ),
            (
                "https://x.example/*",
                "may have one `*`, in place of the first part of the host",
            ),
            (
                "https://*x.example",
                "may have a `*` only before a dot: https://*.example.org",
            ),
        ] {
            let error = AllowList::new(&[entry], false).unwrap_err();
            assert_eq!((error.entry.as_str(), error.why), (entry, why));
        }
    }

    #[test]
    fn an_empty_list_allows_nothing_and_names_the_setting() {
        let list = AllowList::default();
        let refused = list.check(&Url::parse("https://x.example").unwrap());
        assert!(refused.unwrap_err().to_string().contains("`http.allow`"));
    }

    #[test]
    fn an_address_inside_is_allowed_only_when_it_or_all_of_them_are_named() {
        let url = |text| Url::parse(text).unwrap();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let named = AllowList::new(&["http://10.0.0.1", "http://localhost", "http://*"], false);
        let named = named.unwrap();
        assert!(named.check(&url("http://10.0.0.1/")).is_ok());
        assert!(named.check(&url("http://10.0.0.2/")).is_err());
        assert!(named.check_address("localhost", loopback).is_ok());
        assert!(
            named
                .check_address("localhost", [10, 0, 0, 1].into())
                .is_err()
        );
        // A name does not become allowed by resolving to an address that is.
        assert!(
            named
                .check_address("a.example", [10, 0, 0, 1].into())
                .is_err()
        );
        assert!(named.check_address("a.example", loopback).is_err());
        assert!(
            named
                .check_address("a.example", [1, 1, 1, 1].into())
                .is_ok()
        );
        let open = AllowList::new(&["http://*"], true).unwrap();
        assert!(open.check_address("a.example", loopback).is_ok());
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let url = Url::parse("https://u:p@x.example/a?token=1#f").unwrap();
        assert_eq!(shown(&url), "https://x.example/a");
    }
}
