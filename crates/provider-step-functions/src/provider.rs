//! The adapter: each verb is translate, ask the service, translate.

mod answer;
mod define;
mod steer;

use std::sync::Arc;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};
use stateway_model::ExecutionId;
use stateway_provider_api::{
    ApplyDefinitionRequest, Call, CancelRequest, Capabilities, DefinitionProblem, DefinitionsPage,
    DefinitionsRequest, Error, Health, HistoryPage, HistoryRequest, ListPage, ListRequest,
    NativeDefinition, Observation, PauseRequest, Provider, PurgeRequest, Result, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Verb, View, WatchScope,
    WatchStream,
};

use crate::book::Book;
use crate::client::{Ask, Client, ExecutionsQuery, HistoryQuery};
use crate::error::express;
use crate::inbox::Inbox;
use crate::look::Looker;
use crate::machines::Machines;
use crate::request::{Narrowing, arn, cursor, offered, page_size, read_cursor};
use crate::telling::Teller;
use crate::{Clock, Config, ConfigError, capability, watch};

/// Names the cursors of lists.
const LIST: &str = "list";
/// Names the cursors of histories.
const HISTORY: &str = "history";

/// The provider for AWS Step Functions.
pub struct StepFunctionsProvider {
    can: Capabilities,
    config: Config,
    look: Arc<Looker>,
    inbox: Inbox,
    machines: Arc<Machines>,
}

/// Where a list goes on.
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

/// Where a history goes on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryCursor {
    t: String,
    c: Teller,
}

impl StepFunctionsProvider {
    /// A provider with the credentials of the SDK's default chain.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &Config) -> std::result::Result<Self, ConfigError> {
        Self::make(config, None)
    }

    /// A provider with these credentials, for emulators and tests.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn with_credentials(
        config: &Config,
        access_key: &str,
        secret_key: &str,
    ) -> std::result::Result<Self, ConfigError> {
        let credentials = Credentials::from_keys(access_key, secret_key, None);
        Self::make(config, Some(credentials))
    }

    fn make(
        config: &Config,
        credentials: Option<Credentials>,
    ) -> std::result::Result<Self, ConfigError> {
        config.check()?;
        let (can, clock) = (capability::of(config)?, Clock::default());
        let client = Arc::new(Client::new(config.clone(), credentials, clock.clone()));
        Ok(Self {
            can,
            inbox: Inbox::new(client.clone(), config.heartbeat()),
            machines: Arc::new(Machines::new(client.clone(), clock.clone(), config)),
            look: Arc::new(Looker {
                client,
                book: Book::default(),
                clock,
                can,
                most_pages: config.history_pages,
                people: config.activities.clone(),
            }),
            config: config.clone(),
        })
    }

    /// The time in which this provider counts its quotas and paces.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.look.clock.clone()
    }

    fn refuse_express(&self, verb: Verb) -> Result<()> {
        match self.config.express {
            true => Err(express(verb)),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Provider for StepFunctionsProvider {
    fn capabilities(&self) -> Capabilities {
        self.can
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let verb = Verb::Health;
        self.look
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
        offered(Verb::Start, &self.can)?;
        let verb = Verb::Start;
        self.start_execution(Ask { call, verb }, &request).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let verb = Verb::Get;
        let arn = arn(id, verb)?;
        self.refuse_express(verb)?;
        self.look.get(Ask { call, verb }, arn, view).await
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let verb = Verb::Observe;
        if self.config.express {
            return ids.iter().map(|_| Err(express(verb))).collect();
        }
        self.look.observe(Ask { call, verb }, ids).await
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let verb = Verb::List;
        offered(verb, &self.can)?;
        let from: Option<ListCursor> = read_cursor(LIST, request.cursor.as_deref(), verb)?;
        let size = page_size(request.page_size, verb)?;
        let narrowing = Narrowing::new(&request.hints, self.can.list_hints);
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
            status: status.as_deref(),
            size,
            token: at.t.as_deref(),
            turn_taken: false,
        };
        let page = self.look.client.executions(ask, query).await?;
        let mut rows = page.rows;
        rows.retain(|row| narrowing.may_admit(row));
        let observations = self.look.refine(ask, rows).await;
        let next = next_of_list(at, page.next, &machines, narrowing.statuses.len());
        Ok(ListPage {
            observations: observations.into_iter().collect::<Result<_>>()?,
            next: next.map(|next| cursor(LIST, &next)),
        })
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        let verb = Verb::History;
        offered(verb, &self.can)?;
        let arn = arn(&request.id, verb)?;
        let from: Option<HistoryCursor> = read_cursor(HISTORY, request.cursor.as_deref(), verb)?;
        let (token, mut teller) = from.map_or_else(Default::default, |from| (Some(from.t), from.c));
        let query = HistoryQuery {
            arn,
            size: page_size(request.page_size, verb)?,
            newest_first: false,
            with_data: false,
            token: token.as_deref(),
            turn_taken: false,
        };
        let page = self.look.client.history(Ask { call, verb }, query).await?;
        let events = page.rows.iter().map(|event| teller.tell(event)).collect();
        let next = page
            .next
            .map(|t| cursor(HISTORY, &HistoryCursor { t, c: teller }));
        Ok(HistoryPage { events, next })
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        offered(scope.verb(), &self.can)?;
        watch::all(self.look.clone(), self.machines.clone(), call).await
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let verb = Verb::Signal;
        offered(verb, &self.can)?;
        let arn = arn(&request.id, verb)?;
        self.answer(Ask { call, verb }, arn, &request).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = steer::cancel_verb(request.mode);
        offered(verb, &self.can)?;
        request.check_compensation(&self.can)?;
        let arn = arn(&request.id, verb)?;
        self.stop(Ask { call, verb }, arn, &request).await
    }

    async fn pause(&self, _: &Call, _: PauseRequest) -> Result<Observation> {
        Err(Error::unsupported(Verb::Pause))
    }

    async fn resume(&self, _: &Call, _: ResumeRequest) -> Result<Observation> {
        Err(Error::unsupported(Verb::Resume))
    }

    async fn retry_now(&self, _: &Call, _: RetryNowRequest) -> Result<Observation> {
        Err(Error::unsupported(Verb::RetryNow))
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let verb = Verb::RetryFrom;
        offered(verb, &self.can)?;
        let arn = arn(&request.id, verb)?;
        self.redrive(Ask { call, verb }, arn, &request).await
    }

    async fn purge(&self, _: &Call, _: PurgeRequest) -> Result<()> {
        Err(Error::unsupported(Verb::Purge))
    }

    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        let verb = Verb::Definitions;
        offered(verb, &self.can)?;
        self.list_definitions(Ask { call, verb }, &request).await
    }

    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let verb = Verb::Definitions;
        offered(verb, &self.can)?;
        let ask = Ask { call, verb };
        self.read_definition(ask, name, revision).await
    }

    async fn apply_definition(
        &self,
        call: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        let verb = Verb::ApplyDefinition;
        offered(verb, &self.can)?;
        self.apply(Ask { call, verb }, &request).await
    }

    async fn validate_definition(
        &self,
        call: &Call,
        source: &str,
    ) -> Result<Vec<DefinitionProblem>> {
        let verb = Verb::ApplyDefinition;
        offered(verb, &self.can)?;
        self.check_definition(Ask { call, verb }, source).await
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
