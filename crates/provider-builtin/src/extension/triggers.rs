//! Publishing events, disabling and enabling triggers.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_engine::{Publish, SwitchTrigger};
use stateway_provider_api::{
    Call, PublishRequest, Published, RefusedTrigger, Result, SwitchTriggerRequest, Triggers, Verb,
};

use crate::BuiltinProvider;
use crate::request::{data, key};
use stateway_hosted::id_of;

#[async_trait]
impl Triggers for BuiltinProvider {
    async fn publish(&self, call: &Call, request: PublishRequest) -> Result<Published> {
        let event = Publish {
            name: request.event,
            payload: data(Verb::PublishEvent, "payload", request.payload.as_ref())?,
            id: request.request_id.as_str().into(),
            labels: request.labels,
            actor: Arc::clone(&call.actor),
        };
        let published = self.engine.publish(event);
        let published = self.line.carry(call, Verb::PublishEvent, published).await?;
        let refused = published.refused.into_iter();
        Ok(Published {
            started: published
                .started
                .iter()
                .filter_map(|id| id_of(id))
                .collect(),
            refused: refused
                .map(|(definition, reason)| RefusedTrigger {
                    definition: definition.to_string(),
                    reason,
                })
                .collect(),
        })
    }

    async fn switch(&self, call: &Call, request: SwitchTriggerRequest) -> Result<()> {
        let wanted = if request.enabled { "enable" } else { "disable" };
        let texts = [request.definition.as_str(), wanted, &request.comment];
        let request_key = key(call, Verb::SwitchTrigger, &texts, None, &request.request_id);
        let switched = self.engine.switch_trigger(SwitchTrigger {
            name: request.definition.as_str().into(),
            enabled: request.enabled,
            actor: Arc::clone(&call.actor),
            comment: request.comment.as_str().into(),
            request: request_key,
        });
        self.line.carry(call, Verb::SwitchTrigger, switched).await
    }
}
