//! The reference provider with one defect.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::adapter::cursor::{self, HISTORY, LIST, NEWEST};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyDefinitionRequest, Approval, ApprovalStream, Approvals, Call, CancelMode, CancelRequest,
    Capabilities, Count, DecideRequest, DefinitionProblem, DefinitionsPage, DefinitionsRequest,
    Description, Error, ErrorKind, Escalation, EventOrder, Health, HistoryPage, HistoryRequest,
    InboxId, InboxPage, InboxRequest, ListPage, ListRequest, NativeDefinition, NativeState,
    Observation, PauseRequest, Provider, PurgeRequest, RequestId, ResolveRequest, Result,
    ResumeRequest, RetryEvidence, RetryFromRequest, RetryNowRequest, SignalRequest,
    StartDefinition, StartRequest, Verb, Version, View, WatchScope, WatchStream, Watched, classify,
};

use super::defect::Defect;
use super::inbox::Inbox;
use super::shelf::{SCRIPT, Shelf};

pub(crate) struct Broken {
    inner: Arc<dyn Provider>,
    pub(crate) defect: Defect,
    shelf: Shelf,
    pub(crate) inbox: Inbox,
    started: Mutex<HashMap<RequestId, ExecutionId>>,
    /// What was cancelled or paused before.
    asked: Mutex<Vec<ExecutionId>>,
    purged: Mutex<Vec<ExecutionId>>,
    histories: Mutex<HashMap<ExecutionId, HistoryPage>>,
    one_at_a_time: tokio::sync::Mutex<()>,
    failed: AtomicBool,
    used: AtomicBool,
    reading: AtomicBool,
}

impl Broken {
    pub(crate) fn new(inner: Arc<dyn Provider>, defect: Defect, can: Capabilities) -> Self {
        Self {
            inner,
            defect,
            shelf: Shelf::new(defect, can),
            inbox: Inbox::new(defect, can),
            started: Mutex::default(),
            asked: Mutex::default(),
            purged: Mutex::default(),
            histories: Mutex::default(),
            one_at_a_time: tokio::sync::Mutex::default(),
            failed: AtomicBool::new(false),
            used: AtomicBool::new(false),
            reading: AtomicBool::new(false),
        }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn another_request_id() -> RequestId {
        static REQUESTS: AtomicU64 = AtomicU64::new(0);
        let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
        format!("broken-{number}").parse().unwrap()
    }

    fn call(&self, call: &Call) -> Call {
        let more = if self.is(Defect::DeadlinesAreIgnored) {
            Duration::from_secs(1)
        } else {
            Duration::ZERO
        };
        Call {
            deadline: call.deadline + more,
            ..call.clone()
        }
    }

    fn distort<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|mut error| {
            if self.is(Defect::ThrottlingLosesItsPause) {
                error.retry_after = None;
            }
            match (self.defect, error.kind) {
                (Defect::NonsenseIsCalledInternal, ErrorKind::Malformed)
                | (Defect::DenialIsCalledInternal, ErrorKind::PermissionDenied)
                | (Defect::UnreachableIsCalledInternal, ErrorKind::Unavailable) => {
                    error.kind = ErrorKind::Internal;
                }
                (Defect::OneFailureFailsAllThatFollow, ErrorKind::Unavailable) => {
                    self.failed.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
            error
        })
    }

    /// What becomes of the refusal of a write.
    fn mistake<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|mut error| {
            match (self.defect, error.kind) {
                (Defect::UnknownExecutionsAreCalledInvalid, ErrorKind::NotFound)
                    if error.reason() == "EXECUTION_NOT_FOUND" =>
                {
                    error.kind = ErrorKind::InvalidArgument;
                }
                (Defect::WhatIsOffIsCalledAPrecondition, ErrorKind::Unsupported) => {
                    error.kind = ErrorKind::FailedPrecondition;
                }
                (Defect::RefusalsAfterTheEndLoseTheirReason, ErrorKind::FailedPrecondition) => {
                    error.reason = None;
                }
                _ => {}
            }
            error
        })
    }

    fn misread(&self, mut seen: Observation) -> Observation {
        match self.defect {
            Defect::GetRenamesUnknownStates if seen.native.state.starts_with("KIT") => {
                seen.native = NativeState::new("ACTIVE");
            }
            Defect::GetDropsQualifiers => seen.native.qualifiers.clear(),
            Defect::GetInventsAttempts if seen.steps.is_empty() => {
                seen.retry.get_or_insert(RetryEvidence::reported(1));
            }
            Defect::GetForgetsTheNextAttempt => {
                for step in &mut seen.steps {
                    if let Some(retry) = &mut step.retry {
                        retry.next_attempt_time = None;
                    }
                }
            }
            Defect::GetShowsOnlyTheFirstStep => seen.steps.truncate(1),
            Defect::GetLosesTheWordsOfSteps => {
                for step in &mut seen.steps {
                    step.native = NativeState::new("STEP");
                }
            }
            _ => {}
        }
        seen
    }
}

