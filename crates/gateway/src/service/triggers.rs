//! `stateway.v1.Triggers`: events of the outside that start executions.

use std::sync::Arc;

use stateway_engine::Publish;
use stateway_machine::Data;
use stateway_model::{DefinitionName, ExecutionId, ExecutionName, Payload};
use stateway_proto::v1;
use stateway_proto::v1::triggers_server::Triggers as Service;
use stateway_provider_api::Call;
use tonic::{Request, Response, Status};

use super::{Shell, validate};
use crate::engines::Directory;
use crate::status::Refusal;

const WHAT: &str = "triggers";

/// The service over every built-in engine.
pub(crate) struct Triggers {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
}

#[tonic::async_trait]
impl Service for Triggers {
    async fn publish_event(
        &self,
        request: Request<v1::PublishEventRequest>,
    ) -> Result<Response<v1::PublishEventResponse>, Status> {
        self.shell
            .run("PublishEvent", request, |call, message| {
                self.publish(call, message)
            })
            .await
    }
}

impl Triggers {
    async fn publish(
        &self,
        call: Call,
        request: v1::PublishEventRequest,
    ) -> Result<v1::PublishEventResponse, Status> {
        let chosen = self.directory.one("provider", &request.provider, WHAT)?;
        let name = validate::text("event", request.event)?;
        if name.is_empty() {
            return Err(Refusal::invalid("event", "an event needs a name").into());
        }
        let id = validate::request_id(&request.id)?;
        let event = Publish {
            name,
            payload: json(request.payload)?,
            id: id.as_str().into(),
            labels: validate::labels(request.labels)?.into_iter().collect(),
            actor: call.actor.clone(),
        };
        let published = chosen.answer(&call, chosen.engine.publish(event)).await?;
        let executions = published.started.iter().filter_map(|id| {
            let id = ExecutionId::new(id).ok()?;
            Some(ExecutionName::new(chosen.id.clone(), id).to_string())
        });
        let refused =
            published
                .refused
                .into_iter()
                .map(|(definition, reason)| v1::RefusedTrigger {
                    definition: DefinitionName {
                        provider: None,
                        id: definition,
                    }
                    .to_string(),
                    reason,
                });
        Ok(v1::PublishEventResponse {
            executions: executions.collect(),
            refused: refused.collect(),
        })
    }
}

fn json(payload: Option<v1::Payload>) -> Result<Data, Status> {
    let Some(payload) = payload else {
        return Ok(Data::default());
    };
    if !payload.content_type.is_empty() && payload.content_type != Payload::JSON {
        return Err(Refusal::invalid("payload", "an event's payload is JSON").into());
    }
    serde_json::from_slice(&payload.data)
        .map(Arc::new)
        .map_err(|error| {
            Refusal::invalid("payload", format!("the payload is not JSON: {error}")).into()
        })
}
