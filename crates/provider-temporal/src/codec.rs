//! The remote codec: an HTTP endpoint that decodes payloads which this gateway cannot read. A codec that
//! does not answer is no failure: then payloads are shown as encrypted, and what is made of them is not
//! remembered for long. The deadline of the caller counts here too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use stateway_provider_api::Call;
use stateway_provider_api::adapter::{SkippingClock, lock};

use crate::api::common::v1::{Payload, Payloads};
use crate::api::failure::v1::Failure;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::update::v1::{Outcome, Request, outcome};
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::config::Codec;
use crate::payload::is_readable;
use crate::{Config, ConfigError};

/// How long the codec may take for one answer of the provider.
const PATIENCE: Duration = Duration::from_secs(2);
/// The codec gets this part of the caller's time at most, because an answer with encrypted payloads is
/// better than none.
const SHARE: u32 = 2;
/// A codec that does not answer is not asked again before this.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 16 << 20;
/// The most payloads of one request, and the most of their bytes. A larger payload is sent alone.
const MOST_PAYLOADS: usize = 200;
const MOST_BYTES: usize = 4 << 20;
/// With these statuses a codec may refuse some payloads and not others.
const MAY_BE_ABOUT_ONE: [u16; 4] = [400, 413, 422, 500];
/// How often a refused request is halved, for all payloads of one answer. Eight halves find one payload of 200.
const MOST_HALVES: usize = 16;
/// The most causes of a failure that are decoded.
const DEEPEST: usize = 10;

/// The codec of one namespace.
#[derive(Debug)]
pub(crate) struct RemoteCodec {
    http: reqwest::Client,
    url: String,
    clock: SkippingClock,
    trouble: Mutex<Option<Trouble>>,
}

/// Why payloads of the last answer were not decoded.
#[derive(Debug, Clone)]
struct Trouble {
    why: String,
    /// The codec did not answer and is not asked before this time.
    until: Option<Instant>,
}

