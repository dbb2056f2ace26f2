//! `stateway.v1.Triggers`: events that start executions; triggers disabled and enabled.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_definition::Definition;
use stateway_engine::{DisabledTrigger, Publish, RequestKey, SwitchTrigger};
use stateway_machine::Data;
use stateway_model::{DefinitionName, ExecutionId, ExecutionName, Payload};
use stateway_proto::v1;
use stateway_proto::v1::triggers_server::Triggers as Service;
use stateway_provider_api::Call;
use tonic::{Request, Response, Status};

use super::{Shell, validate};
use crate::convert;
use crate::engines::{Chosen, Directory, request_key};
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

    async fn disable_trigger(
        &self,
        request: Request<v1::DisableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        self.shell
            .run("DisableTrigger", request, |call, message| {
                self.disable(call, message)
            })
            .await
    }

    async fn enable_trigger(
        &self,
        request: Request<v1::EnableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        self.shell
            .run("EnableTrigger", request, |call, message| {
                self.enable(call, message)
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

impl Triggers {
    async fn disable(
        &self,
        call: Call,
        mut request: v1::DisableTriggerRequest,
    ) -> Result<v1::Trigger, Status> {
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let key = request_key(&id, "DisableTrigger", &call, &request);
        let comment = validate::text("comment", request.comment)?;
        self.switch(
            call,
            &request.name,
            Switch {
                key,
                comment,
                enabled: false,
            },
        )
        .await
    }

    async fn enable(
        &self,
        call: Call,
        mut request: v1::EnableTriggerRequest,
    ) -> Result<v1::Trigger, Status> {
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let key = request_key(&id, "EnableTrigger", &call, &request);
        let comment = String::new();
        self.switch(
            call,
            &request.name,
            Switch {
                key,
                comment,
                enabled: true,
            },
        )
        .await
    }

    /// Every engine has the same definitions, so every engine is asked.
    async fn switch(&self, call: Call, name: &str, switch: Switch) -> Result<v1::Trigger, Status> {
        let engines = self.directory.all(WHAT)?;
        let name = portable(name)?;
        let mut answer = v1::Trigger::default();
        for chosen in engines {
            let asked = chosen.engine.switch_trigger(SwitchTrigger {
                name: name.id.clone(),
                enabled: switch.enabled,
                actor: call.actor.clone(),
                comment: switch.comment.as_str().into(),
                request: switch.key.clone(),
            });
            chosen.answer(&call, asked).await?;
            answer = one(&call, chosen, &name).await?;
        }
        Ok(answer)
    }
}

/// What is asked of each engine.
struct Switch {
    key: RequestKey,
    comment: String,
    enabled: bool,
}

/// The trigger of one definition.
async fn one(
    call: &Call,
    chosen: Chosen<'_>,
    name: &DefinitionName,
) -> Result<v1::Trigger, Status> {
    let record = chosen.engine.definition(name.id.clone(), None);
    let record = chosen.answer(call, record).await?;
    let marks = chosen
        .answer(call, chosen.engine.disabled_triggers())
        .await?;
    let mark = marks.get(&name.id);
    let parsed = stateway_definition::parse(&record.source, &record.name);
    let trigger = parsed
        .ok()
        .and_then(|parsed| of(&parsed.definition, mark, chosen.engine.now()));
    Ok(v1::Trigger {
        definition: name.to_string(),
        disabled: mark.map(disabled),
        ..trigger.unwrap_or_default()
    })
}

/// The trigger of a definition as clients see it; none for a definition without one.
pub(super) fn of(
    definition: &Definition,
    mark: Option<&DisabledTrigger>,
    now: Timestamp,
) -> Option<v1::Trigger> {
    let trigger = definition.trigger.as_ref()?;
    let schedule = trigger.schedule.as_ref();
    let next = schedule.and_then(|schedule| schedule.next_after(now));
    Some(v1::Trigger {
        definition: String::new(),
        event: trigger.event.clone(),
        condition: trigger
            .condition
            .as_ref()
            .map_or_else(String::new, |condition| condition.source().to_owned()),
        schedule: schedule.map_or_else(String::new, |schedule| schedule.source().to_owned()),
        timezone: schedule
            .and_then(|schedule| schedule.timezone())
            .unwrap_or_default()
            .to_owned(),
        next_time: next.filter(|_| mark.is_none()).map(convert::timestamp),
        disabled: mark.map(disabled),
    })
}

/// Who disabled a trigger, as clients see it.
pub(super) fn disabled(mark: &DisabledTrigger) -> v1::DisabledTrigger {
    v1::DisabledTrigger {
        by: mark.by.to_string(),
        time: Some(convert::timestamp(mark.at)),
        comment: mark.comment.to_string(),
    }
}

/// `definitions/{definition}`.
pub(super) fn portable(text: &str) -> Result<DefinitionName, Status> {
    let name: DefinitionName = text
        .parse()
        .map_err(|error| Refusal::invalid("name", format!("{error}")))?;
    if name.provider.is_some() {
        let message = "only a portable definition `definitions/{definition}` can be named here";
        return Err(Refusal::invalid("name", message).into());
    }
    Ok(name)
}

fn json(payload: Option<v1::Payload>) -> Result<Data, Status> {
    let Some(payload) = payload else {
        return Ok(Data::default());
    };
    if !payload.content_type.is_empty() && payload.content_type != Payload::JSON {
        return Err(Refusal::invalid("payload", "an event's payload is JSON").into());
    }
    stateway_engine::parse_payload(&payload.data)
        .map(Arc::new)
        .map_err(|error| {
            Refusal::invalid("payload", format!("the payload is not JSON: {error}")).into()
        })
}
