//! One delivery: signed, posted, and repeated until the receiver accepts it.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};

use super::cloud_event::CloudEvent;
use super::settings::{WebhookError, WebhookSettings};
use super::signature::Secret;
use crate::Clock;
use crate::http::one_line;
use crate::retry_after::retry_after;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the first failure; each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, unless the receiver asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// No receiver may ask for more.
const LONGEST_ASKED: Duration = Duration::from_secs(60 * 60);
/// About how long a batch may be, in bytes; an event alone may be longer.
const BATCH_BYTES: usize = 512 * 1024;

const ONE: &str = "application/cloudevents+json; charset=utf-8";
const MANY: &str = "application/cloudevents-batch+json; charset=utf-8";

/// The result of the delivery of some events.
pub(super) enum Delivered {
    /// The receiver accepted this many events.
    All(usize),
    /// The receiver no longer exists.
    Gone,
    /// Another process may own the store: nothing more is sent from here.
    Lost,
}

/// The result of the delivery of a message.
pub(super) enum Pushed {
    /// The number of events in the message.
    Done(usize),
    Gone,
    TooLong,
}

/// The result of one attempt.
enum Attempt {
    Taken,
    Gone,
    TooLong,
    Failed {
        why: String,
        asked: Option<Duration>,
    },
}

/// The way to a receiver.
#[derive(Debug)]
pub(super) struct Post {
    client: Client,
    url: Url,
    secrets: Vec<Secret>,
}

/// A message, the same at every attempt but for its time.
struct Letter {
    id: String,
    kind: &'static str,
    body: Vec<u8>,
}

impl Post {
    pub(super) fn new(settings: &WebhookSettings) -> Result<Self, WebhookError> {
        if settings.secrets.is_empty() {
            return Err(WebhookError::NoSecret(settings.name.clone()));
        }
        let url = settings.url()?;
        // The call fails if the process has chosen a provider before; that one is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(settings.timeout)
            // The receiver is the one that the operator wrote down, and no other.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")));
        if url.scheme() == "http" {
            // The system's authorities need not exist if they are not used.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| WebhookError::Client {
            name: settings.name.clone(),
            why: error.to_string(),
        })?;
        Ok(Self {
            client,
            url,
            secrets: settings.secrets.clone(),
        })
    }

    /// Sends some events until they are taken. `tell` learns how each attempt went.
    pub(super) async fn push(
        &self,
        events: &[CloudEvent],
        batch: bool,
        clock: &Clock,
        tell: &(dyn Fn(Result<(), &str>) + Send + Sync),
    ) -> Pushed {
        let (letter, count) = letter(events, batch);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(&letter, clock).await {
                Attempt::Taken => {
                    tell(Ok(()));
                    return Pushed::Done(count);
                }
                Attempt::Gone => return Pushed::Gone,
                Attempt::TooLong if count > 1 => return Pushed::TooLong,
                Attempt::TooLong => tell(Err("413: the event is too long for the receiver")),
                Attempt::Failed { why, asked } => {
                    tell(Err(&why));
                    if let Some(asked) = asked {
                        tokio::time::sleep(asked.min(LONGEST_ASKED)).await;
                        continue;
                    }
                }
            }
            tokio::time::sleep(shortened(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, letter: &Letter, clock: &Clock) -> Attempt {
        let timestamp = clock.now().as_second();
        let signatures: Vec<_> = self
            .secrets
            .iter()
            .map(|secret| secret.sign(&letter.id, timestamp, &letter.body))
            .collect();
        let id = HeaderValue::from_bytes(letter.id.as_bytes());
        let id = id.unwrap_or_else(|_| HeaderValue::from_static("unnamed"));
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, letter.kind)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures.join(" "))
            .body(letter.body.clone());
        match request.send().await {
            Ok(response) => judge(response).await,
            // The address may hold a key of the receiver's.
            Err(error) => Attempt::Failed {
                why: chain(&error.without_url()),
                asked: None,
            },
        }
    }
}

async fn judge(mut response: Response) -> Attempt {
    let status = response.status();
    // A little of the body is enough: the rest is not wanted, and a short one read to its end
    // leaves the connection for the next.
    let words = response.chunk().await.ok().flatten().unwrap_or_default();
    match status.as_u16() {
        200..=299 => Attempt::Taken,
        410 => Attempt::Gone,
        413 => Attempt::TooLong,
        code => {
            let asked = response.headers().get(RETRY_AFTER);
            let asked = asked.and_then(|asked| asked.to_str().ok());
            Attempt::Failed {
                why: format!("{code}: {}", one_line(&words)),
                asked: asked.and_then(|asked| retry_after(asked, SystemTime::now())),
            }
        }
    }
}

/// A message of the first of these events, and how many are in it.
fn letter(events: &[CloudEvent], batch: bool) -> (Letter, usize) {
    if !batch {
        let event = &events[0];
        let letter = Letter {
            id: event.id.clone(),
            kind: ONE,
            body: json(event),
        };
        return (letter, 1);
    }
    let mut body = vec![b'['];
    let mut count = 0;
    for event in events {
        let event = json(event);
        if count > 0 && body.len() + event.len() > BATCH_BYTES {
            break;
        }
        if count > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&event);
        count += 1;
    }
    body.push(b']');
    let (first, last) = (&events[0].id, &events[count - 1].id);
    let letter = Letter {
        id: format!("{first}..{last}"),
        kind: MANY,
        body,
    };
    (letter, count)
}

fn json(event: &CloudEvent) -> Vec<u8> {
    serde_json::to_vec(event).expect("an event came from JSON and becomes JSON")
}

/// A random pause between half and all of this time, so that not every receiver is called at the same moment.
fn shortened(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness the pause is whole, which is as good.
    let part = match getrandom::fill(&mut byte) {
        Ok(()) => f64::from(byte[0]) / 510.0,
        Err(_) => 0.0,
    };
    pause.mul_f64(1.0 - part)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        why = format!("{why}: {error}");
        source = error.source();
    }
    why
}
