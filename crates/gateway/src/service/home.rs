//! The default provider of a portable definition: where new executions start when no provider is named, and
//! where its trigger starts executions.
//!
//! Several providers can have the same definition. The one that stores that it is the default is the
//! default (`MigrateDefinition` sets that); otherwise the first one that has the definition, the built-in
//! engine before the others. On every other provider the trigger is disabled in the name of the gateway, so
//! that nothing starts twice.

use std::sync::Arc;

use futures::future::join_all;
use stateway_definition::Trigger;
use stateway_provider_api::{
    Call, ErrorKind, PortableDefinition, RequestId, SwitchTriggerRequest, Verb,
};

use crate::access::ApiCall;
use crate::upstream::{CallError, Topic, Upstream};

/// In whose name the gateway disables triggers that run elsewhere.
pub(super) const GATEWAY: &str = "stateway";

/// A definition as one provider has it.
pub(super) struct Placed<'u> {
    pub(super) upstream: &'u Arc<Upstream>,
    pub(super) found: PortableDefinition,
}

/// The default provider and the others that have a definition.
pub(super) struct Places<'u> {
    /// None when no provider has it.
    pub(super) home: Option<Placed<'u>>,
    pub(super) others: Vec<Placed<'u>>,
}

/// Where a definition is. A provider that does not answer could be the default one, so its failure is the
/// answer.
pub(super) async fn places<'u>(
    call: &ApiCall,
    upstreams: &[&'u Arc<Upstream>],
    name: &str,
) -> Result<Places<'u>, CallError> {
    let asked = upstreams.iter().map(|upstream| async move {
        let guarded = upstream.within(call);
        let found = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
            definitions.get_portable(call, name, None)
        });
        match found.await {
            Ok(found) => Ok(Some(Placed { upstream, found })),
            Err(failed) if failed.error.kind == ErrorKind::NotFound => Ok(None),
            Err(failed) => Err(failed),
        }
    });
    let mut placed = Vec::new();
    for found in join_all(asked).await {
        placed.extend(found?);
    }
    let home = placed.iter().position(|it| it.found.home).unwrap_or(0);
    let home = (home < placed.len()).then(|| placed.remove(home));
    Ok(Places {
        home,
        others: placed,
    })
}

/// The trigger of a definition.
pub(super) fn trigger_of(found: &PortableDefinition) -> Option<Trigger> {
    let parsed = stateway_definition::parse(&found.source, &found.name);
    parsed.ok()?.definition.trigger
}

/// Disables the trigger of a definition in the name of the gateway, because another provider starts its
/// executions.
pub(super) async fn disable_elsewhere(
    call: &ApiCall,
    placed: &Placed<'_>,
    home: &Upstream,
) -> Result<(), CallError> {
    if trigger_of(&placed.found).is_none()
        || placed.found.disabled_trigger.is_some()
        || !Topic::TRIGGERS.is_offered_by(placed.upstream)
    {
        return Ok(());
    }
    let comment = format!("starts executions on {}", home.id.resource_name());
    switch(call, placed, (false, &comment), GATEWAY).await
}

/// Enables a trigger, if the gateway disabled it.
pub(super) async fn enable_here(call: &ApiCall, placed: &Placed<'_>) -> Result<(), CallError> {
    let mark = placed.found.disabled_trigger.as_ref();
    if mark.is_none_or(|mark| mark.by != GATEWAY) {
        return Ok(());
    }
    switch(call, placed, (true, ""), GATEWAY).await
}

/// Disables or enables a trigger in somebody's name.
pub(super) async fn switch(
    call: &ApiCall,
    placed: &Placed<'_>,
    (enabled, comment): (bool, &str),
    by: &str,
) -> Result<(), CallError> {
    let call: &Call = call;
    let call = Call {
        actor: by.into(),
        ..call.clone()
    };
    let switch = SwitchTriggerRequest {
        definition: placed.found.name.clone(),
        enabled,
        comment: comment.to_owned(),
        request_id: fresh_id(),
    };
    let guarded = placed.upstream.within(&call);
    let switched = guarded.triggers(Verb::SwitchTrigger, |triggers, call| {
        triggers.switch(call, switch)
    });
    switched.await
}

/// The id of a request that the gateway makes on its own: it depends on what was read before, so a repeated
/// request of a caller is decided again.
pub(super) fn fresh_id() -> RequestId {
    let id = uuid::Uuid::new_v4().to_string();
    id.parse().expect("a UUID is letters, digits and `-`")
}