/// Payloads as the codec protocol has them.
#[derive(Debug, Serialize, Deserialize)]
struct Bodies {
    payloads: Vec<Body>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Body {
    #[serde(default)]
    metadata: HashMap<String, String>,
    #[serde(default)]
    data: String,
}

/// Whether data sent to this address cannot be read by others.
fn keeps_secrets(url: &reqwest::Url) -> bool {
    url.scheme() == "https" || is_local(url)
}

/// Whether the address is on this machine.
fn is_local(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl RemoteCodec {
    /// The codec of a configuration, if it has one.
    pub(crate) fn new(config: &Config, clock: &SkippingClock) -> Result<Option<Self>, ConfigError> {
        let codec = config.codec.as_ref();
        codec
            .map(|codec| Self::at(codec, &config.namespace, clock))
            .transpose()
    }

    fn at(codec: &Codec, namespace: &str, clock: &SkippingClock) -> Result<Self, ConfigError> {
        let wrong = |why: String| ConfigError::Codec(why);
        let url = reqwest::Url::parse(&codec.url).ok();
        let url = url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        let url = url.ok_or_else(|| wrong("it is not an http or https address".to_owned()))?;
        // Not shown in the error: it may be a password.
        if !url.username().is_empty() || url.password().is_some() {
            let why = "the address must not contain a user name or a password; use `bearer_env`";
            return Err(wrong(why.to_owned()));
        }
        let mut headers = HeaderMap::new();
        let header = HeaderValue::from_str(namespace).map_err(|error| wrong(error.to_string()))?;
        headers.insert("x-namespace", header);
        // Decoded payloads are secrets, and so is the token.
        let may_send = keeps_secrets(&url) || (codec.insecure && codec.bearer_env.is_none());
        if !may_send {
            let why = if codec.bearer_env.is_some() {
                "a bearer token needs an https address, or one of this machine"
            } else {
                "decoded payloads need an https address, or one of this machine; \
                 `codec.insecure = true` allows http"
            };
            return Err(wrong(format!("`{}`: {why}", codec.url)));
        }
        if let Some(name) = &codec.bearer_env {
            let token = stateway_provider_api::adapter::secret_variable(name)
                .map_err(|error| wrong(format!("`{name}`: {error}")))?;
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut value = value.map_err(|_| wrong(format!("`{name}` is not a token")))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // The first caller in this process chooses the implementation; every choice is good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            // Payloads and the token are for the configured address alone.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        if is_local(&url) {
            // A proxy of the environment would get the payloads.
            http = http.no_proxy();
        }
        if let Some(file) = &codec.ca_file {
            let unusable = |why: String| wrong(format!("`ca_file`: {}: {why}", file.display()));
            let text = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
            let authorities = reqwest::Certificate::from_pem_bundle(&text)
                .map_err(|error| unusable(error.to_string()))?;
            if authorities.is_empty() {
                return Err(unusable("it has no certificate".to_owned()));
            }
            http = http.tls_certs_only(authorities);
        }
        Ok(Self {
            http: http.build().map_err(|error| wrong(error.to_string()))?,
            url: format!("{}/decode", codec.url.trim_end_matches('/')),
            clock: clock.clone(),
            trouble: Mutex::default(),
        })
    }

    /// Why payloads are shown as encrypted at present.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).as_ref().map(|it| it.why.clone())
    }

    /// Decodes everything in these events that cannot be read. Whether the codec answered for all of it.
    pub(crate) async fn decode_events(&self, call: &Call, events: &mut [HistoryEvent]) -> bool {
        let found = events.iter_mut().flat_map(payloads_of).collect();
        self.decode(call, found).await
    }

    /// Decodes the failures and summaries in these events. Whether the codec answered for all of them.
    pub(crate) async fn decode_texts(&self, call: &Call, events: &mut [HistoryEvent]) -> bool {
        let mut found: Vec<&mut Payload> = Vec::new();
        for event in events {
            let HistoryEvent {
                user_metadata,
                attributes,
                ..
            } = event;
            let summary = user_metadata.as_mut().and_then(|it| it.summary.as_mut());
            found.extend(summary);
            let failure = attributes.as_mut().and_then(failure_of);
            found.extend(failure.into_iter().flat_map(encoded_in));
        }
        self.decode(call, found).await
    }

    /// Decodes the failures and labels of a description.
    pub(crate) async fn decode_description(
        &self,
        call: &Call,
        described: &mut DescribeWorkflowExecutionResponse,
    ) {
        let mut found: Vec<&mut Payload> = Vec::new();
        for pending in &mut described.pending_activities {
            found.extend(pending.last_failure.iter_mut().flat_map(encoded_in));
        }
        if let Some(info) = &mut described.workflow_execution_info {
            found.extend(labels_of(info));
        }
        self.decode(call, found).await;
    }

    /// Decodes the labels of the rows of a list.
    pub(crate) async fn decode_rows(&self, call: &Call, rows: &mut [WorkflowExecutionInfo]) {
        let found = rows.iter_mut().flat_map(labels_of).collect();
        self.decode(call, found).await;
    }

    /// Decodes the answer of an update, or its failure.
    pub(crate) async fn decode_outcome(&self, call: &Call, outcome: &mut Outcome) {
        self.decode(call, payloads_in(outcome)).await;
    }

    /// Decodes what cannot be read. A request that the codec refuses is sent again in halves, so that one payload
    /// that cannot be decoded does not hide the others. Whether all of it was decoded.
    async fn decode(&self, call: &Call, mut found: Vec<&mut Payload>) -> bool {
        found.retain(|payload| !is_readable(payload));
        if found.is_empty() {
            return true;
        }
        if self.is_paused() {
            return false;
        }
        let patience = PATIENCE.min(call.remaining() / SHARE);
        let until = tokio::time::Instant::now() + patience;
        let (mut refused, mut halves) = (None, 0);
        let mut parts = parts(&mut found);
        while let Some(part) = parts.pop() {
            let failure = match tokio::time::timeout_at(until, self.ask(part)).await {
                Ok(Ok(decoded)) => {
                    for (payload, decoded) in part.iter_mut().zip(decoded) {
                        **payload = decoded;
                    }
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(_) => Refusal {
                    why: "no answer in time".to_owned(),
                    // A caller in a hurry says nothing about the codec.
                    is_outage: patience == PATIENCE,
                },
            };
            let is_over = failure.is_outage || tokio::time::Instant::now() >= until;
            refused = Some(failure);
            if is_over {
                break;
            }
            if part.len() > 1 && halves < MOST_HALVES {
                halves += 1;
                let (first, second) = part.split_at_mut(part.len() / 2);
                parts.extend([first, second]);
            }
        }
        let is_whole = refused.is_none();
        self.report(refused);
        is_whole
    }

    fn is_paused(&self) -> bool {
        let until = lock(&self.trouble).as_ref().and_then(|it| it.until);
        until.is_some_and(|until| until > self.clock.now())
    }

    /// Remembers how the requests for one answer ended. The log has a line when that changes.
    fn report(&self, failure: Option<Refusal>) {
        let trouble = failure.map(|failure| Trouble {
            why: failure.why,
            until: failure.is_outage.then(|| self.clock.now() + PAUSE),
        });
        let before = std::mem::replace(&mut *lock(&self.trouble), trouble.clone());
        let is_outage = |of: &Option<Trouble>| of.as_ref().is_some_and(|it| it.until.is_some());
        match (is_outage(&before), is_outage(&trouble)) {
            (false, true) => {
                let why = trouble.map(|it| it.why);
                tracing::warn!(why, "the remote codec does not decode payloads");
            }
            (true, false) => tracing::info!("the remote codec answers again"),
            _ => {}
        }
    }

    async fn ask(&self, payloads: &[&mut Payload]) -> Result<Vec<Payload>, Refusal> {
        let bodies = Bodies {
            payloads: payloads.iter().map(|payload| body(payload)).collect(),
        };
        let outage = |error: reqwest::Error| Refusal {
            why: error.without_url().to_string(),
            is_outage: true,
        };
        let request = self.http.post(&self.url).json(&bodies);
        let mut answer = request.send().await.map_err(outage)?;
        if !answer.status().is_success() {
            let status = answer.status();
            return Err(Refusal {
                why: format!("it answered {status}"),
                is_outage: !MAY_BE_ABOUT_ONE.contains(&status.as_u16()),
            });
        }
        let mut text = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(outage)? {
            if text.len() + part.len() > LONGEST_ANSWER {
                return Err(Refusal::of("its answer is too long"));
            }
            text.extend_from_slice(&part);
        }
        // What the parsers say may quote decoded payloads.
        let bodies: Bodies = serde_json::from_slice(&text)
            .map_err(|_| Refusal::of("its answer is not the answer of a codec"))?;
        if bodies.payloads.len() != payloads.len() {
            return Err(Refusal::of("its answer has another number of payloads"));
        }
        let decoded = bodies.payloads.into_iter().map(decoded);
        let decoded: Option<Vec<_>> = decoded.collect();
        decoded.ok_or_else(|| Refusal::of("its answer is not in base64"))
    }
}

/// Why a request to the codec failed. Names no payload and no token.
struct Refusal {
    why: String,
    /// The codec will hardly answer the next request either.
    is_outage: bool,
}

impl Refusal {
    fn of(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            is_outage: false,
        }
    }
}

/// Payloads in requests of a bounded size.
fn parts<'a, 'p>(mut rest: &'a mut [&'p mut Payload]) -> Vec<&'a mut [&'p mut Payload]> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (mut count, mut bytes) = (0, 0);
        for payload in rest.iter().take(MOST_PAYLOADS) {
            bytes += payload.data.len();
            if count > 0 && bytes > MOST_BYTES {
                break;
            }
            count += 1;
        }
        let (part, others) = rest.split_at_mut(count);
        parts.push(part);
        rest = others;
    }
    parts
}

