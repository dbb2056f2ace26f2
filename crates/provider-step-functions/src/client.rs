//! The service's calls, each within its quota and its deadline. Nothing is decided here, but for
//! when a call is made again ([`again`]).
//!
//! The SDK says nothing to the log: at its finest level it writes down keys and headers.

mod again;
mod gates;
mod machines;
mod query;
mod tasks;

use std::future::Future;
use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_credential_types::Credentials;
use aws_sdk_sfn::config::Region;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::types::ExecutionStatus;
use aws_smithy_http_client::tls::Provider::Rustls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use stateway_provider_api::adapter::Quotas;
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};
use tokio::sync::OnceCell;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::error::from_sdk;
use crate::quota::{Api, quotas, used_up};
use crate::response::{self, Basics, ItemCounts, Machine, Page, RunsDefinition};
use crate::{Clock, Config, Event};

pub(crate) use query::{ExecutionsQuery, HistoryQuery, NewMachine, StartQuery};

/// What speaks to the service. Connects at the first call, because the SDK's chain is asked then.
pub(crate) struct Client {
    config: Config,
    credentials: Option<Credentials>,
    clock: Clock,
    line: OnceCell<Line>,
}

struct Line {
    sdk: aws_sdk_sfn::Client,
    quotas: Arc<Quotas<Api>>,
}

/// The turn of the quota that a call needs.
#[derive(Clone, Copy)]
enum Turn {
    /// It is waited for.
    Of(Api),
    /// It was taken before.
    Taken(Api),
}

/// What is asked, and by whom.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'c> {
    pub(crate) call: &'c Call,
    pub(crate) verb: Verb,
}

impl Client {
    pub(crate) fn new(config: Config, credentials: Option<Credentials>, clock: Clock) -> Self {
        Self {
            config,
            credentials,
            clock,
            line: OnceCell::new(),
        }
    }

    async fn line(&self) -> &Line {
        let line = self.line.get_or_init(|| Box::pin(self.connect()));
        line.with_subscriber(NoSubscriber::default()).await
    }

