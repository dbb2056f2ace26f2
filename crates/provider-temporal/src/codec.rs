//! The remote codec: an HTTP endpoint that decodes payloads which this gateway cannot read. A codec that
//! does not answer is no failure: then payloads are shown as encrypted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::api::common::v1::{Payload, Payloads};
use crate::api::failure::v1::Failure;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::config::Codec;
use crate::payload::is_readable;
use crate::{Config, ConfigError};

/// How long the codec may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 16 << 20;
/// The most payloads of one request.
const MOST_PAYLOADS: usize = 200;
/// The most causes of a failure that are decoded.
const DEEPEST: usize = 10;

/// The codec of one namespace.
#[derive(Debug)]
pub(crate) struct RemoteCodec {
    http: reqwest::Client,
    url: String,
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

/// Whether nobody else can read what is sent to this address.
fn keeps_secrets(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || is_local
}

impl RemoteCodec {
    /// The codec of a configuration, if it has one.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, ConfigError> {
        config
            .codec
            .as_ref()
            .map(|codec| Self::at(codec, &config.namespace))
            .transpose()
    }

    fn at(codec: &Codec, namespace: &str) -> Result<Self, ConfigError> {
        let wrong = |why: String| ConfigError::Codec(why);
        if !["http://", "https://"]
            .iter()
            .any(|scheme| codec.url.starts_with(scheme))
        {
            return Err(wrong(format!(
                "`{}` is not an http or https address",
                codec.url
            )));
        }
        let mut headers = HeaderMap::new();
        let header = HeaderValue::from_str(namespace).map_err(|error| wrong(error.to_string()))?;
        headers.insert("x-namespace", header);
        if let Some(name) = &codec.bearer_env {
            if !keeps_secrets(&codec.url) {
                let why = "a bearer token needs an https address, or one of this machine";
                return Err(wrong(format!("`{}`: {why}", codec.url)));
            }
            let token = std::env::var(name).map_err(|error| wrong(format!("`{name}`: {error}")))?;
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut value = value.map_err(|_| wrong(format!("`{name}` is not a token")))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // The first caller in this process chooses the implementation; every choice is good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(PATIENCE)
            // Payloads and the token are for the configured address alone.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        Ok(Self {
            http: http.build().map_err(|error| wrong(error.to_string()))?,
            url: format!("{}/decode", codec.url.trim_end_matches('/')),
        })
    }

    /// Decodes everything in these events that cannot be read.
    pub(crate) async fn decode_events(&self, events: &mut [HistoryEvent]) {
        let mut found: Vec<&mut Payload> = events.iter_mut().flat_map(payloads_of).collect();
        self.decode(&mut found).await;
    }

    /// Decodes the failures in these events.
    pub(crate) async fn decode_failures(&self, events: &mut [HistoryEvent]) {
        let mut found: Vec<&mut Payload> = Vec::new();
        for event in events {
            found.extend(failure_of(event).into_iter().flat_map(encoded_in));
        }
        self.decode(&mut found).await;
    }

    /// Decodes the failures and labels of a description.
    pub(crate) async fn decode_description(
        &self,
        described: &mut DescribeWorkflowExecutionResponse,
    ) {
        let mut found: Vec<&mut Payload> = Vec::new();
        for pending in &mut described.pending_activities {
            found.extend(pending.last_failure.iter_mut().flat_map(encoded_in));
        }
        if let Some(info) = &mut described.workflow_execution_info {
            found.extend(
                info.memo
                    .iter_mut()
                    .flat_map(|memo| memo.fields.values_mut()),
            );
        }
        self.decode(&mut found).await;
    }

    async fn decode(&self, found: &mut Vec<&mut Payload>) {
        found.retain(|payload| !is_readable(payload));
        for part in found.chunks_mut(MOST_PAYLOADS) {
            match self.ask(part).await {
                Ok(decoded) => {
                    for (payload, decoded) in part.iter_mut().zip(decoded) {
                        **payload = decoded;
                    }
                }
                Err(error) => tracing::debug!(error, "payloads not decoded"),
            }
        }
    }

    async fn ask(&self, payloads: &[&mut Payload]) -> Result<Vec<Payload>, String> {
        let bodies = Bodies {
            payloads: payloads.iter().map(|payload| body(payload)).collect(),
        };
        let said = |error: reqwest::Error| error.without_url().to_string();
        let request = self.http.post(&self.url).json(&bodies);
        let mut answer = request
            .send()
            .await
            .and_then(reqwest::Response::error_for_status)
            .map_err(said)?;
        let mut text = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(said)? {
            if text.len() + part.len() > LONGEST_ANSWER {
                return Err("the answer is too long".to_owned());
            }
            text.extend_from_slice(&part);
        }
        let bodies: Bodies = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if bodies.payloads.len() != payloads.len() {
            return Err("the answer has another number of payloads".to_owned());
        }
        bodies.payloads.into_iter().map(decoded).collect()
    }
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

fn decoded(body: Body) -> Result<Payload, String> {
    let bytes = |text: String| STANDARD.decode(text).map_err(|error| error.to_string());
    let mut metadata = HashMap::new();
    for (name, value) in body.metadata {
        metadata.insert(name, bytes(value)?.into());
    }
    Ok(Payload {
        metadata,
        data: bytes(body.data)?.into(),
    })
}

/// The payloads of arguments, results and failures in an event.
fn payloads_of(event: &mut HistoryEvent) -> Vec<&mut Payload> {
    // A run that is a retry begins with the failure of the run before it, which was decoded with that.
    let begins = matches!(
        event.attributes,
        Some(Attributes::WorkflowExecutionStartedEventAttributes(_))
    );
    if !begins && failure_of(event).is_some() {
        return failure_of(event).into_iter().flat_map(encoded_in).collect();
    }
    let Some(attributes) = &mut event.attributes else {
        return Vec::new();
    };
    let payloads: &mut Option<Payloads> = match attributes {
        Attributes::WorkflowExecutionStartedEventAttributes(it) => &mut it.input,
        Attributes::WorkflowExecutionCompletedEventAttributes(it) => &mut it.result,
        Attributes::WorkflowExecutionSignaledEventAttributes(it) => &mut it.input,
        Attributes::ActivityTaskScheduledEventAttributes(it) => &mut it.input,
        Attributes::ActivityTaskCompletedEventAttributes(it) => &mut it.result,
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(it) => &mut it.input,
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(it) => &mut it.result,
        _ => return Vec::new(),
    };
    payloads
        .iter_mut()
        .flat_map(|it| &mut it.payloads)
        .collect()
}

/// The failure in an event.
fn failure_of(event: &mut HistoryEvent) -> Option<&mut Failure> {
    match event.attributes.as_mut()? {
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
    fn a_token_is_sent_encrypted_or_to_this_machine_only() {
        let at = |url: &str, bearer_env: Option<&str>| {
            let codec = Codec {
                url: url.to_owned(),
                bearer_env: bearer_env.map(str::to_owned),
            };
            RemoteCodec::at(&codec, "default").map(drop)
        };
        // Every process has this variable.
        let token = Some("PATH");
        for url in [
            "https://codec.example",
            "http://localhost:8081",
            "http://127.0.0.1:8081",
            "http://[::1]:8081",
        ] {
            assert!(at(url, token).is_ok(), "{url}");
        }
        for url in [
            "http://codec.example",
            "http://localhost.example",
            "http://10.0.0.1",
        ] {
            let refused = at(url, token).unwrap_err().to_string();
            assert!(refused.contains("https"), "{refused}");
            assert!(at(url, None).is_ok(), "{url}");
        }
    }
}
