//! A provider with some of its capabilities turned off, for every adapter in the same way.
//!
//! Verbs that are off are refused before the adapter is called, and observations lose what is off:
//! steps, attempts, payloads, labels. Adapters know nothing of it.

mod approvals;
mod extension;
mod strip;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use stateway_model::ExecutionId;
use thiserror::Error as ThisError;

use crate::adapter::lock;
use crate::filter::Hints;
use crate::{
    ActiveGateway, ApplyDefinitionRequest, Approvals, Call, CancelRequest, Capabilities, Count,
    DefinitionProblem, DefinitionsPage, DefinitionsRequest, Description, Error, EventLog, Health,
    HistoryPage, HistoryRequest, ListPage, ListRequest, NativeDefinition, Observation,
    PauseRequest, PortableDefinitions, Provider, PurgeRequest, Recovery, Result, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Store, Triggers, Verb, View,
    WatchScope, WatchStream, Workers,
};

/// A name that is not the name of a capability.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("`{0}` in `disable` is not a capability")]
pub struct UnknownCapability(pub String);

/// A provider with some of its capabilities turned off.
pub struct Limited<P: ?Sized> {
    provider: Arc<P>,
    allowed: Capabilities,
    /// The last description of the provider and what is left of it.
    described: Mutex<Option<(Arc<Description>, Arc<Description>)>>,
}

impl<P: Provider + ?Sized> Limited<P> {
    /// The provider without the capabilities of these names.
    ///
    /// # Errors
    /// A name that is not the name of a capability.
    pub fn without<'n>(
        provider: Arc<P>,
        disabled: impl IntoIterator<Item = &'n String>,
    ) -> std::result::Result<Self, UnknownCapability> {
        let mut allowed = Capabilities::ALL;
        for name in disabled {
            allowed = allowed
                .without(name)
                .ok_or_else(|| UnknownCapability(name.clone()))?;
        }
        Ok(Self::to(provider, allowed))
    }

    /// The provider with these capabilities at most.
    #[must_use]
    pub const fn to(provider: Arc<P>, allowed: Capabilities) -> Self {
        Self {
            provider,
            allowed,
            described: Mutex::new(None),
        }
    }

    /// What is left of the capabilities of the provider. Without steps or attempts in the
    /// observations, counts of the provider could differ from what its lists show, so that they are
    /// off too.
    fn left(&self, of: Capabilities) -> Capabilities {
        let mut left = of.and(self.allowed);
        left.count &= (left.steps, left.retries) == (of.steps, of.retries);
        left
    }

    fn check(&self, verb: Verb) -> Result<Capabilities> {
        let description = self.describe();
        description.check(verb)?;
        Ok(description.capabilities)
    }

    fn shown(&self, seen: Result<Observation>) -> Result<Observation> {
        seen.map(|seen| strip::observation(seen, &self.allowed))
    }
}

#[async_trait]
impl<P: Provider + ?Sized> Provider for Limited<P> {
    fn describe(&self) -> Arc<Description> {
        let whole = self.provider.describe();
        let mut described = lock(&self.described);
        if let Some((of, left)) = &*described
            && Arc::ptr_eq(of, &whole)
        {
            return Arc::clone(left);
        }
        let left = Arc::new(Description {
            generation: whole.generation,
            capabilities: self.left(whole.capabilities),
            table: Arc::clone(&whole.table),
        });
        *described = Some((whole, Arc::clone(&left)));
        left
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        self.provider.health(call).await
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let can = self.check(Verb::Start)?;
        request.check_capabilities(&can)?;
        self.shown(self.provider.start(call, request).await)
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let can = self.capabilities();
        // Reading more than can be shown would only cost the engine.
        let view = if can.payloads || can.steps {
            view
        } else {
            View::Basic
        };
        self.shown(self.provider.get(call, id, view).await)
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let seen = self.provider.observe(call, ids).await;
        seen.into_iter().map(|seen| self.shown(seen)).collect()
    }

    async fn reconnected(&self) {
        self.provider.reconnected().await;
    }

    fn restart_count(&self) -> u64 {
        self.provider.restart_count()
    }