    async fn connect(&self) -> Line {
        let http = aws_smithy_http_client::Builder::new().tls_provider(Rustls(CryptoMode::Ring));
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http.build_https())
            .retry_config(again::config());
        if !self.config.region.is_empty() {
            loader = loader.region(Region::new(self.config.region.clone()));
        }
        if !self.config.endpoint.is_empty() {
            loader = loader.endpoint_url(&self.config.endpoint);
        }
        if !self.config.profile.is_empty() {
            loader = loader.profile_name(&self.config.profile);
        }
        if let Some(credentials) = &self.credentials {
            loader = loader.credentials_provider(credentials.clone());
        }
        let shared = loader.load().await;
        let region = shared.region().map(ToString::to_string).unwrap_or_default();
        let config = aws_sdk_sfn::config::Builder::from(&shared)
            .retry_classifier(again::Veto)
            .interceptor(again::Turns);
        Line {
            sdk: aws_sdk_sfn::Client::from_conf(config.build()),
            quotas: Arc::new(quotas(&region, &self.config.quotas, &self.clock)),
        }
    }

    /// Takes a turn of the quota if enough is left for others; never waits.
    pub(crate) async fn spare(&self, api: Api, reserve: f64) -> bool {
        self.line().await.quotas.spare(api, reserve)
    }

    /// How many turns are refilled per second.
    pub(crate) async fn rate(&self, api: Api) -> f64 {
        self.line().await.quotas.rate(api)
    }

    /// How many turns could be taken now if that much is left for others.
    pub(crate) async fn turns(&self, api: Api, reserve: f64) -> usize {
        self.line().await.quotas.turns(api, reserve)
    }

    /// One call: its turn, its deadline, its error.
    async fn ask<T, E, F>(&self, ask: Ask<'_>, turn: Turn, send: F) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        F: AsyncFnOnce(&aws_sdk_sfn::Client) -> std::result::Result<T, SdkError<E, HttpResponse>>,
    {
        let whole = async {
            let line = self.line().await;
            let api = match turn {
                Turn::Of(api) => {
                    let wait = line.quotas.take(api, ask.verb, ask.call);
                    let wait = wait.map_err(used_up)?;
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    api
                }
                Turn::Taken(api) => api,
            };
            let whose = (line.quotas.clone(), api);
            again::known(whose, ask.call.deadline, send(&line.sdk))
                .with_subscriber(NoSubscriber::default())
                .await
                .map_err(|error| from_sdk(ask.verb, &error))
        };
        within(ask, whole).await
    }

    pub(crate) async fn describe(
        &self,
        ask: Ask<'_>,
        arn: &str,
    ) -> Result<DescribeExecutionOutput> {
        self.ask(ask, Turn::Of(Api::DescribeExecution), async |sdk| {
            sdk.describe_execution().execution_arn(arn).send().await
        })
        .await
    }

    /// The definition that an execution runs.
    pub(crate) async fn definition(&self, ask: Ask<'_>, arn: &str) -> Result<RunsDefinition> {
        let turn = Turn::Of(Api::DescribeStateMachineForExecution);
        self.ask_definition(ask, turn, arn).await
    }

    /// The same, when a turn of the quota was taken before.
    pub(crate) async fn definition_in_turn(
        &self,
        ask: Ask<'_>,
        arn: &str,
    ) -> Result<RunsDefinition> {
        let turn = Turn::Taken(Api::DescribeStateMachineForExecution);
        self.ask_definition(ask, turn, arn).await
    }

    async fn ask_definition(&self, ask: Ask<'_>, turn: Turn, arn: &str) -> Result<RunsDefinition> {
        let told = self
            .ask(ask, turn, async |sdk| {
                let request = sdk.describe_state_machine_for_execution();
                request.execution_arn(arn).send().await
            })
            .await?;
        Ok(response::runs_definition(&told, &self.config.activities))
    }

    /// A page of a history. `turn_taken` when a turn of the quota was taken before.
    pub(crate) async fn history(
        &self,
        ask: Ask<'_>,
        page: HistoryQuery<'_>,
    ) -> Result<Page<Event>> {
        let turn = if page.turn_taken {
            Turn::Taken(Api::GetExecutionHistory)
        } else {
            Turn::Of(Api::GetExecutionHistory)
        };
        let told = self
            .ask(ask, turn, async |sdk| {
                sdk.get_execution_history()
                    .execution_arn(page.arn)
                    .max_results(i32::try_from(page.size).unwrap_or(1_000))
                    .reverse_order(page.newest_first)
                    .include_execution_data(page.with_data)
                    .set_next_token(page.token.map(str::to_owned))
                    .send()
                    .await
            })
            .await?;
        Ok(Page {
            rows: told.events.iter().map(response::event).collect(),
            next: told.next_token,
        })
    }

    pub(crate) async fn executions(
        &self,
        ask: Ask<'_>,
        query: ExecutionsQuery<'_>,
    ) -> Result<Page<Basics>> {
        let turn = if query.turn_taken {
            Turn::Taken(Api::ListExecutions)
        } else {
            Turn::Of(Api::ListExecutions)
        };
        let told = self
            .ask(ask, turn, async |sdk| {
                sdk.list_executions()
                    .state_machine_arn(query.machine)
                    .set_status_filter(query.status.map(ExecutionStatus::from))
                    .max_results(i32::try_from(query.size).unwrap_or(1_000))
                    .set_next_token(query.token.map(str::to_owned))
                    .send()
                    .await
            })
            .await?;
        Ok(Page {
            rows: told.executions.iter().map(response::row).collect(),
            next: told.next_token,
        })
    }

    pub(crate) async fn machines(
        &self,
        ask: Ask<'_>,
        size: i32,
        token: Option<String>,
    ) -> Result<Page<Machine>> {
        let told = self
            .ask(ask, Turn::Of(Api::ListStateMachines), async |sdk| {
                let request = sdk.list_state_machines().max_results(size);
                request.set_next_token(token).send().await
            })
            .await?;
        Ok(Page {
            rows: told.state_machines.iter().map(response::machine).collect(),
            next: told.next_token,
        })
    }

    /// How many items of a Map Run are where. The turn of the quota was taken before.
    pub(crate) async fn items_in_turn(
        &self,
        ask: Ask<'_>,
        map_run: &str,
    ) -> Result<Option<ItemCounts>> {
        let turn = Turn::Taken(Api::DescribeMapRun);
        let told = self.ask(ask, turn, async |sdk| {
            sdk.describe_map_run().map_run_arn(map_run).send().await
        });
        Ok(told.await?.item_counts.as_ref().map(response::item_counts))
    }

    pub(crate) async fn start(
        &self,
        ask: Ask<'_>,
        start: StartQuery<'_>,
    ) -> Result<response::Started> {
        let told = self
            .ask(ask, Turn::Of(Api::StartExecution), async |sdk| {
                sdk.start_execution()
                    .state_machine_arn(start.machine)
                    .name(start.name)
                    .input(start.input)
                    .set_trace_header(start.trace_header.map(str::to_owned))
                    .send()
                    .await
            })
            .await?;
        Ok(response::started(&told))
    }

    pub(crate) async fn stop(
        &self,
        ask: Ask<'_>,
        arn: &str,
        (error, cause): (&str, &str),
    ) -> Result<()> {
        self.ask(ask, Turn::Of(Api::StopExecution), async |sdk| {
            let request = sdk.stop_execution().execution_arn(arn).error(error);
            request.cause(cause).send().await
        })
        .await
        .map(drop)
    }

    pub(crate) async fn redrive(&self, ask: Ask<'_>, arn: &str, token: &str) -> Result<()> {
        self.ask(ask, Turn::Of(Api::RedriveExecution), async |sdk| {
            let request = sdk.redrive_execution().execution_arn(arn);
            request.client_token(token).send().await
        })
        .await
        .map(drop)
    }
}

/// Ends with the deadline, whatever the future does.
async fn within<T>(ask: Ask<'_>, whole: impl Future<Output = Result<T>>) -> Result<T> {
    let deadline = tokio::time::Instant::from_std(ask.call.deadline);
    match tokio::time::timeout_at(deadline, Box::pin(whole)).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = "Step Functions did not answer in time";
            Err(Error::new(ErrorKind::Timeout, ask.verb, message))
        }
    }
}