#[async_trait]
impl Provider for Broken {
    fn describe(&self) -> Arc<Description> {
        let used = self.used.load(Ordering::Relaxed);
        let inner = self.inner.describe();
        let can = self.inbox.capabilities(inner.capabilities);
        Arc::new(Description {
            capabilities: Capabilities {
                labels: !(used && self.is(Defect::CapabilitiesChangeWithUse)),
                ..self.shelf.capabilities(can)
            },
            ..(*inner).clone()
        })
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let health = self.inner.health(call).await;
        if self.is(Defect::HealthIsNeverGood) {
            let (kind, verb) = (ErrorKind::Unavailable, stateway_provider_api::Verb::Health);
            return Err(stateway_provider_api::Error::new(kind, verb, "never good"));
        }
        if self.is(Defect::HealthIsAlwaysGood) {
            Ok(health.unwrap_or_default())
        } else {
            health
        }
    }

    async fn start(&self, call: &Call, mut request: StartRequest) -> Result<Observation> {
        if self.shelf.has(request.definition.id()) {
            request.definition = StartDefinition::native(SCRIPT);
        }
        if self.is(Defect::StartForgetsItsRequestId) {
            request.request_id = Self::another_request_id();
        }
        self.used.store(true, Ordering::Relaxed);
        if self.is(Defect::StartIsNeverDelayed) {
            request.delay = None;
        }
        if self.is(Defect::StartIgnoresOptions) {
            request.options.clear();
        }
        if self.is(Defect::StartDropsLabels) {
            request.labels.clear();
        }
        if self.is(Defect::StartIgnoresTheBody) {
            let known = self
                .started
                .lock()
                .unwrap()
                .get(&request.request_id)
                .cloned();
            if let Some(id) = known {
                return self.inner.get(call, &id, View::Basic).await;
            }
        }
        let (id, request_id) = (request.execution_id.clone(), request.request_id.clone());
        let is_wanted = id.is_some();
        let started = self.inner.start(call, request).await;
        if let (Some(id), true) = (id, self.is(Defect::StartAnswersWithWhoeverHasTheId))
            && started.is_err()
        {
            return self.inner.get(call, &id, View::Basic).await;
        }
        let mut started = self.mistake(started).map_err(|mut error| {
            if self.is(Defect::StartCallsAnUnknownDefinitionInvalid)
                && error.kind == ErrorKind::NotFound
            {
                error.kind = ErrorKind::InvalidArgument;
            }
            error
        })?;
        if is_wanted && self.is(Defect::StartMisreportsAWantedId) {
            started.id = ExecutionId::new("another").unwrap();
        }
        if self.is(Defect::StartAnswersSomethingElse) {
            started.native = NativeState::new("DONE");
        }
        let mut known = self.started.lock().unwrap();
        known.insert(request_id, started.id.clone());
        Ok(started)
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let _turn = if self.is(Defect::CallsWaitForEachOther) {
            Some(self.one_at_a_time.lock().await)
        } else {
            None
        };
        let view = if self.is(Defect::GetAlwaysShowsPayloads) {
            View::Full
        } else {
            view
        };
        if self.failed.load(Ordering::Relaxed) {
            let (kind, verb) = (ErrorKind::Unavailable, stateway_provider_api::Verb::Get);
            return Err(stateway_provider_api::Error::new(
                kind,
                verb,
                "failed before",
            ));
        }
        let mut call = self.call(call);
        if self.is(Defect::SlowAnswersAreGivenUp) {
            call.deadline = std::time::Instant::now() + Duration::from_millis(50);
        }
        let traced = self.reading.swap(true, Ordering::Relaxed);
        let got = self.distort(self.inner.get(&call, id, view).await);
        self.reading.store(false, Ordering::Relaxed);
        let mut cancelled = self.asked.lock().unwrap();
        let lags = cancelled.iter().position(|known| known == id);
        if let (Some(place), Defect::GetLagsBehindACancel) = (lags, self.defect) {
            cancelled.remove(place);
            return Ok(Observation::new(id.clone(), NativeState::new("ACTIVE")));
        }
        match got {
            Err(error)
                if error.kind == ErrorKind::NotFound
                    && self.is(Defect::GetInventsUnknownExecutions) =>
            {
                Ok(Observation::new(id.clone(), NativeState::new("ACTIVE")))
            }
            Ok(seen) if seen.native.state == "DONE" && self.is(Defect::GetForgetsWhatIsDone) => {
                Err(stateway_provider_api::Error::not_found(
                    stateway_provider_api::Verb::Get,
                    id,
                ))
            }
            Ok(mut seen) if traced && self.is(Defect::ADroppedReadLeavesATrace) => {
                seen.revision = "traced".to_owned();
                Ok(seen)
            }
            got => got.map(|seen| self.misread(seen)),
        }
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let mut ids = ids.to_vec();
        if self.is(Defect::ObserveSortsItsAnswers) {
            ids.sort();
        }
        if self.is(Defect::ObserveShowsPayloads) {
            let get = |id| self.inner.get(call, id, View::Full);
            return futures::future::join_all(ids.iter().map(get)).await;
        }
        self.inner.observe(call, &ids).await
    }

