//! `stateway.v1.Triggers`: events that start executions; triggers disabled and enabled.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_access::{KnownLabels, Object, Permission};
use stateway_definition::Definition;
use stateway_model::{DefinitionName, ExecutionName};
use stateway_proto::v1;
use stateway_proto::v1::triggers_server::Triggers as Service;
use stateway_provider_api::{DisabledTrigger, PublishRequest, SwitchTriggerRequest, Verb};
use tonic::{Request, Response, Status};

use super::{Shell, home, validate};
use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;
use crate::upstream::{Directory, Topic, Upstream};

/// The service over every provider with triggers.
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
        call: ApiCall,
        request: v1::PublishEventRequest,
    ) -> Result<v1::PublishEventResponse, Status> {
        let parent = validate::required("parent", &request.parent)?;
        let upstreams = match parent {
            "providers/-" => self.directory.in_order(&call.access, Topic::TRIGGERS)?,
            one => {
                let topic = Topic::TRIGGERS;
                vec![self.directory.one(&call.access, "parent", one, topic)?]
            }
        };
        let event = validate::text("event", request.event)?;
        if event.is_empty() {
            return Err(Refusal::invalid("event", "an event needs a name").into());
        }
        let labels = validate::labels(request.labels)?;
        // Which definitions the event starts is up to the provider, so all of them must be allowed.
        for upstream in &upstreams {
            let object = Object {
                provider: Some(upstream.id.as_str()),
                definition: None,
                labels: KnownLabels::All(&labels),
                role: None,
            };
            let what = format!("every definition on provider `{}`", upstream.id);
            call.require(Permission::Start, &object, &what)?;
        }
        let publish = PublishRequest {
            event,
            payload: request.payload.map(convert::payload_from),
            labels,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        let mut answer = v1::PublishEventResponse::default();
        for upstream in &upstreams {
            let publish = publish.clone();
            let guarded = upstream.within(&call);
            let published = guarded.triggers(Verb::PublishEvent, |triggers, call| {
                triggers.publish(call, publish)
            });
            let published = published.await?;
            let executions = published.started.into_iter();
            answer.executions.extend(
                executions.map(|id| ExecutionName::new(upstream.id.clone(), id).to_string()),
            );
            for refused in published.refused {
                // On the default provider the event is answered in full.
                if self
                    .is_elsewhere(&call, upstream, &refused.definition)
                    .await?
                {
                    continue;
                }
                answer.refused.push(v1::RefusedTrigger {
                    definition: definition_name(&refused.definition),
                    message: refused.reason,
                });
            }
        }
        Ok(answer)
    }

    /// Whether the trigger of a definition starts executions on another provider.
    async fn is_elsewhere(
        &self,
        call: &ApiCall,
        upstream: &Upstream,
        name: &str,
    ) -> Result<bool, Status> {
        let upstreams = self
            .directory
            .in_order(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        if upstreams.len() < 2 {
            return Ok(false);
        }
        let places = home::places(call, &upstreams, name).await?;
        let home = places.home;
        Ok(home.is_some_and(|home| home.upstream.id != upstream.id))
    }

    async fn disable(
        &self,
        call: ApiCall,
        request: v1::DisableTriggerRequest,
    ) -> Result<v1::Trigger, Status> {
        self.directory.all(&call.access, Topic::TRIGGERS)?;
        let switch = SwitchTriggerRequest {
            definition: trigger_of(&request.name)?.id.to_string(),
            enabled: false,
            comment: validate::text("comment", request.comment)?,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        self.switch(call, switch).await
    }

    async fn enable(
        &self,
        call: ApiCall,
        request: v1::EnableTriggerRequest,
    ) -> Result<v1::Trigger, Status> {
        self.directory.all(&call.access, Topic::TRIGGERS)?;
        let switch = SwitchTriggerRequest {
            definition: trigger_of(&request.name)?.id.to_string(),
            enabled: true,
            comment: String::new(),
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        self.switch(call, switch).await
    }

    /// The trigger starts executions on the default provider of the definition, so it is switched there.
    async fn switch(
        &self,
        call: ApiCall,
        switch: SwitchTriggerRequest,
    ) -> Result<v1::Trigger, Status> {
        let mut upstreams = self.directory.in_order(&call.access, Topic::TRIGGERS)?;
        let definition = DefinitionName {
            provider: None,
            id: switch.definition.as_str().into(),
        };
        for upstream in &upstreams {
            call.require_definition(Permission::Steer, &upstream.id, &definition)?;
        }
        if upstreams.len() > 1 {
            let places = home::places(&call, &upstreams, &switch.definition).await?;
            let home = places.home.map(|home| home.upstream);
            upstreams = home.map_or_else(|| vec![upstreams[0]], |home| vec![home]);
        }
        let mut answer = v1::Trigger::default();
        for upstream in upstreams {
            let guarded = upstream.within(&call);
            let (request, name) = (switch.clone(), &switch.definition);
            let switched = guarded.triggers(Verb::SwitchTrigger, |triggers, call| {
                triggers.switch(call, request)
            });
            switched.await?;
            answer = current(&call, upstream, name).await?;
        }
        Ok(answer)
    }
}

/// The trigger of one definition.
async fn current(call: &ApiCall, upstream: &Upstream, name: &str) -> Result<v1::Trigger, Status> {
    let guarded = upstream.within(call);
    let found = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
        definitions.get_portable(call, name, None)
    });
    let found = found.await?;
    let mark = found.disabled_trigger.as_ref();
    let parsed = stateway_definition::parse(&found.source, &found.name);
    let trigger = parsed
        .ok()
        .and_then(|parsed| of(&parsed.definition, mark, Timestamp::now()));
    Ok(v1::Trigger {
        name: trigger_name(&found.name),
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
        name: String::new(),
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
        next_start_time: next.filter(|_| mark.is_none()).map(convert::timestamp),
        disabled: mark.map(disabled),
    })
}

/// Who disabled a trigger, as clients see it.
pub(super) fn disabled(mark: &DisabledTrigger) -> v1::DisabledTrigger {
    v1::DisabledTrigger {
        disabled_by: mark.by.clone(),
        disable_time: Some(convert::timestamp(mark.time)),
        comment: mark.comment.clone(),
    }
}

/// The name of the trigger of a portable definition.
pub(super) fn trigger_name(id: &str) -> String {
    format!("{}/trigger", definition_name(id))
}

/// The definition of `definitions/{definition}/trigger`.
fn trigger_of(text: &str) -> Result<DefinitionName, Status> {
    let wrong = || {
        let message = "`name` is not of the form `definitions/{definition}/trigger`";
        Status::from(Refusal::invalid("name", message))
    };
    portable(text.strip_suffix("/trigger").ok_or_else(wrong)?)
}

/// `definitions/{definition}`.
pub(super) fn portable(text: &str) -> Result<DefinitionName, Status> {
    let name: DefinitionName = text
        .parse()
        .map_err(|error| Refusal::invalid("name", format!("{error}")))?;
    if name.provider.is_some() {
        let message = "`name` must be a portable definition: `definitions/{definition}`";
        return Err(Refusal::invalid("name", message).into());
    }
    Ok(name)
}

/// The name of a portable definition.
pub(super) fn definition_name(id: &str) -> String {
    DefinitionName {
        provider: None,
        id: id.into(),
    }
    .to_string()
}
