//! What the engine calls by itself: HTTP steps and webhooks, as an operator may say it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use stateway_engine::{
    AllowList, Engine, HttpCaller, HttpSettings, Secret, SinkStart, WebhookSettings, Webhooks,
};

use crate::config::{ConfigError, duration};
pub use stateway_hosted::Http;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name. Where it has got to is kept under it.
    pub name: String,
    /// Where events are posted to.
    pub url: String,
    /// The variable that holds the secret they are signed with.
    pub secret_env: Option<String>,
    /// Or the file that holds it.
    pub secret_file: Option<PathBuf>,
    /// The secret of before, while receivers change over.
    pub previous_secret_env: Option<String>,
    /// Or the file that holds it.
    pub previous_secret_file: Option<PathBuf>,
    /// Which events; all of them when there are none.
    #[serde(default)]
    pub events: Vec<String>,
    /// How many events may go together.
    #[serde(default = "one")]
    pub batch: usize,
    /// How long the receiver may take to answer.
    #[serde(default = "ten_seconds", deserialize_with = "duration")]
    pub timeout: Duration,
    /// Where it begins when it was never there before.
    #[serde(default)]
    pub from: From,
}

/// Where a new webhook begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// With the oldest event there is.
    #[default]
    Beginning,
    /// With the next one.
    Now,
}

const fn one() -> usize {
    1
}

const fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

/// What calls out, for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Reach {
    _http: HttpCaller,
    pub(crate) webhooks: Webhooks,
}

impl Reach {
    pub(crate) fn new(
        engine: &Engine,
        id: &str,
        http: &Http,
        webhooks: &[Webhook],
    ) -> Result<Self, ConfigError> {
        let settings = http_settings(http)?;
        let caller = HttpCaller::spawn(engine, &settings);
        let caller = caller.map_err(|error| ConfigError::Reach(error.to_string()))?;
        let settings: Vec<_> = webhooks
            .iter()
            .map(Webhook::settings)
            .collect::<Result<_, _>>()?;
        let webhooks = Webhooks::spawn(engine, id, &settings);
        Ok(Self {
            _http: caller,
            webhooks: webhooks.map_err(|error| ConfigError::Reach(error.to_string()))?,
        })
    }

    /// What a person should know of it; empty when all is well.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let statuses = self.webhooks.statuses().into_iter();
        let told = statuses.filter_map(|status| {
            let name = &status.name;
            if status.stopped {
                return Some(format!(
                    "webhook `{name}` answered 410 (gone), so no events are sent to it"
                ));
            }
            status.failing_since?;
            let (behind, why) = (status.behind, &status.last_error);
            Some(format!("webhook `{name}` is {behind} behind: {why}"))
        });
        told.collect()
    }
}

/// How HTTP steps are done by this configuration.
///
/// # Errors
/// An entry of `http.allow` is not one.
pub fn http_settings(http: &Http) -> Result<HttpSettings, ConfigError> {
    let allow = AllowList::new(&http.allow, http.allow_private);
    Ok(HttpSettings {
        allow: allow.map_err(|error| ConfigError::Reach(format!("`http.allow`: {error}")))?,
        capacity: http.capacity,
        timeout: http.timeout,
        connect_timeout: http.connect_timeout,
        max_response_bytes: http.max_response_bytes,
    })
}

impl Webhook {
    fn settings(&self) -> Result<WebhookSettings, ConfigError> {
        let present = (&self.secret_env, &self.secret_file);
        let previous = (&self.previous_secret_env, &self.previous_secret_file);
        let Some(secret) = self.secret(present)? else {
            return Err(self.wrong("needs `secret_env` or `secret_file`"));
        };
        let mut settings = WebhookSettings::new(&self.name, &self.url, secret);
        settings.secrets.extend(self.secret(previous)?);
        settings.events.clone_from(&self.events);
        settings.batch = self.batch;
        settings.timeout = self.timeout;
        settings.from = match self.from {
            From::Beginning => SinkStart::Beginning,
            From::Now => SinkStart::Now,
        };
        Ok(settings)
    }

