//! The settings of a webhook.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Url;
use stateway_machine::Fact;
use thiserror::Error;

use super::cloud_event::{EVENT_NAMES, name};
use super::signature::Secret;
use crate::SinkStart;

/// The longest name of a webhook.
const LONGEST_NAME: usize = 64;

/// One webhook.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Its name. Its position in the log is stored under this name, so a new name starts from the beginning.
    pub name: String,
    /// The URL that events are sent to.
    pub url: String,
    /// The secrets that sign the messages. With several, each message has a signature of each, so that a
    /// receiver can change over.
    pub secrets: Vec<Secret>,
    /// Which events, by name or by the beginning of names and `*`; all of them when empty.
    pub events: Vec<String>,
    /// The maximum number of events in a message.
    pub batch: usize,
    /// How long the receiver may take to answer.
    pub timeout: Duration,
    /// The first event of a new webhook.
    pub from: SinkStart,
}

impl WebhookSettings {
    /// The defaults, for a receiver.
    #[must_use]
    pub fn new(name: impl Into<String>, url: impl Into<String>, secret: Secret) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            secrets: vec![secret],
            events: Vec::new(),
            batch: 1,
            timeout: Duration::from_secs(10),
            from: SinkStart::default(),
        }
    }

    pub(super) fn name(&self) -> Result<&str, WebhookError> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let name = self.name.as_str();
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
            return Err(WebhookError::Name(self.name.clone()));
        }
        Ok(name)
    }

    pub(super) fn url(&self) -> Result<Url, WebhookError> {
        let wrong = |why| WebhookError::Url {
            name: self.name.clone(),
            why,
        };
        let url = Url::parse(&self.url).map_err(|_| wrong("is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("has a user or a password; events are signed instead"));
        }
        Ok(url)
    }
}

/// Why webhooks cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookError {
    /// No task can be spawned here.
    #[error("webhooks need a Tokio runtime")]
    NoRuntime,
    /// The name is not valid.
    #[error("`{0}` cannot be a webhook's name: use up to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// Two webhooks have the same name.
    #[error("two webhooks are called `{0}`")]
    Twice(String),
    /// Events cannot be sent to the URL.
    #[error("the url of webhook `{name}` {why}")]
    Url {
        /// The webhook.
        name: String,
        /// What is wrong with the URL.
        why: &'static str,
    },
    /// The webhook has no secret.
    #[error("webhook `{0}` has no secret to sign with")]
    NoSecret(String),
    /// No event has this name.
    #[error("webhook `{name}`: unknown event `{events}`")]
    Events {
        /// The webhook.
        name: String,
        /// The name or pattern that no event has.
        events: String,
    },
    /// The HTTP client cannot be created.
    #[error("the HTTP client of webhook `{name}` cannot be created: {why}")]
    Client {
        /// The webhook.
        name: String,
        /// Why.
        why: String,
    },
}

/// The events a webhook wants.
#[derive(Debug)]
pub(super) struct EventFilter {
    /// Empty: all events.
    names: Option<BTreeSet<&'static str>>,
}

impl EventFilter {
    pub(super) fn new(settings: &WebhookSettings) -> Result<Self, WebhookError> {
        if settings.events.is_empty() {
            return Ok(Self { names: None });
        }
        let mut names = BTreeSet::new();
        for events in &settings.events {
            let matches = |name: &&&str| match events.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => **name == events,
            };
            let before = names.len();
            names.extend(EVENT_NAMES.iter().filter(matches));
            let known = names.len() > before || EVENT_NAMES.iter().any(|name| matches(&name));
            if !known {
                return Err(WebhookError::Events {
                    name: settings.name.clone(),
                    events: events.clone(),
                });
            }
        }
        Ok(Self { names: Some(names) })
    }

    pub(super) fn has(&self, fact: &Fact) -> bool {
        self.names
            .as_ref()
            .is_none_or(|names| names.contains(name(fact).as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> WebhookSettings {
        let secret = Secret::new("0123456789abcdef").unwrap();
        WebhookSettings::new("w", "http://127.0.0.1/", secret)
    }

    #[test]
    fn events_are_chosen_by_name_or_beginning() {
        let chosen = |events: &[&str]| {
            let mut settings = settings();
            settings.events = events.iter().map(|name| (*name).to_owned()).collect();
            EventFilter::new(&settings).map(|wanted| wanted.names.map(|names| names.len()))
        };
        assert_eq!(chosen(&[]), Ok(None));
        assert_eq!(
            chosen(&["completed", "approval-*", "completed"]),
            Ok(Some(4))
        );
        assert_eq!(chosen(&["*"]), Ok(Some(EVENT_NAMES.len())));
        assert!(chosen(&["complete"]).is_err());
        assert!(chosen(&["nothing-*"]).is_err());
    }

    #[test]
    fn a_url_must_be_one_that_can_be_posted_to() {
        for url in ["x", "ftp://x.example/", "http://u:p@x.example/"] {
            let mut settings = settings();
            settings.url = url.to_owned();
            assert!(settings.url().is_err(), "{url}");
        }
    }
}