fn body(payload: &Payload) -> Body {
    let metadata = payload.metadata.iter();
    Body {
        metadata: metadata
            .map(|(name, value)| (name.clone(), STANDARD.encode(value)))
            .collect(),
        data: STANDARD.encode(&payload.data),
    }
}

fn decoded(body: Body) -> Option<Payload> {
    let bytes = |text: String| STANDARD.decode(text).ok();
    let mut metadata = HashMap::new();
    for (name, value) in body.metadata {
        metadata.insert(name, bytes(value)?.into());
    }
    Some(Payload {
        metadata,
        data: bytes(body.data)?.into(),
    })
}

/// The labels of a run that may be encoded. Search attributes never are: the server reads them.
fn labels_of(info: &mut WorkflowExecutionInfo) -> impl Iterator<Item = &mut Payload> {
    let memo = info.memo.iter_mut();
    memo.flat_map(|memo| memo.fields.values_mut())
}

/// The payloads of arguments, results and failures in an event.
fn payloads_of(event: &mut HistoryEvent) -> Vec<&mut Payload> {
    // A run that is a retry begins with the failure of the run before it, which was decoded with that.
    let begins = matches!(
        event.attributes,
        Some(Attributes::WorkflowExecutionStartedEventAttributes(_))
    );
    let Some(attributes) = &mut event.attributes else {
        return Vec::new();
    };
    if !begins && failure_of(attributes).is_some() {
        let failure = failure_of(attributes);
        return failure.into_iter().flat_map(encoded_in).collect();
    }
    let payloads: &mut Option<Payloads> = match attributes {
        Attributes::WorkflowExecutionStartedEventAttributes(it) => &mut it.input,
        Attributes::WorkflowExecutionCompletedEventAttributes(it) => &mut it.result,
        Attributes::WorkflowExecutionSignaledEventAttributes(it) => &mut it.input,
        Attributes::ActivityTaskScheduledEventAttributes(it) => &mut it.input,
        Attributes::ActivityTaskCompletedEventAttributes(it) => &mut it.result,
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(it) => &mut it.input,
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(it) => &mut it.result,
        Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(it) => {
            return arguments_of(it.accepted_request.as_mut());
        }
        Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(it) => {
            return arguments_of(it.request.as_mut());
        }
        Attributes::WorkflowExecutionUpdateCompletedEventAttributes(it) => {
            return it.outcome.as_mut().map(payloads_in).unwrap_or_default();
        }
        _ => return Vec::new(),
    };
    all_of(payloads.as_mut())
}

