//! One call: checked, sent, followed over redirects, bounded in time and size.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::Value;
use stateway_machine::{Data, HttpRequest};

use super::HttpSettings;
use super::allow::{AllowList, NotAllowed, shown};
use super::answer::{Trouble, is_json, one_line, output};
use super::resolver::Resolver;
use crate::retry_after::retry_after;

/// The most redirects that are followed.
const MOST_REDIRECTS: usize = 3;
/// How many bytes of a failed response are read for the message.
const MESSAGE_BYTES: usize = 2_048;
/// Headers that belong to the connection or to the client, not to the request.
const NOT_YOURS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The only headers of a step that another origin gets to see after a redirect.
const HARMLESS: &[HeaderName] = &[ACCEPT, CONTENT_TYPE];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The request to make.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: HttpRequest,
    pub(super) input: Data,
    /// Names the attempt; the same after a restart.
    pub(super) key: String,
    /// How long it may take.
    pub(super) limit: Duration,
}

/// The client that makes the calls.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    client: Client,
    allow: Arc<AllowList>,
    max_response_bytes: usize,
}

/// A request, ready to be sent.
struct Ready {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Caller {
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, String> {
        let resolver = Resolver::system(Arc::new(settings.allow.clone()));
        Self::with(settings, resolver)
    }

    pub(super) fn with(settings: &HttpSettings, resolver: Resolver) -> Result<Self, String> {
        // The first choice in this process counts; both are good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allow = Arc::clone(&resolver.allow);
        let mut builder = Client::builder()
            .connect_timeout(settings.connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would connect to addresses that were not checked.
            .no_proxy()
            .referer(false)
            .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(resolver);
        if !allow.uses("https") {
            // The system's authorities need not exist if they are not used.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            allow,
            max_response_bytes: settings.max_response_bytes,
        })
    }

    /// Makes a call.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, Trouble> {
        let ready = prepare(call)?;
        let limit = call.limit;
        let answered = tokio::time::timeout(limit, self.follow(ready)).await;
        answered.unwrap_or(Err(Trouble::TooSlow(limit)))
    }

    async fn follow(&self, mut ready: Ready) -> Result<Value, Trouble> {
        for _ in 0..=MOST_REDIRECTS {
            self.allow.check(&ready.url).map_err(Trouble::NotAllowed)?;
            let response = self.send(&ready).await?;
            match redirect(&response) {
                Some(to) => ready = ready.redirected(response.status(), to)?,
                None => return self.take(response).await,
            }
        }
        Err(Trouble::Odd {
            code: "HTTP_TOO_MANY_REDIRECTS",
            message: format!("more than {MOST_REDIRECTS} redirects"),
        })
    }

    async fn send(&self, ready: &Ready) -> Result<Response, Trouble> {
        let mut request = self
            .client
            .request(ready.method.clone(), ready.url.clone())
            .headers(ready.headers.clone());
        if let Some(body) = &ready.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(unsent)
    }

    async fn take(&self, response: Response) -> Result<Value, Trouble> {
        let status = response.status();
        let headers = response.headers().clone();
        if status.is_success() {
            let body = read(response, self.max_response_bytes).await?;
            return match body {
                Body::Whole(body) => Ok(output(status.as_u16(), &headers, &body)),
                Body::Cut(_) => Err(Trouble::Odd {
                    code: "HTTP_ANSWER_TOO_LONG",
                    message: format!(
                        "the response has more than {} bytes",
                        self.max_response_bytes
                    ),
                }),
            };
        }
        let pause = headers
            .get(RETRY_AFTER)
            .and_then(|pause| pause.to_str().ok());
        let pause = pause.and_then(|pause| retry_after(pause, SystemTime::now()));
        // The body only makes the message clearer: a body that cannot be read changes nothing.
        let words = match read(response, MESSAGE_BYTES).await {
            Ok(Body::Whole(body) | Body::Cut(body)) => one_line(&body),
            Err(_) => String::new(),
        };
        let name = status.canonical_reason().unwrap_or("unknown status");
        let message = match words.as_str() {
            "" => format!("{} {name}", status.as_u16()),
            words => format!("{} {name}: {words}", status.as_u16()),
        };
        Err(Trouble::Refused {
            status: status.as_u16(),
            message,
            retry_after: pause,
        })
    }
}

