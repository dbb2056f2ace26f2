//! The adapter: each verb is translate, ask the service, translate.

use std::sync::Arc;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    ApplyDefinitionRequest, Call, CancelRequest, DefinitionProblem, DefinitionsPage,
    DefinitionsRequest, Description, Health, HistoryPage, HistoryRequest, ListPage, ListRequest,
    NativeDefinition, Observation, Provider, Result, RetryFromRequest, SignalRequest, StartRequest,
    Table, Verb, View, WatchScope, WatchStream,
};

use crate::cache::Cache;
use crate::client::{Ask, Client, ExecutionsQuery};
use crate::error::express;
use crate::inbox::Inbox;
use crate::machines::Machines;
use crate::reader::Reader;
use crate::request::{LARGEST_PAGE, Narrowing, arn};
use crate::{
    CAPABILITIES, Clock, Config, ConfigError, EXPRESS_CAPABILITIES, definitions, history, signal,
    start, steer, watch,
};

/// The provider for AWS Step Functions.
pub struct StepFunctionsProvider {
    id: ProviderId,
    pub(crate) config: Config,
    description: Arc<Description>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) inbox: Inbox,
    pub(crate) machines: Arc<Machines>,
}

/// Where a list continues.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListCursor {
    /// The state machine's ARN.
    m: String,
    /// The status's position.
    s: usize,
    /// The service's own token; none at the beginning.
    t: Option<String>,
}

impl StepFunctionsProvider {
    /// A provider with the credentials of the SDK's default chain.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        Self::with_credentials(id, config, table, None)
    }

    /// A provider with these credentials, for emulators and tests.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn with_keys(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
        (access_key, secret_key): (&str, &str),
    ) -> std::result::Result<Self, ConfigError> {
        let credentials = Credentials::from_keys(access_key, secret_key, None);
        Self::with_credentials(id, config, table, Some(credentials))
    }

    fn with_credentials(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
        credentials: Option<Credentials>,
    ) -> std::result::Result<Self, ConfigError> {
        config.check()?;
        let clock = Clock::default();
        let client = Arc::new(Client::new(config.clone(), credentials, clock.clone()));
        let capabilities = if config.express {
            EXPRESS_CAPABILITIES
        } else {
            CAPABILITIES
        };
        Ok(Self {
            id,
            description: Description::fixed(capabilities, table),
            inbox: Inbox::new(client.clone(), clock.clone(), config.heartbeat()),
            machines: Arc::new(Machines::new(client.clone(), clock.clone(), config)),
            reader: Arc::new(Reader {
                client,
                cache: Cache::default(),
                clock,
                most_pages: config.history_pages,
                people: config.activities.clone(),
            }),
            config: config.clone(),
        })
    }

    /// The time in which this provider counts its quotas and paces.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.reader.clock.clone()
    }

    fn refuse_express(&self, verb: Verb) -> Result<()> {
        if self.config.express {
            Err(express(verb))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Provider for StepFunctionsProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let verb = Verb::Health;
        self.reader
            .client
            .machines(Ask { call, verb }, 1, None)
            .await?;
        Ok(Health {
            engine_version: String::new(),
            detail: match self.config.endpoint.as_str() {
                "" => "AWS Step Functions answers".to_owned(),
                endpoint => format!("{endpoint} answers"),
            },
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let verb = Verb::Start;
        self.description.check(verb)?;
        start::start(self, Ask { call, verb }, &request).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let verb = Verb::Get;
        let arn = arn(id, verb)?;
        self.refuse_express(verb)?;
        self.reader.get(Ask { call, verb }, arn, view).await
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let verb = Verb::Observe;
        if self.config.express {
            return ids.iter().map(|_| Err(express(verb))).collect();
        }
        self.reader.observe(Ask { call, verb }, ids).await
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let verb = Verb::List;
        self.description.check(verb)?;
        let from: Option<ListCursor> = cursor::read(LIST, request.cursor.as_deref(), verb)?;
        let size = page_size(request.page_size, LARGEST_PAGE, verb)?;
        let narrowing = Narrowing::new(&request.hints, &self.description.table, &self.id);
        let ask = Ask { call, verb };
        let only = narrowing.machine.as_deref();
        let machines = self.machines.listed(ask, only).await?;
        let at = match from {
            Some(from) => from,
            None => match machines.first() {
                Some(first) => ListCursor {
                    m: first.clone(),
                    s: 0,
                    t: None,
                },
                None => return Ok(ListPage::default()),
            },
        };
        let status = narrowing.statuses.get(at.s).cloned().flatten();
        let query = ExecutionsQuery {
            machine: &at.m,
            status,
            size,
            token: at.t.as_deref(),
            turn_taken: false,
        };
        let page = self.reader.client.executions(ask, query).await?;
        let mut rows = page.rows;
        rows.retain(|row| narrowing.may_admit(row));
        let observations = self.reader.refine(ask, rows).await;
        let next = next_of_list(at, page.next, &machines, narrowing.statuses.len());
        Ok(ListPage {
            observations: observations.into_iter().collect::<Result<_>>()?,
            next: next.map(|next| cursor::write(LIST, &next)),
        })
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        let verb = Verb::History;
        self.description.check(verb)?;
        request.order.check(&self.description.capabilities, verb)?;
        history::history(self, Ask { call, verb }, &request).await
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        self.description.check(scope.verb())?;
        watch::all(self.reader.clone(), self.machines.clone(), call).await
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let verb = Verb::Signal;
        self.description.check(verb)?;
        let arn = arn(&request.id, verb)?;
        signal::signal(self, Ask { call, verb }, arn, &request).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = request.verb();
        self.description.check(verb)?;
        request.check_compensation(&self.description.capabilities)?;
        let arn = arn(&request.id, verb)?;
        steer::cancel(self, Ask { call, verb }, arn, &request).await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let verb = Verb::RetryFrom;
        self.description.check(verb)?;
        let arn = arn(&request.id, verb)?;
        steer::retry_from(self, Ask { call, verb }, arn, &request).await
    }

    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        let verb = Verb::Definitions;
        self.description.check(verb)?;
        definitions::list(self, Ask { call, verb }, &request).await
    }

    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let verb = Verb::Definitions;
        self.description.check(verb)?;
        let ask = Ask { call, verb };
        definitions::read(self, ask, name, revision).await
    }

    async fn apply_definition(
        &self,
        call: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        let verb = Verb::ApplyDefinition;
        self.description.check(verb)?;
        definitions::apply(self, Ask { call, verb }, &request).await
    }

    async fn validate_definition(
        &self,
        call: &Call,
        source: &str,
    ) -> Result<Vec<DefinitionProblem>> {
        let verb = Verb::ApplyDefinition;
        self.description.check(verb)?;
        definitions::validate(self, Ask { call, verb }, source).await
    }
}

/// The next page: of the same machine and status, of its next status, of the next machine.
fn next_of_list(
    at: ListCursor,
    token: Option<String>,
    machines: &[String],
    statuses: usize,
) -> Option<ListCursor> {
    if token.is_some() {
        return Some(ListCursor { t: token, ..at });
    }
    if at.s + 1 < statuses {
        return Some(ListCursor {
            s: at.s + 1,
            t: None,
            ..at
        });
    }
    let next = machines.iter().find(|machine| **machine > at.m)?;
    Some(ListCursor {
        m: next.clone(),
        s: 0,
        t: None,
    })
}