    async fn list(&self, call: &Call, mut request: ListRequest) -> Result<ListPage> {
        if self.is(Defect::ListTakesAnyCursor) {
            let ours = |cursor: &String| number_of(cursor).is_some();
            request.cursor = request.cursor.filter(ours);
        }
        let (wanted, again) = (request.hints.sub_states.clone(), request.cursor.clone());
        let (narrowed, from) = (
            request.hints.definition.is_some(),
            request.hints.started_from,
        );
        let mut page = self.mistake(self.inner.list(call, request).await)?;
        if self.is(Defect::ListShowsPayloads) {
            for row in &mut page.observations {
                *row = self.inner.get(call, &row.id, View::Full).await?;
            }
        }
        if self.is(Defect::ListStillShowsWhatWasPurged) {
            let purged = self.purged.lock().unwrap().clone();
            let still = |id| Observation::new(id, NativeState::new("DONE"));
            page.observations.extend(purged.into_iter().map(still));
        }
        match self.defect {
            Defect::ListEndsAtAnEmptyPage if page.observations.is_empty() => page.next = None,
            Defect::ListRepeatsARow if again.is_none() => {
                // The next page begins one row too early.
                page.next = page.next.map(|next| {
                    let number = number_of(&next).unwrap();
                    cursor::write(LIST, &(number + 1))
                });
            }
            Defect::ListLeavesOutUnknownStates if wanted.len() < SubState::ALL.len() => {
                page.observations
                    .retain(|row| !row.native.state.starts_with("KIT"));
            }
            // Narrows by the table of the build, not by the one it was given.
            Defect::ListIgnoresTheOverlay => {
                let table = compiled_in("memory").unwrap();
                page.observations
                    .retain(|row| table.may_show(&row.native.state, &wanted));
            }
            Defect::ListNarrowsToOtherDefinitions if narrowed => page.observations.clear(),
            Defect::ListLeavesOutTheBoundsOfTimes => {
                let after = |row: &Observation| from.is_none_or(|from| row.start_time > Some(from));
                page.observations.retain(after);
            }
            // Takes the engine's word for the sub-state, as if nothing refined it.
            Defect::ListNarrowsTooFar if !wanted.contains(&SubState::Running) => {
                page.observations.retain(|row| row.native.state != "ACTIVE");
            }
            _ => {}
        }
        Ok(page)
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let mut counts = self.mistake(self.inner.count(call).await)?;
        if self.is(Defect::CountLeavesOutTheFinished) {
            let table = &self.describe().table;
            counts.retain(|count| {
                let shown = classify(table, &count.example, jiff::Timestamp::now());
                !shown.execution.sub_state.is_terminal()
            });
        }
        Ok(counts)
    }

