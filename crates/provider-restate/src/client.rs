//! The two HTTP APIs. Bounded in time by the call's deadline and in size by a constant; it does not
//! retry, because the gateway decides that.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stateway_model::Payload;
use stateway_provider_api::adapter::{one_line, secret_variable};
use stateway_provider_api::{ANONYMOUS, Call, Result, Verb};

use crate::config::Endpoint;
use crate::error::{Api, malformed, refusal, retry_after, timeout, transport};
use crate::{Config, ConfigError};

/// The longest answer that is read. Restate's own messages end at half of it.
const LONGEST_ANSWER: usize = 64 << 20;

/// How long a connection may take to come about, whatever the call's deadline allows.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time that is left over when a call to the ingress ends at the call's deadline. Its
/// error then names the ingress, before the caller's own timeout ends the call without a name.
const INGRESS_MARGIN: Duration = Duration::from_millis(100);

/// Both APIs of one server.
#[derive(Debug)]
pub(crate) struct Client {
    admin: Line,
    ingress: Line,
}

#[derive(Debug)]
struct Line {
    api: Api,
    http: reqwest::Client,
    base: Url,
}

/// An answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// What it says for people, in a line.
    pub(crate) fn message(&self) -> String {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = body.as_ref().and_then(|body| body["message"].as_str());
        match message {
            Some(message) => one_line(message),
            None => one_line(&String::from_utf8_lossy(&self.body)),
        }
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, verb: Verb, api: Api) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| malformed(verb, api, error))
    }
}

/// The headers and the body of a start or a signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Send<'a> {
    pub(crate) payload: Option<&'a Payload>,
    pub(crate) idempotency_key: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) delay: Option<Duration>,
}

/// The header that carries a request id into the journal, where it is found again.
pub(crate) const REQUEST_ID: &str = "x-stateway-request-id";

/// The header that carries the name of the caller into the journal.
pub(crate) const ACTOR: &str = "x-stateway-actor";

impl Client {
    pub(crate) fn new(config: &Config) -> std::result::Result<Self, ConfigError> {
        Ok(Self {
            admin: Line::new(Api::Admin, &config.admin)?,
            ingress: Line::new(Api::Ingress, &config.ingress)?,
        })
    }

    /// The rows of a query.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        call: &Call,
        verb: Verb,
        sql: &str,
    ) -> Result<Vec<T>> {
        #[derive(Deserialize)]
        struct Rows<T> {
            rows: Vec<T>,
        }
        // Anything but exactly this type is answered in Arrow's binary form.
        let request = self
            .admin
            .request(Method::POST, &["query"])
            .header(ACCEPT, "application/json")
            .json(&json!({ "query": sql }));
        let answer = self.admin.send(call, verb, request).await?;
        if !answer.is_success() {
            return Err(refusal(verb, Api::Admin, &answer));
        }
        let Rows { rows } = answer.json(verb, Api::Admin)?;
        Ok(rows)
    }

    pub(crate) async fn admin_get(&self, call: &Call, verb: Verb, path: &[&str]) -> Result<Answer> {
        let request = self.admin.request(Method::GET, path);
        self.admin.send(call, verb, request).await
    }

    pub(crate) async fn admin_post(
        &self,
        call: &Call,
        verb: Verb,
        path: &[&str],
        body: &Value,
    ) -> Result<Answer> {
        let request = self.admin.request(Method::POST, path).json(body);
        self.admin.send(call, verb, request).await
    }

    /// An admin verb on an invocation.
    pub(crate) async fn patch(
        &self,
        call: &Call,
        verb: Verb,
        (id, action): (&str, &str),
        query: &[(&str, String)],
    ) -> Result<Answer> {
        let path = ["invocations", id, action];
        let mut request = self.admin.request(Method::PATCH, &path);
        for (name, value) in query {
            request = with_query(request, name, value);
        }
        self.admin.send(call, verb, request).await
    }

    pub(crate) async fn ingress_get(
        &self,
        call: &Call,
        verb: Verb,
        path: &[&str],
    ) -> Result<Answer> {
        let request = self.ingress.request(Method::GET, path);
        self.ingress.send(call, verb, request).await
    }

    pub(crate) async fn ingress_post(
        &self,
        call: &Call,
        verb: Verb,
        path: &[&str],
        send: Send<'_>,
    ) -> Result<Answer> {
        let mut request = self.ingress.request(Method::POST, path);
        if let Some(delay) = send.delay {
            request = with_query(request, "delay", &format!("{}ms", delay.as_millis()));
        }
        if let Some(key) = send.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(id) = send.request_id {
            request = request.header(REQUEST_ID, id);
        }
        if *call.actor != *ANONYMOUS {
            request = request.header(ACTOR, &*call.actor);
        }
        if let Some(payload) = send.payload {
            request = request
                .header(CONTENT_TYPE, &payload.content_type)
                .body(payload.data.clone());
        }
        self.ingress.send(call, verb, request).await
    }
}

