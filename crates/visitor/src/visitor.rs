//! A browser without a script: it keeps cookies and sends forms, and follows no redirect.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::exchange::exchange_bytes;
use crate::{Live, Page};

/// A person who reads pages.
#[derive(Debug, Clone)]
pub struct Visitor {
    address: SocketAddr,
    /// The cookies, by their names.
    pub cookies: BTreeMap<String, String>,
    /// Header lines that are sent with every request.
    headers: String,
}

impl Visitor {
    /// A visitor without a name.
    #[must_use]
    pub fn new(at: impl Into<SocketAddr>) -> Self {
        Self {
            address: at.into(),
            cookies: BTreeMap::new(),
            headers: String::new(),
        }
    }

    /// A visitor behind a proxy that says who it is.
    #[must_use]
    pub fn behind_proxy(at: impl Into<SocketAddr>, actor: &str, roles: &str) -> Self {
        Self {
            headers: format!("x-stateway-actor: {actor}\r\nx-stateway-roles: {roles}\r\n"),
            ..Self::new(at)
        }
    }

    /// A visitor with an API key.
    #[must_use]
    pub fn with_key(at: impl Into<SocketAddr>, key: &str) -> Self {
        Self {
            headers: format!("authorization: Bearer {key}\r\n"),
            ..Self::new(at)
        }
    }

    /// A visitor who has chosen a name on the page for it.
    pub async fn by(at: impl Into<SocketAddr>, actor: &str, roles: &str) -> Self {
        let mut visitor = Self::new(at);
        let question = visitor.get("/acting").await;
        let fields = [("actor", actor), ("roles", roles), ("back", "/inbox")];
        let answer = visitor.send(&question, "/acting", &fields).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        visitor
    }

    /// Requests a page.
    pub async fn get(&mut self, path: &str) -> Page {
        self.raw(&format!("GET {path} HTTP/1.1\r\n")).await
    }

    /// Sends the request line and the headers of the test.
    pub async fn raw(&mut self, head: &str) -> Page {
        self.exchange(head, "").await
    }

    /// Sends a form as a page of the dashboard does.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let site = "sec-fetch-site: same-origin\r\n";
        self.post_with(path, fields, site).await
    }

    /// Sends a form with headers of the test.
    pub async fn post_with(&mut self, path: &str, fields: &[(&str, &str)], headers: &str) -> Page {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let kind = "content-type: application/x-www-form-urlencoded\r\n";
        let head = format!("POST {path} HTTP/1.1\r\n{kind}{headers}");
        self.exchange(&head, &body.finish()).await
    }

    /// Sends a form that was on a page.
    pub async fn send(&mut self, on: &Page, path: &str, fields: &[(&str, &str)]) -> Page {
        let (token, id) = (on.field("csrf"), on.field("request_id"));
        let mut all = vec![("csrf", token.as_str()), ("request_id", id.as_str())];
        all.extend(fields);
        self.post(path, &all).await
    }

    /// Answers a question about an execution, with these fields filled in.
    pub async fn answer(&mut self, path: &str, filled: &[(&str, &str)]) -> Page {
        let question = self.get(path).await.is(200);
        let kept: Vec<_> = ["csrf", "request_id", "etag", "step"]
            .into_iter()
            .filter(|name| !filled.iter().any(|(filled, _)| filled == name))
            .map(|name| (name, question.field(name)))
            .collect();
        let kept = kept.iter().map(|(name, value)| (*name, value.as_str()));
        let fields: Vec<_> = kept.chain(filled.iter().copied()).collect();
        let path = path.split('?').next().unwrap_or(path);
        self.post(path, &fields).await
    }

    /// Answers a question that is about no execution, with these fields filled in.
    pub async fn answer_fields(&mut self, path: &str, filled: &[(&str, &str)]) -> Page {
        let question = self.get(path).await.is(200);
        self.send(&question, path, filled).await
    }

    /// Opens the live updates of a page.
    pub async fn listen(&self, path: &str) -> Live {
        let head = self.head(&format!("GET {path} HTTP/1.1\r\n"));
        Live::open(self.address, &head).await
    }

    async fn exchange(&mut self, head: &str, body: &str) -> Page {
        let answer = exchange_bytes(self.address, &self.head(head), body.as_bytes()).await;
        let page = Page::parse(&answer);
        for (name, value) in &page.headers {
            if name == "set-cookie" {
                self.keep(value);
            }
        }
        page
    }

    /// The head of a request, with what every request has.
    fn head(&self, head: &str) -> String {
        let cookies = self.cookies.iter();
        let cookies: Vec<_> = cookies
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let (address, cookies, headers) = (self.address, cookies.join("; "), &self.headers);
        format!("{head}host: {address}\r\ncookie: {cookies}\r\n{headers}")
    }

    fn keep(&mut self, cookie: &str) {
        let (pair, rest) = cookie.split_once(';').unwrap_or((cookie, ""));
        let (name, value) = pair.split_once('=').expect("a name and a value");
        if rest.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}