fn all_of(payloads: Option<&mut Payloads>) -> Vec<&mut Payload> {
    let payloads = payloads.into_iter();
    payloads.flat_map(|it| &mut it.payloads).collect()
}

/// The arguments of an update.
fn arguments_of(request: Option<&mut Request>) -> Vec<&mut Payload> {
    let input = request.and_then(|request| request.input.as_mut());
    all_of(input.and_then(|input| input.args.as_mut()))
}

/// The answer of an update, or its failure.
fn payloads_in(outcome: &mut Outcome) -> Vec<&mut Payload> {
    match &mut outcome.value {
        Some(outcome::Value::Success(answer)) => answer.payloads.iter_mut().collect(),
        Some(outcome::Value::Failure(failure)) => encoded_in(failure),
        None => Vec::new(),
    }
}

/// The failure in an event.
fn failure_of(attributes: &mut Attributes) -> Option<&mut Failure> {
    match attributes {
        Attributes::WorkflowExecutionStartedEventAttributes(it) => it.continued_failure.as_mut(),
        Attributes::WorkflowExecutionFailedEventAttributes(it) => it.failure.as_mut(),
        Attributes::WorkflowTaskFailedEventAttributes(it) => it.failure.as_mut(),
        Attributes::ActivityTaskStartedEventAttributes(it) => it.last_failure.as_mut(),
        Attributes::ActivityTaskFailedEventAttributes(it) => it.failure.as_mut(),
        Attributes::ActivityTaskTimedOutEventAttributes(it) => it.failure.as_mut(),
        Attributes::ChildWorkflowExecutionFailedEventAttributes(it) => it.failure.as_mut(),
        Attributes::MarkerRecordedEventAttributes(it) => it.failure.as_mut(),
        _ => None,
    }
}

/// The encoded message of a failure and of each of its causes.
fn encoded_in(failure: &mut Failure) -> Vec<&mut Payload> {
    let (mut found, mut next) = (Vec::new(), Some(failure));
    for _ in 0..DEEPEST {
        let Some(failure) = next else {
            break;
        };
        found.extend(failure.encoded_attributes.as_mut());
        next = failure.cause.as_deref_mut();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_sent_encrypted_or_to_this_machine_only() {
        let at = |url: &str, bearer_env: Option<&str>, insecure: bool| {
            let codec = Codec {
                url: url.to_owned(),
                bearer_env: bearer_env.map(str::to_owned),
                ca_file: None,
                insecure,
            };
            RemoteCodec::at(&codec, "default", &SkippingClock::default()).map(drop)
        };
        // Every process has this variable.
        let token = Some("PATH");
        for url in [
            "https://codec.example",
            "http://localhost:8081",
            "http://127.0.0.1:8081",
            "http://[::1]:8081",
        ] {
            assert!(at(url, token, false).is_ok(), "{url}");
        }
        for url in [
            "http://codec.example",
            "http://localhost.example",
            "http://10.0.0.1",
        ] {
            for (token, insecure) in [(token, true), (token, false), (None, false)] {
                let refused = at(url, token, insecure).unwrap_err().to_string();
                assert!(refused.contains("https"), "{refused}");
            }
            assert!(at(url, None, true).is_ok(), "{url}");
        }
    }
    #[test]
    fn a_password_in_the_address_is_refused_and_not_shown() {
        let codec = Codec {
            url: "https://me:hunter2@codec.example".to_owned(),
            bearer_env: None,
            ca_file: None,
            insecure: false,
        };
        let refused = RemoteCodec::at(&codec, "default", &SkippingClock::default());
        let refused = refused.unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn requests_are_bounded_by_count_and_by_size() {
        let of = |size: usize| Payload {
            data: vec![0; size].into(),
            ..Payload::default()
        };
        let sizes = |payloads: &mut [Payload]| {
            let mut found: Vec<&mut Payload> = payloads.iter_mut().collect();
            let parts = parts(&mut found);
            parts.iter().map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&mut vec![of(1); 450]), [200, 200, 50]);
        assert_eq!(sizes(&mut vec![of(MOST_BYTES / 2); 5]), [2, 2, 1]);
        assert_eq!(sizes(&mut [of(1), of(MOST_BYTES + 1), of(1)]), [1, 1, 1]);
        assert_eq!(sizes(&mut []), [0; 0]);
    }
}
