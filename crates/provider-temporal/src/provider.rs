//! The adapter: each verb is translate, ask the server, translate.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::{SkippingClock, page_size};
use stateway_provider_api::{
    Call, Description, Health, ListPage, ListRequest, Observation, Provider, Result, Table, Verb,
    View, one_by_one,
};

use crate::api::workflowservice::v1::{
    DescribeNamespaceRequest, DescribeWorkflowExecutionRequest, GetSystemInfoRequest,
    ListWorkflowExecutionsRequest,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::quota::Api;
use crate::response;
use crate::{CAPABILITIES, Config, ConfigError};

/// The most rows of one page; the server gives no more.
const LONGEST_PAGE: u32 = 1_000;

/// One namespace of a Temporal cluster as a provider.
pub struct TemporalProvider {
    #[allow(dead_code, reason = "used by the hints of lists")]
    id: ProviderId,
    client: Client,
    description: Arc<Description>,
}

/// Where a list continues: the server's own token.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListPosition {
    token: Vec<u8>,
}

impl TemporalProvider {
    /// A provider for this namespace. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        let clock = SkippingClock::default();
        Ok(Self {
            id,
            client: Client::new(config, &clock)?,
            description: Description::fixed(CAPABILITIES, table),
        })
    }
}

#[async_trait]
impl Provider for TemporalProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let ask = Ask {
            call,
            verb: Verb::Health,
        };
        let namespace = DescribeNamespaceRequest {
            namespace: self.client.namespace(),
        };
        self.client.describe_namespace(ask, namespace).await?;
        let request = GetSystemInfoRequest::default();
        let info = self.client.get_system_info(ask, request).await?;
        Ok(Health {
            engine_version: info.server_version,
            detail: format!("namespace {}", self.client.namespace()),
        })
    }

    async fn get(&self, call: &Call, id: &ExecutionId, _view: View) -> Result<Observation> {
        let verb = Verb::Get;
        let workflow = WorkflowRef::of(id, verb)?;
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            execution: Client::execution(&workflow),
        };
        let ask = Ask { call, verb };
        let described = self
            .client
            .describe_workflow_execution(ask, request)
            .await?;
        response::observation(verb, &workflow, &described)
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        one_by_one(self, call, ids).await
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let ask = Ask {
            call,
            verb: Verb::List,
        };
        let from: Option<ListPosition> = cursor::read(LIST, request.cursor.as_deref(), ask.verb)?;
        let size = page_size(request.page_size, LONGEST_PAGE, ask.verb)?;
        self.client.turn(ask, Api::Visibility).await?;
        let query = ListWorkflowExecutionsRequest {
            namespace: self.client.namespace(),
            page_size: i32::try_from(size).unwrap_or(i32::MAX),
            next_page_token: from.map(|from| from.token).unwrap_or_default(),
            query: String::new(),
        };
        let page = self.client.list_workflow_executions(ask, query).await?;
        let rows = page.executions.iter().map(|info| {
            let execution = info.execution.clone().unwrap_or_default();
            let id = WorkflowRef {
                workflow_id: execution.workflow_id,
                run_id: None,
            };
            response::basics(ask.verb, info, &id)
        });
        let token = page.next_page_token.clone();
        let next = (!token.is_empty()).then(|| cursor::write(LIST, &ListPosition { token }));
        Ok(ListPage {
            observations: rows.collect::<Result<_>>()?,
            next,
        })
    }
}