fn with_query(request: RequestBuilder, name: &str, value: &str) -> RequestBuilder {
    let (client, request) = request.build_split();
    match request {
        Ok(mut request) => {
            request.url_mut().query_pairs_mut().append_pair(name, value);
            RequestBuilder::from_parts(client, request)
        }
        // A request that cannot be built fails when it is sent.
        Err(_) => client.get(""),
    }
}

impl Line {
    fn new(api: Api, endpoint: &Endpoint) -> std::result::Result<Self, ConfigError> {
        let name = api.name();
        let base = Url::parse(&endpoint.url).ok();
        let base = base
            .filter(|url| matches!(url.scheme(), "http" | "https") && !url.cannot_be_a_base())
            .ok_or_else(|| ConfigError::Url {
                api: name,
                url: endpoint.url.clone(),
            })?;
        // The first choice in this process counts; both are good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers(name, endpoint)?);
        if let Some(file) = &endpoint.ca_file {
            let authorities = reqwest::Certificate::from_pem_bundle(&read(name, file)?);
            builder = builder.tls_certs_only(authorities.map_err(unusable(name, file))?);
        } else if base.scheme() == "http" {
            // The system's authorities need not exist if they are not used.
            builder = builder.tls_certs_only([]);
        }
        if let Some(file) = &endpoint.identity_file {
            let identity = reqwest::Identity::from_pem(&read(name, file)?);
            builder = builder.identity(identity.map_err(unusable(name, file))?);
        }
        let http = builder.build().map_err(|error| ConfigError::Client {
            api: name,
            why: error.to_string(),
        })?;
        Ok(Self { api, http, base })
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        self.http.request(method, url)
    }

    async fn send(&self, call: &Call, verb: Verb, request: RequestBuilder) -> Result<Answer> {
        let exchange = self.exchange(verb, request);
        let left = call.remaining();
        let limit = match self.api {
            Api::Admin => left,
            Api::Ingress => left - INGRESS_MARGIN.min(left / 10),
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(timeout(verb, self.api)),
        }
    }

    async fn exchange(&self, verb: Verb, request: RequestBuilder) -> Result<Answer> {
        let failed = |error| transport(verb, self.api, error);
        let mut response = request.send().await.map_err(failed)?;
        let header = |name| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (content_type, pause) = (header(CONTENT_TYPE), header(RETRY_AFTER));
        let status = response.status().as_u16();
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > LONGEST_ANSWER {
                let why = format!("longer than {LONGEST_ANSWER} bytes");
                return Err(malformed(verb, self.api, why));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer {
            status,
            retry_after: pause.as_deref().and_then(retry_after),
            content_type,
            body: body.freeze(),
        })
    }
}

fn headers(api: &'static str, endpoint: &Endpoint) -> std::result::Result<HeaderMap, ConfigError> {
    let (from, token) = match (&endpoint.bearer_env, &endpoint.bearer_file) {
        (None, None) => return Ok(HeaderMap::new()),
        (Some(_), Some(_)) => return Err(ConfigError::TwoTokens(api)),
        (Some(name), None) => {
            let token = secret_variable(name).map_err(str::to_owned);
            (format!("the variable {name}"), token)
        }
        (None, Some(file)) => {
            let token = std::fs::read_to_string(file).map_err(|error| error.to_string());
            (file.display().to_string(), token)
        }
    };
    let wrong = |why: String| ConfigError::Token {
        api,
        from: from.clone(),
        why,
    };
    let token = token.map_err(wrong)?;
    let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| wrong("it is not a valid header value".to_owned()))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

fn read(api: &'static str, file: &std::path::Path) -> std::result::Result<Vec<u8>, ConfigError> {
    std::fs::read(file).map_err(unusable(api, file))
}

fn unusable<E: std::fmt::Display>(
    api: &'static str,
    file: &std::path::Path,
) -> impl Fn(E) -> ConfigError {
    let file = file.display().to_string();
    move |why| ConfigError::Certificate {
        api,
        file: file.clone(),
        why: why.to_string(),
    }
}
