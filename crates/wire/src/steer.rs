//! Requests that steer an execution: signal, cancel, pause, resume, retry, purge.

use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, PauseRequest, PurgeRequest, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest,
};

use crate::parts::{payload, read_payload};
use crate::request::{context, optional_id, read_id, read_request_id};
use crate::v1::cancel_execution_request::{Compensation, Mode};
use crate::{Misfit, v1};

/// A signal for the wire.
#[must_use]
pub fn signal_request(call: &Call, request: &SignalRequest) -> v1::SignalExecutionRequest {
    v1::SignalExecutionRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        signal: request.signal.clone(),
        payload: request.payload.as_ref().map(payload),
        request_id: request.request_id.to_string(),
    }
}

/// A signal of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_signal_request(request: v1::SignalExecutionRequest) -> Result<SignalRequest, Misfit> {
    Ok(SignalRequest {
        id: read_id("id", &request.id)?,
        signal: request.signal,
        payload: request.payload.map(read_payload),
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A cancel or kill for the wire.
#[must_use]
pub fn cancel_request(call: &Call, request: &CancelRequest) -> v1::CancelExecutionRequest {
    let mode = match request.mode {
        CancelMode::Graceful => Mode::Graceful,
        CancelMode::Kill => Mode::Kill,
    };
    let compensation = match request.compensation {
        CompensationChoice::AsDefined => Compensation::Unspecified,
        CompensationChoice::Compensate => Compensation::Compensate,
        CompensationChoice::Skip => Compensation::Skip,
    };
    v1::CancelExecutionRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        mode: mode.into(),
        compensation: compensation.into(),
        comment: request.comment.clone(),
        request_id: request.request_id.to_string(),
    }
}

/// A cancel or kill of the wire. An unknown mode or choice of a newer gateway is refused, because
/// ignoring it would do something else than asked.
///
/// # Errors
/// A field breaks its rule.
pub fn read_cancel_request(request: v1::CancelExecutionRequest) -> Result<CancelRequest, Misfit> {
    let mode = match Mode::try_from(request.mode) {
        Ok(Mode::Graceful | Mode::Unspecified) => CancelMode::Graceful,
        Ok(Mode::Kill) => CancelMode::Kill,
        Err(_) => return Err(Misfit::new("mode", "is not known")),
    };
    let compensation = match Compensation::try_from(request.compensation) {
        Ok(Compensation::Unspecified) => CompensationChoice::AsDefined,
        Ok(Compensation::Compensate) => CompensationChoice::Compensate,
        Ok(Compensation::Skip) => CompensationChoice::Skip,
        Err(_) => return Err(Misfit::new("compensation", "is not known")),
    };
    Ok(CancelRequest {
        id: read_id("id", &request.id)?,
        mode,
        compensation,
        comment: request.comment,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A pause for the wire.
#[must_use]
pub fn pause_request(call: &Call, request: PauseRequest) -> v1::PauseExecutionRequest {
    v1::PauseExecutionRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        comment: request.comment,
        request_id: request.request_id.to_string(),
    }
}

/// A pause of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_pause_request(request: v1::PauseExecutionRequest) -> Result<PauseRequest, Misfit> {
    Ok(PauseRequest {
        id: read_id("id", &request.id)?,
        comment: request.comment,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A resume for the wire.
#[must_use]
pub fn resume_request(call: &Call, request: &ResumeRequest) -> v1::ResumeExecutionRequest {
    v1::ResumeExecutionRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        request_id: request.request_id.to_string(),
    }
}

/// A resume of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_resume_request(request: &v1::ResumeExecutionRequest) -> Result<ResumeRequest, Misfit> {
    Ok(ResumeRequest {
        id: read_id("id", &request.id)?,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A retry of the next attempt for the wire.
#[must_use]
pub fn retry_now_request(call: &Call, request: RetryNowRequest) -> v1::RetryNowRequest {
    v1::RetryNowRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        step: request.step,
        request_id: request.request_id.to_string(),
    }
}

/// A retry of the next attempt of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_retry_now_request(request: v1::RetryNowRequest) -> Result<RetryNowRequest, Misfit> {
    Ok(RetryNowRequest {
        id: read_id("id", &request.id)?,
        step: request.step,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A run from a step on, for the wire.
#[must_use]
pub fn retry_from_request(call: &Call, request: RetryFromRequest) -> v1::RetryFromRequest {
    v1::RetryFromRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        step: request.step,
        input: request.input.as_ref().map(payload),
        feedback: request.feedback,
        from_start: request.from_start,
        execution_id: request
            .execution_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        request_id: request.request_id.to_string(),
    }
}

/// A run from a step on, of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_retry_from_request(request: v1::RetryFromRequest) -> Result<RetryFromRequest, Misfit> {
    Ok(RetryFromRequest {
        id: read_id("id", &request.id)?,
        step: request.step,
        input: request.input.map(read_payload),
        feedback: request.feedback,
        from_start: request.from_start,
        execution_id: optional_id("execution_id", &request.execution_id)?,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// A purge for the wire.
#[must_use]
pub fn purge_request(call: &Call, request: &PurgeRequest) -> v1::PurgeExecutionRequest {
    v1::PurgeExecutionRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        request_id: request.request_id.to_string(),
    }
}

/// A purge of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_purge_request(request: &v1::PurgeExecutionRequest) -> Result<PurgeRequest, Misfit> {
    Ok(PurgeRequest {
        id: read_id("id", &request.id)?,
        request_id: read_request_id(&request.request_id)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_of_a_newer_gateway_is_refused_and_not_ignored() {
        let request = v1::CancelExecutionRequest {
            id: "a".into(),
            request_id: "r".into(),
            mode: 9,
            ..Default::default()
        };
        assert!(read_cancel_request(request).is_err());
    }
}
