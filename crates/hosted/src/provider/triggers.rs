//! Triggers of portable definitions. An event is published by the gateway: it starts an execution of every
//! definition that it fits, with an id that follows from the event, so that a repeated event finds it. A
//! schedule is an alarm of the object of the definition.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_definition::digest;
use stateway_machine::Data;
use stateway_model::{ErrorKind, ExecutionId};
use stateway_provider_api::{
    Call, Error, PublishRequest, Published, RefusedTrigger, Result, ScheduledStart,
    SwitchTriggerRequest, Triggers, Verb,
};

use super::definitions::{decode, disabled};
use super::request::{Body, data};
use super::{HostPort, HostedProvider};
use crate::definition_object::{DefinitionWork, StoredDefinition};
use crate::message::{ObjectRequest, StartWork, VERSION, Work};

/// How many definitions are read at a time.
const PAGE: usize = 500;

#[async_trait]
impl<P: HostPort> Triggers for HostedProvider<P> {
    async fn publish(&self, call: &Call, request: PublishRequest) -> Result<Published> {
        let payload = data(Verb::PublishEvent, "payload", request.payload.as_ref())?;
        let mut body = Body::of(call, Verb::PublishEvent, &request.request_id)
            .text(&request.event)
            .text(&request.labels.len().to_string());
        for (name, value) in &request.labels {
            body = body.text(name).text(value);
        }
        let body = body.payload(request.payload.as_ref()).finish();
        let event = Event {
            name: request.event,
            payload,
            labels: request.labels,
            body,
        };
        let mut published = Published::default();
        for (name, kept) in self.all_definitions(call, Verb::PublishEvent).await? {
            match self.publish_to(call, &event, &name, &kept).await? {
                Started::Not => {}
                Started::Execution(id) => published.started.push(id),
                Started::Refused(reason) => published.refused.push(RefusedTrigger {
                    definition: name,
                    reason,
                }),
            }
        }
        Ok(published)
    }

    async fn switch(&self, call: &Call, request: SwitchTriggerRequest) -> Result<()> {
        let verb = Verb::SwitchTrigger;
        let wanted = if request.enabled { "enable" } else { "disable" };
        let body = Body::of(call, verb, &request.request_id)
            .text(&request.definition)
            .text(wanted)
            .text(&request.comment)
            .finish();
        let work = DefinitionWork::Switch {
            enabled: request.enabled,
            by: Arc::clone(&call.actor),
            comment: request.comment.into(),
        };
        let switched = self.define(call, verb, &request.definition, (body, work));
        switched.await.map(drop)
    }
}

struct Event {
    name: String,
    payload: Data,
    labels: stateway_model::Labels,
    body: Body,
}

/// What an event led to at one definition.
enum Started {
    Not,
    Execution(ExecutionId),
    Refused(String),
}

impl<P: HostPort> HostedProvider<P> {
    async fn publish_to(
        &self,
        call: &Call,
        event: &Event,
        name: &str,
        kept: &StoredDefinition,
    ) -> Result<Started> {
        let verb = Verb::PublishEvent;
        let trigger = kept.current_trigger();
        let Some(trigger) = trigger.filter(|it| !it.event.is_empty() && it.event == event.name)
        else {
            return Ok(Started::Not);
        };
        let id = &digest(format!("{}/{name}", event.body.id).as_bytes())[..26];
        let id = ExecutionId::new(id).map_err(|error| Error::invalid(verb, error.to_string()))?;
        let request = |work| ObjectRequest {
            v: VERSION,
            id: Arc::clone(&event.body.id),
            at: self.now(),
            body: Some(Arc::clone(&event.body.digest)),
            work,
            claim: None,
        };
        if kept
            .trigger
            .as_ref()
            .is_some_and(|it| it.disabled.is_some())
        {
            // A repeated event is answered as the first time.
            return match self.send(call, verb, &id, &request(Work::Asked)).await {
                Ok(_) => Ok(Started::Execution(id)),
                Err(error) if error.engine_answered() => {
                    Ok(Started::Refused("the trigger is disabled".to_owned()))
                }
                Err(error) => Err(error),
            };
        }
        match trigger.admits(&event.payload) {
            Ok(true) => {}
            Ok(false) => return Ok(Started::Not),
            Err(why) => return Ok(Started::Refused(why)),
        }
        if let Err(error) = self.check_portable(&kept.source, name) {
            return Ok(Started::Refused(error.into_message()));
        }
        let start = StartWork {
            definition: name.into(),
            source: Arc::clone(&kept.source),
            labels: event.labels.clone(),
            not_before: None,
            input: Arc::clone(&event.payload),
            by: Arc::clone(&call.actor),
            child: None,
        };
        let start = request(Work::Start(Box::new(start)));
        match self.send(call, verb, &id, &start).await {
            Ok(_) => Ok(Started::Execution(id)),
            Err(error) if is_refusal(&error) => Ok(Started::Refused(error.into_message())),
            Err(error) => Err(error),
        }
    }

    /// Every definition with its name.
    async fn all_definitions(
        &self,
        call: &Call,
        verb: Verb,
    ) -> Result<Vec<(String, StoredDefinition)>> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let port = &self.host.port;
            let page = port.definitions(call, after.as_deref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            for found in page {
                match decode(&found.value) {
                    Ok(kept) => all.push((found.object.clone(), kept)),
                    // One that cannot be read must not keep the others from starting.
                    Err(error) => {
                        tracing::error!(definition = %found.object, verb = %verb.as_str(), "no trigger: {error}");
                    }
                }
                after = Some(found.object);
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The next starts by schedules.
    pub(super) async fn scheduled(&self, call: &Call) -> Result<Vec<ScheduledStart>> {
        if !self.host.port.has_schedules() {
            return Ok(Vec::new());
        }
        let all = self.all_definitions(call, Verb::Queue).await?;
        let scheduled = all.into_iter().filter_map(|(definition, kept)| {
            let stored = kept.trigger.as_ref()?;
            let schedule = kept.current_trigger()?.schedule?;
            let since = Timestamp::from_millisecond(stored.since).ok()?;
            let disabled = disabled(stored);
            let next = schedule.next_after(since.max(self.now()));
            Some(ScheduledStart {
                definition,
                next_time: next.filter(|_| disabled.is_none() && !stored.never),
                disabled,
            })
        });
        let mut scheduled: Vec<_> = scheduled.collect();
        scheduled.sort_by_key(|start| (start.next_time.is_none(), start.next_time));
        Ok(scheduled)
    }
}

/// Whether an error says that this definition cannot be started: it must not keep the event from the others. A request id
/// that was used for another event is the error of the caller.
fn is_refusal(error: &Error) -> bool {
    let is_answer = error.engine_answered() || error.kind == ErrorKind::InvalidArgument;
    is_answer && !error.kind.is_retryable() && error.reason() != "REQUEST_ID_REUSED"
}