impl Ready {
    /// The request that a redirect asks for.
    fn redirected(self, status: StatusCode, to: Result<Url, String>) -> Result<Self, Trouble> {
        let url = to.map_err(|message| Trouble::Odd {
            code: "HTTP_BAD_REDIRECT",
            message,
        })?;
        let mut next = Self { url, ..self };
        if next.url.origin() != self.url.origin() {
            // Credentials are not sent to another host.
            let kept = next
                .headers
                .drain()
                .filter_map(|(name, value)| Some((name?, value)));
            next.headers = kept.filter(|(name, _)| HARMLESS.contains(name)).collect();
        }
        let keeps = matches!(status.as_u16(), 307 | 308)
            || matches!(next.method, Method::GET | Method::HEAD);
        if !keeps {
            next.method = Method::GET;
            next.body = None;
            next.headers.remove(CONTENT_TYPE);
        }
        Ok(next)
    }
}

/// Converts the call of a step to an HTTP request.
fn prepare(call: &Call) -> Result<Ready, Trouble> {
    let unusable = |why: &str| Trouble::Unusable(why.to_owned());
    let method = call.request.method.to_ascii_uppercase();
    let method = Method::from_bytes(method.as_bytes())
        .ok()
        .filter(|method| !matches!(*method, Method::CONNECT | Method::TRACE))
        .ok_or_else(|| unusable("the HTTP method is not supported"))?;
    let url = address(&call.request.url)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &call.request.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Trouble::Unusable(format!("`{name}` is not a valid header name")))?;
        if NOT_YOURS.contains(&name.as_str()) {
            let why = format!("the header `{name}` is set by the connection");
            return Err(Trouble::Unusable(why));
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| Trouble::Unusable(format!("the header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    if !headers.contains_key(IDEMPOTENCY_KEY)
        && let Ok(key) = HeaderValue::from_bytes(call.key.as_bytes())
    {
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    let body = body(&method, &mut headers, &call.input);
    Ok(Ready {
        method,
        url,
        headers,
        body,
    })
}

/// An address that can be called at all.
fn address(text: &str) -> Result<Url, Trouble> {
    let url = Url::parse(text).map_err(|_| Trouble::Unusable("the URL is not valid".to_owned()))?;
    if !matches!(url.scheme(), "http" | "https") {
        let why = format!("`{}` is neither http nor https", url.scheme());
        return Err(Trouble::Unusable(why));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "the URL has a user or a password; send a header instead";
        return Err(Trouble::Unusable(why.to_owned()));
    }
    Ok(url)
}

/// The input as JSON, where the method has a body; text as it is for another type of content.
fn body(method: &Method, headers: &mut HeaderMap, input: &Value) -> Option<Vec<u8>> {
    let without = matches!(
        *method,
        Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS
    );
    if without || input.is_null() {
        return None;
    }
    match input {
        Value::String(text) if headers.contains_key(CONTENT_TYPE) && !is_json(headers) => {
            Some(text.clone().into_bytes())
        }
        _ => {
            let json = HeaderValue::from_static("application/json");
            headers.entry(CONTENT_TYPE).or_insert(json);
            Some(input.to_string().into_bytes())
        }
    }
}

/// Where an answer sends the caller.
fn redirect(response: &Response) -> Option<Result<Url, String>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.headers().get(LOCATION);
    let to = to
        .and_then(|to| to.to_str().ok())
        .and_then(|to| response.url().join(to).ok());
    let Some(to) = to else {
        return Some(Err(
            "a redirect without a valid `Location` header".to_owned()
        ));
    };
    Some(match address(to.as_str()) {
        Ok(url) => Ok(url),
        Err(_) => Err(format!(
            "a redirect to {}, which cannot be called",
            shown(&to)
        )),
    })
}

/// A body, as far as it may be read.
enum Body {
    Whole(Vec<u8>),
    Cut(Vec<u8>),
}

async fn read(mut response: Response, most: usize) -> Result<Body, Trouble> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unsent)? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok(Body::Cut(body));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Body::Whole(body))
}

/// Why a call could not be made, without the address: it may hold a secret.
fn unsent(error: reqwest::Error) -> Trouble {
    let error = error.without_url();
    let mut why = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        if let Some(refused) = error.downcast_ref::<NotAllowed>() {
            return Trouble::NotAllowed(refused.clone());
        }
        let text = error.to_string();
        if !why.ends_with(&text) {
            why = format!("{why}: {text}");
        }
        source = error.source();
    }
    Trouble::Unreachable(why)
}