    async fn history(&self, call: &Call, mut request: HistoryRequest) -> Result<HistoryPage> {
        if self.is(Defect::HistoryTakesAnyCursor) {
            let verb = stateway_provider_api::Verb::History;
            let lists = [HISTORY, NEWEST];
            let ours = |text: &String| {
                let mut lists = lists.iter();
                lists.any(|list| cursor::read::<u64>(list, Some(text), verb).is_ok())
            };
            request.cursor = request.cursor.filter(ours);
        }
        if self.is(Defect::HistoryIgnoresItsOrder) {
            request.order = EventOrder::OldestFirst;
        }
        let oldest_first = request.order == EventOrder::OldestFirst;
        let whole = oldest_first && request.page_size == 1_000;
        if self.is(Defect::HistoryForgetsTheEnd) && whole {
            let id = request.id.clone();
            let known = self.histories.lock().unwrap().get(&id).cloned();
            if let Some(known) = known {
                return Ok(known);
            }
            let page = self.inner.history(call, request).await?;
            self.histories.lock().unwrap().insert(id, page.clone());
            return Ok(page);
        }
        let mut page = self.mistake(self.inner.history(call, request).await)?;
        if self.is(Defect::HistoryRunsBackwards) && page.next.is_none() && page.events.len() > 4 {
            page.events.reverse();
        }
        Ok(page)
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        let of_the_end = matches!(scope, WatchScope::End(_));
        let of_one = matches!(scope, WatchScope::One(_) | WatchScope::End(_));
        let mut call = call.clone();
        if self.is(Defect::WatchOpensAfterTheDeadline) {
            call.deadline += Duration::from_secs(1);
        }
        let stream = self.mistake(self.inner.watch(&call, scope).await)?;
        Ok(match self.defect {
            Defect::WatchIsNeverInSync => without(stream, |item| *item == Watched::InSync),
            Defect::WatchIsInSyncTooEarly => {
                let early = futures::stream::iter([Ok(Watched::InSync)]);
                let late = without(stream, |item| *item == Watched::InSync);
                early.chain(late).boxed()
            }
            Defect::WatchHidesRemovals => without(stream, |item| matches!(item, Watched::Gone(_))),
            Defect::WatchVersionsGoBack => {
                let mut version = u64::MAX;
                let back = move |mut item| {
                    if let Ok(Watched::Seen(seen)) = &mut item {
                        version -= 1;
                        seen.version = Some(Version::new(version));
                    }
                    item
                };
                stream.map(back).boxed()
            }
            Defect::WatchOfOneNeverEnds if of_one => {
                stream.chain(futures::stream::pending()).boxed()
            }
            Defect::WatchOfTheEndReportsNoEnd if of_the_end => without(
                stream,
                |item| matches!(item, Watched::Seen(seen) if seen.end_time.is_some()),
            ),
            Defect::WatchLeavesOutThePresent => stream.skip(1).boxed(),
            Defect::WatchLosesTheLastState => without(
                stream,
                |item| matches!(item, Watched::Seen(seen) if seen.end_time.is_some()),
            ),
            _ => stream,
        })
    }

    async fn signal(&self, call: &Call, mut request: SignalRequest) -> Result<Observation> {
        if self.is(Defect::SignalDoesNothing) && self.capabilities().signal {
            let seen = self.inner.get(call, &request.id, View::Basic).await?;
            if seen.end_time.is_none() {
                return Ok(seen);
            }
        }
        if self.is(Defect::SignalIgnoresItsName) {
            request.signal = "kit-go".to_owned();
        }
        if self.is(Defect::SignalIsDeliveredAgain) {
            request.request_id = Self::another_request_id();
        }
        let id = request.id.clone();
        let sent = self.mistake(self.inner.signal(call, request).await);
        match sent {
            Err(error)
                if error.reason() == "ALREADY_FINISHED"
                    && self.is(Defect::SignalAfterTheEndIsSwallowed) =>
            {
                self.inner.get(call, &id, View::Basic).await
            }
            sent => sent,
        }
    }

