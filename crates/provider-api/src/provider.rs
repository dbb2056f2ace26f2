//! The trait that every adapter implements. Its documentation is the contract.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use stateway_model::ExecutionId;

use crate::{
    ApplyDefinitionRequest, Call, CancelRequest, Capabilities, Count, DefinitionProblem,
    DefinitionsPage, DefinitionsRequest, Description, Error, Health, HistoryPage, HistoryRequest,
    ListPage, ListRequest, NativeDefinition, Observation, PauseRequest, PurgeRequest, Result,
    ResumeRequest, RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Verb, View,
    WatchScope, WatchStream,
};
use crate::{Approvals, EventLog, PortableDefinitions, Recovery, Store, Triggers, Workers};

/// The address of the gateway that owns a shared store, now and after each change; none while this gateway owns
/// it, and while the address is not known.
pub type ActiveGateway = BoxStream<'static, Option<Arc<str>>>;

/// An adapter to one workflow engine.
///
/// An adapter implements `describe`, `health`, `get`, `observe`, and the methods of the capabilities it
/// has. A method that requires a capability answers [`ErrorKind::Unsupported`] unless an adapter
/// implements it; the contract kit checks that every capability that is on has its method.
///
/// # Contract
///
/// **Truth.** A provider reports what the engine shows, verbatim, and never a sub-state. What the
/// engine does not show is `None` or empty; it is not guessed, and "unknown" is never "zero". There
/// is one exception: some engines remove an execution as soon as a cancel or kill has ended it. The
/// answer to that write, and only that answer, then has the native state that the engine shows for
/// executions that were ended in this way.
///
/// **Replicas.** An observation depends on the engine alone. Two gateways that read the same execution
/// in the same state report the same, whatever either of them read before, because the etag of an
/// execution is computed from its observation.
///
/// **Capabilities.** A verb whose capability is off answers [`ErrorKind::Unsupported`]. No verb
/// is ignored without an error. Capabilities and table may arrive after the start and change at a
/// reconnect; [`Provider::describe`] returns the current ones. To turn a capability off for one
/// provider, wrap the adapter in [`Limited`](crate::Limited); adapters have no such option.
///
/// **Idempotency.** Every write carries a `request_id`. With the matching capability the same id
/// and body give the same answer however often they are sent, also after a restart of the
/// gateway; the same id with another body answers [`ErrorKind::AlreadyExists`] with reason
/// `REQUEST_ID_REUSED`. A provider uses the mechanisms of the engine for this and keeps no state
/// itself.
///
/// **Consistency.** A write that was answered is visible to the next `get` through the same
/// provider. Lists may lag behind.
///
/// **Finished executions.** They can be read until the engine removes them, then they are
/// [`ErrorKind::NotFound`]. A write to a finished execution answers
/// [`ErrorKind::FailedPrecondition`] with reason `ALREADY_FINISHED`. Exceptions: cancelling a cancelled execution succeeds, and `retry_from` and `purge`
/// are meant for finished executions.
///
/// **Cancellation safety.** Any future may be dropped at any await. A dropped read leaves no
/// trace; a dropped write may or may not have happened, and repeating it with the same
/// `request_id` settles it.
///
/// **Deadlines.** Each call carries its deadline and must end by it, with
/// [`ErrorKind::Timeout`] if the engine has not answered. A slow answer to one call delays no
/// other.
///
/// **Errors.** [`ErrorKind::Throttled`] when the engine limits the rate, with the delay if the
/// engine sends one; [`ErrorKind::Unavailable`] when it cannot be reached; [`ErrorKind::Malformed`]
/// when its answer cannot be understood. A provider does not retry on its own beyond what the
/// deadline allows, and no message contains a secret or a stack trace.
///
/// [`ErrorKind::Unsupported`]: crate::ErrorKind::Unsupported
/// [`ErrorKind::AlreadyExists`]: crate::ErrorKind::AlreadyExists
/// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
/// [`ErrorKind::FailedPrecondition`]: crate::ErrorKind::FailedPrecondition
/// [`ErrorKind::Timeout`]: crate::ErrorKind::Timeout
/// [`ErrorKind::Throttled`]: crate::ErrorKind::Throttled
/// [`ErrorKind::Unavailable`]: crate::ErrorKind::Unavailable
/// [`ErrorKind::Malformed`]: crate::ErrorKind::Malformed
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The capabilities of this provider, and the table that classifies its observations.
    ///
    /// - Must be fast: the gateway calls it for every request and keeps no copy.
    /// - A change has a larger generation. A provider that does not know its capabilities yet returns
    ///   [`Description::pending`].
    fn describe(&self) -> Arc<Description>;

    /// The current capabilities of this provider. Adapters do not override this method.
    fn capabilities(&self) -> Capabilities {
        self.describe().capabilities
    }

    /// Checks the health of the engine.
    ///
    /// - Must be fast: the gateway calls it every few seconds.
    /// - An engine that accepts connections but cannot answer queries yet is not healthy.
    async fn health(&self, call: &Call) -> Result<Health>;

    /// Starts an execution. Requires [`Capabilities::start`].
    ///
    /// - The answer is the new execution as it is immediately after the start; it may already be finished.
    /// - With [`Capabilities::start_idempotent`], the same `request_id` and body answer the same
    ///   execution, and another body is refused.
    /// - An `execution_id` that is taken by another request answers `AlreadyExists` with reason
    ///   `EXECUTION_ALREADY_EXISTS`.
    /// - An unknown definition answers `NotFound` with reason `DEFINITION_NOT_FOUND`.
    /// - Labels, a delay and options are used or refused, never ignored: `Unsupported` without the
    ///   capability ([`StartRequest::check_capabilities`]), `InvalidArgument` with reason
    ///   `OPTION_NOT_SUPPORTED` for an unknown option ([`StartRequest::check_options`]).
    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Start))
    }

    /// Reads one execution.
    ///
    /// - An execution that never existed, or that the engine has removed, is `NotFound`.
    /// - Payloads only in the full view; steps too, where reading them costs the engine more.
    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation>;

    /// Reads many executions, in as few upstream calls as the engine allows.
    ///
    /// - One result per id, in the order of the ids; a failure for one id does not affect the
    ///   others.
    /// - No payloads.
    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>>;

    /// Returns when an engine that could not be reached can be reached again. For adapters that can
    /// detect this; the default never returns.
    ///
    /// - The gateway waits for it beside its health checks. It then calls the provider immediately, instead
    ///   of at the end of the pause that follows an outage.
    /// - Dropping the future is harmless, and the next one continues.
    async fn reconnected(&self) {
        std::future::pending::<()>().await;
    }

    /// The number of restarts of the provider process that the adapter has noticed. For adapters of
    /// providers in other processes; the default is always 0.
    ///
    /// - Versions are compared only between observations of one process: a watch of the next one may begin
    ///   with lower versions.
    fn restart_count(&self) -> u64 {
        0
    }

    /// Records that the provider broke a rule of the contract that only the gateway can check. For
    /// adapters of providers in other processes, which show it in their health; the default ignores it.
    fn note_violation(&self, violation: &Error) {
        let _ = violation;
    }

    /// Lists executions, newest first where the engine can. Requires [`Capabilities::list`].
    ///
    /// - All pages together contain each execution that existed during the whole listing exactly
    ///   once.
    /// - A page may be empty and not be the last.
    /// - Hints may only narrow the result: an execution that matches the hints is never left out.
    /// - A cursor of another provider answers `InvalidArgument`.
    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::List))
    }

    /// Counts all executions, in groups that show the same sub-state. Requires [`Capabilities::count`].
    ///
    /// - A group has an example, from which the gateway computes the sub-state by the table.
    /// - Each execution is in one group: the counts agree with what a list of everything shows. Two groups
    ///   may show the same sub-state.
    /// - Bounded: at most 1,000 groups, and a provider that stops counting somewhere reports `at_least`.
    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let _ = call;
        Err(Error::unsupported(Verb::Count))
    }

    /// Reads an execution's history. Requires [`Capabilities::history`].
    ///
    /// - Ascending, without gaps or repeats over the pages. With
    ///   [`EventOrder::NewestFirst`](crate::EventOrder::NewestFirst) the same events descending; this
    ///   requires [`Capabilities::history_newest_first`].
    /// - A cursor of another provider answers `InvalidArgument`.
    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::History))
    }

    /// Follows changes. Requires [`Capabilities::watch_one`], [`Capabilities::watch_end`] or
    /// [`Capabilities::watch_all`], by the scope.
    ///
    /// - The stream begins with every execution of the scope as it is now, then
    ///   [`Watched::InSync`](crate::Watched::InSync), then reports changes.
    /// - The last state of an execution always arrives; states in between may be left out.
    /// - An execution that the engine no longer has is reported as
    ///   [`Watched::Gone`](crate::Watched::Gone), however it was removed.
    /// - Versions of an execution never decrease within a stream
    ///   ([`Observation::version`]).
    /// - A stream of one execution ends after the finished execution, or after `Gone`.
    /// - A stream of all executions ends with an error, or without one when the provider has lost
    ///   track of changes. The gateway opens the stream again and takes the new current set.
    /// - The call's deadline bounds opening the stream, not the stream.
    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        let _ = (call, &scope);
        Err(Error::unsupported(scope.verb()))
    }

    /// Sends a signal. Requires [`Capabilities::signal`].
    ///
    /// - With [`Capabilities::signal_idempotent`], the same `request_id` is delivered once.
    /// - A signal that nothing waits for is kept for later, or refused with `FailedPrecondition`
    ///   and reason `SIGNAL_NOT_AWAITED`; it never ends another wait and is never lost without an
    ///   error.
    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Signal))
    }

    /// Cancels an execution. Requires [`Capabilities::cancel`], or [`Capabilities::kill`] for a
    /// kill.
    ///
    /// - Idempotent: a second request has no further effect.
    /// - The answer is truthful: an execution that still cleans up is not reported as ended.
    /// - A choice about compensation is followed with [`Capabilities::cancel_compensation`] and refused
    ///   as `Unsupported` without it ([`CancelRequest::check_compensation`]); it is never ignored.
    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let _ = (call, &request);
        Err(Error::unsupported(request.verb()))
    }

    /// Pauses an execution. Requires [`Capabilities::pause`].
    ///
    /// - Pausing a paused execution succeeds.
    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Pause))
    }

    /// Resumes a paused execution. Requires [`Capabilities::resume`].
    ///
    /// - Resuming an execution that is neither paused nor stuck answers `FailedPrecondition`.
    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Resume))
    }

    /// Makes the next attempt now. Requires [`Capabilities::retry_now`].
    ///
    /// - If no step is backing off, the answer is `FailedPrecondition`.
    /// - With [`Capabilities::retry_now_idempotent`], the same `request_id` retries once.
    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::RetryNow))
    }

    /// Runs an execution again from a step. Requires [`Capabilities::retry_from`].
    ///
    /// - With [`Capabilities::retry_from_idempotent`], the same `request_id` runs again once.
    /// - The history of the old run stays readable.
    /// - The answer may be another execution, where the engine makes a new one.
    /// - An `input`, `feedback`, `from_start` and an `execution_id` are used or answered `Unsupported`,
    ///   never ignored ([`RetryFromRequest::ensure_plain`]).
    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::RetryFrom))
    }

    /// Removes the record of a finished execution. Requires [`Capabilities::purge`].
    ///
    /// - Afterwards the execution is `NotFound`, also for a second purge.
    /// - An execution that has not finished answers `FailedPrecondition` with reason
    ///   `NOT_FINISHED`, and is unchanged.
    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Purge))
    }

    /// Lists the engine's own definitions. Requires [`Capabilities::definitions`].
    ///
    /// - A cursor of another provider answers `InvalidArgument`.
    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::Definitions))
    }

    /// Reads one of the engine's own definitions. Requires [`Capabilities::definitions`].
    ///
    /// - The newest revision, or the one that is named.
    /// - An unknown definition is `NotFound` with reason `DEFINITION_NOT_FOUND`.
    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let _ = (call, name, revision);
        Err(Error::unsupported(Verb::Definitions))
    }

    /// Creates a definition or a new revision of it. Requires [`Capabilities::apply_definition`].
    ///
    /// - Applying an unchanged definition has no effect.
    /// - A definition that the engine refuses is `InvalidArgument`.
    /// - Labels are stored or answered `Unsupported`, never ignored.
    async fn apply_definition(
        &self,
        call: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        let _ = (call, request);
        Err(Error::unsupported(Verb::ApplyDefinition))
    }

    /// Lets the engine validate a definition; nothing is stored. Requires
    /// [`Capabilities::apply_definition`].
    async fn validate_definition(
        &self,
        call: &Call,
        source: &str,
    ) -> Result<Vec<DefinitionProblem>> {
        let _ = (call, source);
        Err(Error::unsupported(Verb::ApplyDefinition))
    }

    /// Whether the engine runs in the gateway's own process. Its health then decides about the health of
    /// the gateway.
    fn is_embedded(&self) -> bool {
        false
    }

    /// The gateway that owns the store of this provider, while this gateway stands by. Only a provider whose
    /// engine shares its store with other gateways has such a stream, and only if gateways may call each other.
    fn active_gateway(&self) -> Option<ActiveGateway> {
        None
    }

    /// Portable definitions. Requires [`Capabilities::portable_definitions`].
    ///
    /// A provider overrides this method and the six below for the topics its engine offers.
    fn portable_definitions(&self) -> Option<&dyn PortableDefinitions> {
        None
    }

    /// Triggers. Requires [`Capabilities::triggers`].
    fn triggers(&self) -> Option<&dyn Triggers> {
        None
    }

    /// Approvals and escalations. Requires [`Capabilities::approvals`].
    fn approvals(&self) -> Option<&dyn Approvals> {
        None
    }

    /// Tasks for workers. Requires [`Capabilities::workers`].
    fn workers(&self) -> Option<&dyn Workers> {
        None
    }

    /// The log of events. Requires [`Capabilities::event_log`].
    fn event_log(&self) -> Option<&dyn EventLog> {
        None
    }

    /// Verifying and repairing executions. Requires [`Capabilities::recovery`].
    fn recovery(&self) -> Option<&dyn Recovery> {
        None
    }

    /// The engine's own store. Requires [`Capabilities::store`].
    fn store(&self) -> Option<&dyn Store> {
        None
    }
}

/// The maximum number of concurrent calls of [`one_by_one`].
const AT_ONCE: usize = 16;

/// [`Provider::observe`] for engines that can read only one execution at a time.
pub async fn one_by_one(
    provider: &(impl Provider + ?Sized),
    call: &Call,
    ids: &[ExecutionId],
) -> Vec<Result<Observation>> {
    let reads: Vec<_> = ids
        .iter()
        .map(|id| provider.get(call, id, View::Basic))
        .collect();
    stream::iter(reads).buffered(AT_ONCE).collect().await
}
