//! The parts of an observation: payloads, errors, attempts, waits, and what people did.

use stateway_model::{
    Blocker, CancelInfo, ErrorCategory, ExecutionError, PauseInfo, Payload, Progress, ReopenInfo,
    RetryBasis, Usage, Wait, WaitKind,
};
use stateway_provider_api::{RetryEvidence, RetryPhase};

use crate::misfit::{signed, signed32, unsigned, unsigned32};
use crate::time::{duration, read_span, read_time, timestamp};
use crate::{Misfit, v1};

/// A body for the wire.
#[must_use]
pub fn payload(payload: &Payload) -> v1::Payload {
    v1::Payload {
        data: payload.data.clone(),
        content_type: payload.content_type.clone(),
    }
}

/// A body of the wire.
#[must_use]
pub fn read_payload(payload: v1::Payload) -> Payload {
    let content_type = if payload.content_type.is_empty() {
        Payload::JSON.to_owned()
    } else {
        payload.content_type
    };
    Payload {
        content_type,
        data: payload.data,
    }
}

pub(crate) fn execution_error(error: &ExecutionError) -> v1::ExecutionError {
    use v1::execution_error::Category;
    let category = match error.category {
        None => Category::Unspecified,
        Some(ErrorCategory::Transient) => Category::Transient,
        Some(ErrorCategory::AgentError) => Category::AgentError,
        Some(ErrorCategory::Timeout) => Category::Timeout,
        Some(ErrorCategory::Validation) => Category::Validation,
        Some(ErrorCategory::External) => Category::External,
        Some(ErrorCategory::Governance) => Category::Governance,
    };
    v1::ExecutionError {
        step: error.step.clone(),
        message: error.message.clone(),
        native_code: error.native_code.clone(),
        category: category.into(),
        attempt: signed32(error.attempt),
        occur_time: error.at.map(timestamp),
    }
}

pub(crate) fn read_execution_error(error: v1::ExecutionError) -> Result<ExecutionError, Misfit> {
    use v1::execution_error::Category;
    let category = match Category::try_from(error.category) {
        Ok(Category::Transient) => Some(ErrorCategory::Transient),
        Ok(Category::AgentError) => Some(ErrorCategory::AgentError),
        Ok(Category::Timeout) => Some(ErrorCategory::Timeout),
        Ok(Category::Validation) => Some(ErrorCategory::Validation),
        Ok(Category::External) => Some(ErrorCategory::External),
        Ok(Category::Governance) => Some(ErrorCategory::Governance),
        // A category of a newer contract is one that is not known here.
        Ok(Category::Unspecified) | Err(_) => None,
    };
    Ok(ExecutionError {
        step: error.step,
        message: error.message,
        native_code: error.native_code,
        category,
        attempt: unsigned32("attempt", error.attempt)?,
        at: read_time("occur_time", error.occur_time)?,
    })
}

/// The last error of a message, which may be absent.
pub(crate) fn read_last_error(
    error: Option<v1::ExecutionError>,
) -> Result<Option<ExecutionError>, Misfit> {
    let error = error.map(read_execution_error).transpose();
    error.map_err(|misfit| misfit.inside("last_error"))
}

pub(crate) fn retry(evidence: &RetryEvidence) -> v1::RetryEvidence {
    use v1::retry_evidence::{Basis, Phase};
    let phase = match evidence.phase {
        RetryPhase::UnderWay => Phase::UnderWay,
        RetryPhase::BetweenAttempts => Phase::BetweenAttempts,
        RetryPhase::Exhausted => Phase::Exhausted,
    };
    let basis = match evidence.basis {
        RetryBasis::Reported => Basis::Reported,
        RetryBasis::Inferred => Basis::Inferred,
        RetryBasis::None => Basis::Unspecified,
    };
    v1::RetryEvidence {
        attempt: signed32(evidence.attempt),
        max_attempt_count: evidence.max_attempts.map(signed32),
        phase: phase.into(),
        next_attempt_time: evidence.next_attempt_time.map(timestamp),
        delay: evidence.delay.map(duration),
        jitter_duration: evidence.jitter.map(duration),
        last_error: evidence.last_error.as_ref().map(execution_error),
        basis: basis.into(),
    }
}

pub(crate) fn read_retry(evidence: v1::RetryEvidence) -> Result<RetryEvidence, Misfit> {
    use v1::retry_evidence::{Basis, Phase};
    let phase = match Phase::try_from(evidence.phase) {
        Ok(Phase::BetweenAttempts) => RetryPhase::BetweenAttempts,
        Ok(Phase::Exhausted) => RetryPhase::Exhausted,
        Ok(Phase::UnderWay | Phase::Unspecified) | Err(_) => RetryPhase::UnderWay,
    };
    let basis = match Basis::try_from(evidence.basis) {
        Ok(Basis::Inferred) => RetryBasis::Inferred,
        Ok(Basis::Reported | Basis::Unspecified) | Err(_) => RetryBasis::Reported,
    };
    if evidence.attempt < 1 {
        return Err(Misfit::new("attempt", "must be 1 or more"));
    }
    let max_attempts = evidence
        .max_attempt_count
        .map(|most| unsigned32("max_attempt_count", most));
    Ok(RetryEvidence {
        attempt: unsigned32("attempt", evidence.attempt)?,
        max_attempts: max_attempts.transpose()?,
        phase,
        next_attempt_time: read_time("next_attempt_time", evidence.next_attempt_time)?,
        delay: read_span("delay", evidence.delay)?,
        jitter: read_span("jitter_duration", evidence.jitter_duration)?,
        last_error: read_last_error(evidence.last_error)?,
        basis,
    })
}