    /// Reads a secret from its configured source. Errors never quote the secret.
    fn secret(
        &self,
        from: (&Option<String>, &Option<PathBuf>),
    ) -> Result<Option<Secret>, ConfigError> {
        let (place, text) = match from {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(self.wrong("has its secret in a variable and in a file"));
            }
            (Some(name), None) => {
                let text =
                    stateway_provider_api::adapter::secret_variable(name).map_err(str::to_owned);
                (format!("the variable {name}"), text)
            }
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
                (file.display().to_string(), text)
            }
        };
        let secret = text.and_then(|text| Secret::new(&text).map_err(str::to_owned));
        let secret = secret.map_err(|why| self.wrong(&format!("has no secret in {place}: {why}")));
        secret.map(Some)
    }

    fn wrong(&self, why: &str) -> ConfigError {
        ConfigError::Reach(format!("webhook `{}` {why}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateway_provider_api::table::compiled_in;

    use crate::{BuiltinProvider, Config};

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    /// A provider, and the folder of its store, which has to outlive it.
    fn opened(text: &str) -> Result<(BuiltinProvider, tempfile::TempDir), ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(text);
        config.path = folder.path().join("store.db");
        let table = compiled_in("builtin").unwrap();
        let provider = BuiltinProvider::new(&"main".parse().unwrap(), &config, table)?;
        Ok((provider, folder))
    }

    #[test]
    fn everything_that_may_be_said_is_understood() {
        let text = r#"
            http = { allow = ["https://*.example.org:8443/v2"], allow_private = true, timeout = "5s" }
            [[webhooks]]
            name = "audit"
            url = "https://audit.example/"
            secret_env = "SECRET"
            previous_secret_file = "old"
            events = ["completed", "approval-*"]
            batch = 100
            timeout = "3s"
            from = "now"
        "#;
        let config = config(text);
        assert_eq!(config.http.timeout, Duration::from_secs(5));
        let webhook = &config.webhooks[0];
        assert_eq!((webhook.batch, webhook.from), (100, From::Now));
    }

    #[test]
    fn a_key_that_is_not_known_is_refused() {
        for wrong in [
            "http = { alow = [] }",
            "webhooks = [{ name = \"a\" }]",
            "webhooks = [{ name = \"a\", url = \"http://x\", secret = \"in the open\" }]",
            "webhooks = [{ name = \"a\", url = \"http://x\", from = \"yesterday\" }]",
        ] {
            assert!(toml::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_said_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let short = folder.path().join("short");
        std::fs::write(&short, "hidden").unwrap();
        let webhook = |more: &str| {
            format!("webhooks = [{{ name = \"a\", url = \"http://127.0.0.1:9/\", {more} }}]")
        };
        let short = webhook(&format!("secret_file = {:?}", short.display().to_string()));
        for (text, words) in [
            ("http = { allow = [\"api.example.com\"] }", "`http.allow`"),
            (&webhook("batch = 1"), "needs `secret_env` or `secret_file`"),
            (
                &webhook("secret_env = \"A\", secret_file = \"b\""),
                "and in a file",
            ),
            (
                &webhook("secret_env = \"STATEWAY_TEST_NO_SUCH\""),
                "STATEWAY_TEST_NO_SUCH",
            ),
            (&short, "shorter than 16 bytes"),
        ] {
            let Err(error) = opened(text) else {
                panic!("{text} was taken")
            };
            let error = error.to_string();
            assert!(
                error.contains(words) && !error.contains("hidden"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_webhook_that_is_behind_is_told_with_the_health() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "a secret of enough bytes\n").unwrap();
        let provider = opened(&format!(
            "webhooks = [{{ name = \"a\", url = \"http://127.0.0.1:9/\", secret_file = {:?} }}]",
            secret.display().to_string()
        ));
        let (provider, _store) = provider.unwrap();
        let reach = provider.reach().unwrap();
        assert_eq!(reach.trouble(), [""; 0]);
        let source = "name: gate\nsteps: [{name: a, signal: go}]".to_owned();
        let apply = stateway_engine::ApplyDefinition {
            source,
            source_name: "gate.yaml".to_owned(),
            request: None,
        };
        provider.engine().apply(apply).await.unwrap();
        let start = stateway_engine::Start {
            definition: "gate".into(),
            id: None,
            input: Default::default(),
            labels: Default::default(),
            not_before: None,
            actor: "ada".into(),
            request: stateway_engine::RequestKey {
                id: "r".into(),
                body: [0; 16],
            },
        };
        provider.engine().start(start).await.unwrap();
        while reach.trouble().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let told = reach.trouble().join("");
        assert!(told.starts_with("webhook `a` is 1 behind: "), "{told}");
    }
}