    async fn cancel(&self, call: &Call, mut request: CancelRequest) -> Result<Observation> {
        let (id, mode) = (request.id.clone(), request.mode);
        if self.is(Defect::CancelIgnoresTheChoiceToCompensate) {
            request.compensation = stateway_provider_api::CompensationChoice::AsDefined;
        }
        if self.is(Defect::CancelFailsTheSecondTime) {
            let mut cancelled = self.asked.lock().unwrap();
            let again = cancelled.contains(&id);
            cancelled.push(id);
            let is_kill = mode == CancelMode::Kill;
            let others = self
                .started
                .lock()
                .unwrap()
                .values()
                .any(|known| *known == request.id);
            if again && (others || !is_kill) {
                let (kind, verb) = (ErrorKind::Conflict, stateway_provider_api::Verb::Cancel);
                return Err(stateway_provider_api::Error::new(
                    kind,
                    verb,
                    "cancelled before",
                ));
            }
        }
        if self.is(Defect::KillIsGraceful) {
            let mut cancelled = self.asked.lock().unwrap();
            if cancelled.contains(&request.id) {
                request.mode = CancelMode::Graceful;
            } else if request.mode == CancelMode::Graceful {
                cancelled.push(request.id.clone());
            }
        }
        if self.is(Defect::GetLagsBehindACancel) {
            self.asked.lock().unwrap().push(request.id.clone());
        }
        let answer = self.mistake(self.inner.cancel(&self.call(call), request).await)?;
        if self.is(Defect::CancelReportsTheEndTooEarly) && answer.native.state == "COMPENSATING" {
            return Ok(Observation::new(answer.id, NativeState::new("STOPPED")));
        }
        Ok(answer)
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        if self.is(Defect::PauseDoesNothing) && self.capabilities().pause {
            let seen = self.inner.get(call, &request.id, View::Basic).await?;
            if seen.end_time.is_none() {
                return Ok(seen);
            }
        }
        let id = request.id.clone();
        let paused = self.mistake(self.inner.pause(call, request).await)?;
        if !self.is(Defect::PauseFailsTheSecondTime) {
            return Ok(paused);
        }
        let mut before = self.asked.lock().unwrap();
        if before.contains(&id) {
            let (kind, verb) = (ErrorKind::Conflict, stateway_provider_api::Verb::Pause);
            return Err(stateway_provider_api::Error::new(
                kind,
                verb,
                "paused before",
            ));
        }
        before.push(id);
        Ok(paused)
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        if self.is(Defect::ResumeIsForgotten) {
            let verb = stateway_provider_api::Verb::Resume;
            return Err(stateway_provider_api::Error::unsupported(verb));
        }
        if self.is(Defect::ResumeWithoutTheCapabilityDoesNothing) && !self.capabilities().resume {
            return Ok(Observation::new(request.id, NativeState::new("ACTIVE")));
        }
        let id = request.id.clone();
        if self.is(Defect::ResumeDoesNothing) && self.capabilities().resume {
            let seen = self.inner.get(call, &id, View::Basic).await?;
            if matches!(seen.native.state.as_str(), "HELD" | "STUCK") {
                return Ok(seen);
            }
        }
        match self.mistake(self.inner.resume(call, request).await) {
            Err(error)
                if error.reason() == "ILLEGAL_TRANSITION"
                    && self.is(Defect::ResumeNeverRefuses) =>
            {
                self.inner.get(call, &id, View::Basic).await
            }
            resumed => resumed,
        }
    }

    async fn retry_now(&self, call: &Call, mut request: RetryNowRequest) -> Result<Observation> {
        if self.is(Defect::RetryNowForgetsItsRequestId) {
            request.request_id = Self::another_request_id();
        }
        let id = request.id.clone();
        if self.is(Defect::RetryNowDoesNothing) && self.capabilities().retry_now {
            let seen = self.inner.get(call, &id, View::Basic).await?;
            if seen.steps.iter().any(|step| step.native.state == "RESTING") {
                return Ok(seen);
            }
        }
        match self.mistake(self.inner.retry_now(call, request).await) {
            Err(error)
                if error.reason() == "ILLEGAL_TRANSITION"
                    && self.is(Defect::RetryNowNeverRefuses) =>
            {
                self.inner.get(call, &id, View::Basic).await
            }
            retried => retried,
        }
    }