pub(crate) fn wait(wait: &Wait) -> v1::Wait {
    use v1::wait::{Blocker as WireBlocker, Kind};
    let kind = match wait.kind {
        WaitKind::Signal => Kind::Signal,
        WaitKind::Approval => Kind::Approval,
        WaitKind::Escalation => Kind::Escalation,
        WaitKind::Timer => Kind::Timer,
        WaitKind::Callback => Kind::Callback,
        WaitKind::Capacity => Kind::Capacity,
        WaitKind::Child => Kind::Child,
    };
    let blocker = match wait.blocker {
        None => WireBlocker::Unspecified,
        Some(Blocker::Worker) => WireBlocker::Worker,
        Some(Blocker::Slot) => WireBlocker::Slot,
        Some(Blocker::Concurrency) => WireBlocker::Concurrency,
        Some(Blocker::Memory) => WireBlocker::Memory,
        Some(Blocker::Provider) => WireBlocker::Provider,
    };
    v1::Wait {
        kind: kind.into(),
        name: wait.name.clone(),
        start_time: wait.since.map(timestamp),
        expire_time: wait.deadline.map(timestamp),
        detail: wait.detail.clone(),
        blocker: blocker.into(),
    }
}

pub(crate) fn read_wait(wait: v1::Wait) -> Result<Wait, Misfit> {
    use v1::wait::{Blocker as WireBlocker, Kind};
    let kind = match Kind::try_from(wait.kind) {
        Ok(Kind::Signal) => WaitKind::Signal,
        Ok(Kind::Approval) => WaitKind::Approval,
        Ok(Kind::Escalation) => WaitKind::Escalation,
        Ok(Kind::Timer) => WaitKind::Timer,
        Ok(Kind::Capacity) => WaitKind::Capacity,
        Ok(Kind::Child) => WaitKind::Child,
        // A kind of a newer contract: something outside must act.
        Ok(Kind::Callback | Kind::Unspecified) | Err(_) => WaitKind::Callback,
    };
    let blocker = match WireBlocker::try_from(wait.blocker) {
        Ok(WireBlocker::Worker) => Some(Blocker::Worker),
        Ok(WireBlocker::Slot) => Some(Blocker::Slot),
        Ok(WireBlocker::Concurrency) => Some(Blocker::Concurrency),
        Ok(WireBlocker::Memory) => Some(Blocker::Memory),
        Ok(WireBlocker::Provider) => Some(Blocker::Provider),
        Ok(WireBlocker::Unspecified) | Err(_) => None,
    };
    Ok(Wait {
        kind,
        name: wait.name,
        since: read_time("waits.start_time", wait.start_time)?,
        deadline: read_time("waits.expire_time", wait.expire_time)?,
        detail: wait.detail,
        blocker: blocker.or((kind == WaitKind::Capacity).then_some(Blocker::Provider)),
    })
}

pub(crate) fn usage(usage: Usage) -> v1::Usage {
    v1::Usage {
        input_token_count: signed(usage.input_tokens),
        output_token_count: signed(usage.output_tokens),
        cost_micros: signed(usage.cost_micros),
    }
}

pub(crate) fn read_usage(usage: v1::Usage) -> Result<Usage, Misfit> {
    Ok(Usage {
        input_tokens: unsigned("usage.input_token_count", usage.input_token_count)?,
        output_tokens: unsigned("usage.output_token_count", usage.output_token_count)?,
        cost_micros: unsigned("usage.cost_micros", usage.cost_micros)?,
    })
}

pub(crate) fn progress(progress: &Progress) -> v1::Progress {
    v1::Progress {
        fraction: progress.fraction.get(),
        detail: progress.detail.clone(),
    }
}

pub(crate) fn read_progress(progress: &v1::Progress) -> Result<Progress, Misfit> {
    let read = Progress::new(progress.fraction, &progress.detail);
    read.ok_or_else(|| Misfit::new("progress.fraction", "is not a finite number"))
}

pub(crate) fn cancellation(info: &CancelInfo) -> v1::Cancellation {
    v1::Cancellation {
        cancelled_by: info.by.clone(),
        comment: info.comment.clone(),
        cancel_time: info.time.map(timestamp),
    }
}

pub(crate) fn read_cancellation(info: v1::Cancellation) -> Result<CancelInfo, Misfit> {
    Ok(CancelInfo {
        by: info.cancelled_by,
        comment: info.comment,
        time: read_time("cancellation.cancel_time", info.cancel_time)?,
    })
}

pub(crate) fn pause(info: &PauseInfo) -> v1::Pause {
    v1::Pause {
        paused_by: info.by.clone(),
        comment: info.comment.clone(),
        step: info.step.clone(),
        offered_revision: info.offered_revision.clone(),
        conflicts: info.conflicts.clone(),
    }
}

pub(crate) fn read_pause(info: v1::Pause) -> PauseInfo {
    PauseInfo {
        by: info.paused_by,
        comment: info.comment,
        step: info.step,
        offered_revision: info.offered_revision,
        conflicts: info.conflicts,
    }
}

pub(crate) fn reopen(info: &ReopenInfo) -> v1::Reopen {
    v1::Reopen {
        reopen_count: signed32(info.count),
        reopened_by: info.by.clone(),
        reopen_time: info.time.map(timestamp),
        previous_native_state: info.from.clone(),
    }
}

pub(crate) fn read_reopen(info: v1::Reopen) -> Result<ReopenInfo, Misfit> {
    Ok(ReopenInfo {
        count: unsigned32("reopen.reopen_count", info.reopen_count)?,
        by: info.reopened_by,
        time: read_time("reopen.reopen_time", info.reopen_time)?,
        from: info.previous_native_state,
    })
}