    fn note_violation(&self, violation: &Error) {
        self.provider.note_violation(violation);
    }

    async fn list(&self, call: &Call, mut request: ListRequest) -> Result<ListPage> {
        let can = self.check(Verb::List)?;
        if !can.list_hints {
            request.hints = Hints::none();
        }
        let mut page = self.provider.list(call, request).await?;
        let rows = page.observations.into_iter();
        page.observations = rows
            .map(|row| strip::observation(row, &self.allowed))
            .collect();
        Ok(page)
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        self.check(Verb::Count)?;
        let mut counts = self.provider.count(call).await?;
        for count in &mut counts {
            // As in lists: without its steps an execution may show another state.
            let example = count.example.clone();
            count.example = strip::observation(example, &self.allowed);
        }
        Ok(counts)
    }

    async fn history(&self, call: &Call, mut request: HistoryRequest) -> Result<HistoryPage> {
        let can = self.check(Verb::History)?;
        if !can.payloads {
            request.view = View::Basic;
        }
        request.order.check(&can, Verb::History)?;
        self.provider.history(call, request).await
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        self.check(scope.verb())?;
        let stream = self.provider.watch(call, scope).await?;
        let allowed = self.allowed;
        let shown = stream.map(move |item| item.map(|item| strip::watched(item, &allowed)));
        Ok(shown.boxed())
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        self.check(Verb::Signal)?;
        self.shown(self.provider.signal(call, request).await)
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let can = self.check(request.verb())?;
        request.check_compensation(&can)?;
        self.shown(self.provider.cancel(call, request).await)
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        self.check(Verb::Pause)?;
        self.shown(self.provider.pause(call, request).await)
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        self.check(Verb::Resume)?;
        self.shown(self.provider.resume(call, request).await)
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        self.check(Verb::RetryNow)?;
        self.shown(self.provider.retry_now(call, request).await)
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        self.check(Verb::RetryFrom)?;
        self.shown(self.provider.retry_from(call, request).await)
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        self.check(Verb::Purge)?;
        self.provider.purge(call, request).await
    }

    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        self.check(Verb::Definitions)?;
        self.provider.definitions(call, request).await
    }

    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        self.check(Verb::Definitions)?;
        self.provider.definition(call, name, revision).await
    }

    async fn apply_definition(
        &self,
        call: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        self.check(Verb::ApplyDefinition)?;
        self.provider.apply_definition(call, request).await
    }

    async fn validate_definition(
        &self,
        call: &Call,
        source: &str,
    ) -> Result<Vec<DefinitionProblem>> {
        self.check(Verb::ApplyDefinition)?;
        self.provider.validate_definition(call, source).await
    }

    fn is_embedded(&self) -> bool {
        self.provider.is_embedded()
    }

    fn active_gateway(&self) -> Option<ActiveGateway> {
        self.provider.active_gateway()
    }

    fn portable_definitions(&self) -> Option<&dyn PortableDefinitions> {
        let extension = self.provider.portable_definitions();
        extension.filter(|_| self.allowed.portable_definitions)
    }

    fn triggers(&self) -> Option<&dyn Triggers> {
        let extension = self.provider.triggers();
        extension.filter(|_| self.allowed.triggers)
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        let extension = self.provider.approvals();
        extension
            .filter(|_| self.allowed.approvals)
            .map(|_| self as &dyn Approvals)
    }

    fn workers(&self) -> Option<&dyn Workers> {
        let extension = self.provider.workers();
        extension.filter(|_| self.allowed.workers)
    }

    fn event_log(&self) -> Option<&dyn EventLog> {
        let extension = self.provider.event_log();
        extension
            .filter(|_| self.allowed.event_log)
            .map(|_| self as &dyn EventLog)
    }

    fn recovery(&self) -> Option<&dyn Recovery> {
        let extension = self.provider.recovery();
        extension.filter(|_| self.allowed.recovery)
    }

    fn store(&self) -> Option<&dyn Store> {
        let extension = self.provider.store();
        extension.filter(|_| self.allowed.store)
    }
}

#[cfg(test)]
mod tests;