    async fn retry_from(&self, call: &Call, mut request: RetryFromRequest) -> Result<Observation> {
        let nothing = self.is(Defect::RetryFromDoesNothing) && self.capabilities().retry_from;
        let plain = request.ensure_plain().is_ok();
        if nothing && request.step.is_empty() && plain {
            return self.inner.get(call, &request.id, View::Basic).await;
        }
        if self.is(Defect::RetryFromForgetsItsRequestId) {
            request.request_id = Self::another_request_id();
        }
        if self.is(Defect::RetryFromTakesAnyStep) {
            request.step.clear();
        }
        if self.is(Defect::RetryFromIgnoresFeedback) {
            request.feedback.clear();
        }
        if self.is(Defect::RetryFromIgnoresFromStart) {
            request.from_start = false;
        }
        if self.is(Defect::RetryFromIgnoresItsInput) {
            request.input = None;
        }
        self.mistake(self.inner.retry_from(call, request).await)
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let id = request.id.clone();
        if self.is(Defect::PurgeDoesNothing) && self.capabilities().purge {
            let seen = self.inner.get(call, &id, View::Basic).await;
            if seen.is_ok_and(|seen| seen.end_time.is_some()) {
                return Ok(());
            }
        }
        if self.is(Defect::PurgeIsASuccessEveryTime) && self.purged.lock().unwrap().contains(&id) {
            return Ok(());
        }
        let purged = self.mistake(self.inner.purge(call, request).await);
        if purged.is_ok() {
            self.purged.lock().unwrap().push(id);
            return purged;
        }
        match purged {
            Err(error)
                if error.reason() == "NOT_FINISHED" && self.is(Defect::PurgeTakesWhatIsOpen) =>
            {
                Ok(())
            }
            purged => purged,
        }
    }

    async fn definitions(&self, _: &Call, request: DefinitionsRequest) -> Result<DefinitionsPage> {
        self.mistake(self.shelf.list(&request))
    }

    async fn definition(
        &self,
        _: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        self.mistake(self.shelf.read(name, revision))
    }

    async fn apply_definition(
        &self,
        _: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        self.mistake(self.shelf.apply(&request))
    }

    async fn validate_definition(&self, _: &Call, source: &str) -> Result<Vec<DefinitionProblem>> {
        self.mistake(self.shelf.check(source))
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        Some(self)
    }
}

#[async_trait]
impl Approvals for Broken {
    async fn list_approvals(&self, _: &Call, _: InboxRequest) -> Result<InboxPage<Approval>> {
        Ok(InboxPage {
            items: self.inbox.pending()?,
            next: None,
        })
    }

    async fn watch_approvals(&self, _: &Call) -> Result<ApprovalStream> {
        self.mistake(self.inbox.watch())
    }

    async fn get_approval(&self, _: &Call, _: &InboxId) -> Result<Approval> {
        Err(Error::unsupported(Verb::GetApproval))
    }

    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval> {
        self.inbox.decide(call, &request)
    }

    async fn list_escalations(&self, _: &Call, _: InboxRequest) -> Result<InboxPage<Escalation>> {
        Ok(InboxPage::default())
    }

    async fn get_escalation(&self, _: &Call, _: &InboxId) -> Result<Escalation> {
        Err(Error::unsupported(Verb::GetEscalation))
    }

    async fn resolve(&self, _: &Call, _: ResolveRequest) -> Result<Escalation> {
        Err(Error::unsupported(Verb::ResolveEscalation))
    }
}

/// The number in a cursor of the reference provider's list.
fn number_of(cursor: &str) -> Option<u64> {
    let verb = stateway_provider_api::Verb::List;
    cursor::read(LIST, Some(cursor), verb).ok().flatten()
}

/// A stream without some of its items.
fn without(stream: WatchStream, left_out: fn(&Watched) -> bool) -> WatchStream {
    let kept =
        move |item: &Result<Watched>| futures::future::ready(!item.as_ref().is_ok_and(left_out));
    stream.filter(kept).boxed()
}
