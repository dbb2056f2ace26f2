//! A browser without a script: it keeps cookies, follows redirects and sends forms.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::Running;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Someone who looks at pages.
pub(crate) struct Visit {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
    /// Header lines of a proxy in front.
    proxy: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Page {
    /// Asserts that it holds each of these.
    #[track_caller]
    pub(crate) fn has(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.body.contains(text), "no `{text}` in {}", self.body);
        }
        self
    }

    #[track_caller]
    pub(crate) fn lacks(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(!self.body.contains(text), "`{text}` in {}", self.body);
        }
        self
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The value of a form's hidden field.
    #[track_caller]
    pub(crate) fn hidden(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .body
            .split_once(&begin)
            .unwrap_or_else(|| panic!("no field {name} in {}", self.body));
        unescaped(rest.split('"').next().unwrap_or_default())
    }
}

impl Page {
    /// Where the link with this text leads.
    #[track_caller]
    pub(crate) fn link(&self, text: &str) -> String {
        let end = format!(">{text}</a>");
        let (before, _) = self
            .body
            .split_once(&end)
            .unwrap_or_else(|| panic!("no link {text} in {}", self.body));
        let (_, href) = before
            .rsplit_once("href=\"")
            .expect("a link leads somewhere");
        unescaped(href.split('"').next().unwrap_or_default())
    }

    /// Where its live updates come from.
    #[track_caller]
    pub(crate) fn live(&self) -> String {
        let (_, rest) = self.body.split_once("data-live=\"").expect("a live page");
        unescaped(rest.split('"').next().unwrap_or_default())
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

impl Visit {
    pub(crate) fn new(gateway: &Running) -> Self {
        Self {
            address: gateway.address,
            cookies: BTreeMap::new(),
            proxy: String::new(),
        }
    }

    /// A visit through a proxy that says whose it is.
    pub(crate) fn behind_proxy(gateway: &Running, actor: &str, roles: &str) -> Self {
        Self {
            proxy: format!("x-stateway-actor: {actor}\r\nx-stateway-roles: {roles}\r\n"),
            ..Self::new(gateway)
        }
    }

    /// A visit with an API key, as a browser sends it.
    pub(crate) fn with_key(gateway: &Running, key: &str) -> Self {
        Self {
            proxy: format!("authorization: Bearer {key}\r\n"),
            ..Self::new(gateway)
        }
    }

    /// A visit in someone's name.
    pub(crate) async fn by(gateway: &Running, actor: &str, roles: &str) -> Self {
        let mut visit = Self::new(gateway);
        let question = visit.get("/acting").await;
        let fields = [("actor", actor), ("roles", roles), ("back", "/inbox")];
        visit.send(&question, "/acting", &fields).await.is(303);
        visit
    }

    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.exchange("GET", path, "", "").await
    }

    /// Sends a form that was on a page, as a browser would.
    pub(crate) async fn send(&mut self, on: &Page, path: &str, fields: &[(&str, &str)]) -> Page {
        let (token, id) = (on.hidden("csrf"), on.hidden("request_id"));
        let mut all = vec![("csrf", token.as_str()), ("request_id", id.as_str())];
        all.extend(fields);
        self.post(path, &all, "same-origin").await
    }

    /// Sends a form of whatever site.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)], site: &str) -> Page {
        let pairs = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let head = format!(
            "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: {site}\r\n"
        );
        self.exchange("POST", path, &head, &body).await
    }

    /// What a page's live stream sends.
    pub(crate) async fn live(&mut self, path: &str) -> Live {
        let mut stream = self.connect().await;
        let head = self.head("GET", path);
        stream
            .write_all(format!("{head}\r\n").as_bytes())
            .await
            .unwrap();
        Live(BufReader::new(stream))
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    fn head(&self, method: &str, path: &str) -> String {
        let cookies: Vec<_> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncookie: {}\r\n{}",
            self.address,
            cookies.join("; "),
            self.proxy
        )
    }

    async fn exchange(&mut self, method: &str, path: &str, more: &str, body: &str) -> Page {
        let mut stream = self.connect().await;
        let length = body.len();
        let request = format!(
            "{}{more}content-length: {length}\r\n\r\n{body}",
            self.head(method, path)
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("an answer in time")
            .unwrap();
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let mut headers = BTreeMap::new();
        for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
            if name == "set-cookie" {
                self.keep(value);
            }
            headers.insert(name.to_owned(), value.to_owned());
        }
        Page {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            headers,
            body: body.to_owned(),
        }
    }

    fn keep(&mut self, cookie: &str) {
        let (pair, rest) = cookie.split_once(';').unwrap_or((cookie, ""));
        let (name, value) = pair.split_once('=').expect("a pair");
        if rest.contains("Max-Age=0") {
            self.cookies.remove(name)
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned())
        };
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A live stream.
pub(crate) struct Live(BufReader<TcpStream>);

impl Live {
    /// Reads until a line holds this text.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        self.until_it(text, |line| line.contains(text)).await
    }

    /// Reads until a line is as wanted.
    pub(crate) async fn until_it(&mut self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let looked = async {
            loop {
                let mut line = String::new();
                let read = self.0.read_line(&mut line).await.expect("UTF-8");
                assert!(read > 0, "the stream ended before `{what}`");
                if is(&line) {
                    return line;
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, looked).await;
        found.unwrap_or_else(|_| panic!("`{what}` does not come"))
    }
}
