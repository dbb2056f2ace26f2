//! What a test works with: a provider, the service's own client beside it, and a worker.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_sfn::config::{BehaviorVersion, Credentials, Region};
use jiff::Timestamp;
use libtest_mimic::Failed;
use serde_json::{Value, json};
use stateway_model::{Execution, ExecutionId, Payload, SubState};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, Mapper, Provider, StartDefinition, StartRequest, Table, View};
use stateway_provider_step_functions::{Config, ConfigError, StepFunctionsProvider};

use super::emulator::Emulator;

/// How long a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(40);

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Rig {
    pub(crate) provider: StepFunctionsProvider,
    pub(crate) service: aws_sdk_sfn::Client,
    pub(crate) endpoint: String,
    mapper: Mapper,
    table: Arc<Table>,
    /// Nobody else has it.
    pub(crate) unique: String,
}

pub(crate) fn emulated(config: &Config) -> Result<StepFunctionsProvider, ConfigError> {
    StepFunctionsProvider::with_keys(
        "aws".parse().expect("an id"),
        config,
        compiled_in("step-functions").expect("a table"),
        ("test", "test"),
    )
}

/// A task that the worker took.
pub(crate) struct Task {
    token: String,
}

impl Rig {
    pub(crate) fn new(emulator: &Emulator) -> Self {
        let config = Config {
            region: "us-east-1".to_owned(),
            endpoint: emulator.endpoint(),
            ..Config::default()
        };
        let provider = emulated(&config);
        let http = aws_smithy_http_client::Builder::new().build_http();
        let service = aws_sdk_sfn::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(emulator.endpoint())
            .credentials_provider(Credentials::from_keys("test", "test", None))
            .http_client(http)
            .build();
        let table = compiled_in("step-functions").expect("a table");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            provider: provider.expect("a good configuration"),
            service: aws_sdk_sfn::Client::from_conf(service),
            endpoint: emulator.endpoint(),
            mapper: Mapper::new("live".parse().expect("an id")),
            table,
            unique: format!("live-{}-{number}", std::process::id()),
        }
    }

    pub(crate) fn call() -> Call {
        Call::within(Duration::from_secs(20))
    }

    /// An activity of this test's own; its ARN.
    pub(crate) async fn activity(&self, name: &str) -> Result<String, Failed> {
        let name = format!("{}-{name}", self.unique);
        let made = self.service.create_activity().name(name).send().await;
        Ok(made.map_err(told)?.activity_arn)
    }

    /// A state machine of this test's own; its name.
    pub(crate) async fn machine(&self, definition: &Value) -> Result<String, Failed> {
        let made = self
            .service
            .create_state_machine()
            .name(&self.unique)
            .definition(definition.to_string())
            .role_arn("arn:aws:iam::000000000000:role/sfn");
        made.send().await.map_err(told)?;
        Ok(self.unique.clone())
    }

    pub(crate) fn start_request(&self, input: &str) -> StartRequest {
        StartRequest {
            definition: StartDefinition::native(self.unique.clone()),
            options: Default::default(),
            execution_id: None,
            input: Some(Payload::json(input.to_owned())),
            labels: stateway_model::Labels::new(),
            delay: None,
            request_id: format!("{}-run", self.unique)
                .parse()
                .expect("a request id"),
        }
    }

    /// Makes a machine and starts it.
    pub(crate) async fn run(&self, states: &Value, first: &str) -> Result<ExecutionId, Failed> {
        self.machine(&json!({"StartAt": first, "States": states}))
            .await?;
        let started = self
            .provider
            .start(&Self::call(), self.start_request("{}"))
            .await;
        Ok(started.map_err(told)?.id)
    }

    pub(crate) async fn get(&self, id: &ExecutionId) -> Result<Execution, Failed> {
        let seen = self.provider.get(&Self::call(), id, View::Full).await;
        Ok(self
            .mapper
            .execution(&self.table, seen.map_err(told)?, Timestamp::now()))
    }

    /// Asks until the execution shows what is wanted.
    pub(crate) async fn until(
        &self,
        id: &ExecutionId,
        what: &str,
        wanted: impl Fn(&Execution) -> bool,
    ) -> Result<Execution, Failed> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.get(id).await?;
            if wanted(&seen) {
                return Ok(seen);
            }
            if Instant::now() > deadline {
                return Err(format!("not {what} after {PATIENCE:?}, but {seen:#?}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn until_shown(
        &self,
        id: &ExecutionId,
        wanted: SubState,
    ) -> Result<Execution, Failed> {
        self.until(id, wanted.as_str(), |seen| seen.sub_state == wanted)
            .await
    }

    /// Takes the next task of an activity.
    pub(crate) async fn take(&self, activity: &str) -> Result<Task, Failed> {
        let polled = self
            .service
            .get_activity_task()
            .activity_arn(activity)
            .worker_name("live")
            .send();
        let task = within(polled).await?.map_err(told)?;
        match task.task_token {
            Some(token) => Ok(Task { token }),
            None => Err("no task came".into()),
        }
    }

    pub(crate) async fn fail(&self, task: Task, error: &str) -> Result<(), Failed> {
        let sent = self.service.send_task_failure().task_token(task.token);
        sent.error(error)
            .cause("the card was refused")
            .send()
            .await
            .map_err(told)?;
        Ok(())
    }

    pub(crate) async fn succeed(&self, task: Task) -> Result<(), Failed> {
        let sent = self.service.send_task_success().task_token(task.token);
        sent.output("{\"done\":true}").send().await.map_err(told)?;
        Ok(())
    }
}

/// Ends with a deadline.
async fn within<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.map_err(|_| format!("nothing came for {PATIENCE:?}").into())
}

/// An error and everything underneath it.
pub(crate) fn told(error: impl std::error::Error) -> Failed {
    let mut line = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        line = format!("{line}: {source}");
        at = source.source();
    }
    line.into()
}

/// Fails the test with what was expected.
pub(crate) fn ensure(holds: bool, what: &str, seen: &impl std::fmt::Debug) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(format!("{what}, but {seen:#?}").into())
    }
}
