//! Executions, steps, retries, waits, events and explanations.

use stateway_model::{
    AttemptPhase, CancelInfo, Event, Execution, ExecutionError, PauseInfo, Payload, Progress,
    ReopenInfo, Retry, Step, Usage, Wait, headline, one_line_summary,
};
use stateway_proto::v1;
use stateway_provider_api::{Explanation, StepExplanation};

use super::{
    blocker, duration, error_category, int32, int64, mapping_basis, reason, retry_basis, sub_state,
    table_row, timestamp, wait_kind,
};

pub(crate) fn execution(from: Execution) -> v1::Execution {
    let etag = from.etag();
    v1::Execution {
        payloads_redacted: false,
        name: from.name.resource_name(),
        current_steps: from.current_steps().map(str::to_owned).collect(),
        definition: from.definition,
        revision: from.revision,
        sub_state: sub_state(from.sub_state).into(),
        native_state: from.native_state,
        reason: reason(from.reason).into(),
        mapping_basis: mapping_basis(from.mapping_basis).into(),
        retry: Some(Box::new(retry(from.retry))),
        waits: from.waits.into_iter().map(wait).collect(),
        steps: from.steps.into_iter().map(step).collect(),
        last_error: from.last_error.map(boxed_error),
        create_time: from.create_time.map(timestamp),
        start_time: from.start_time.map(timestamp),
        update_time: from.update_time.map(timestamp),
        end_time: from.end_time.map(timestamp),
        input: from.input.map(payload_into),
        output: from.output.map(payload_into),
        labels: from.labels.into_iter().collect(),
        etag,
        usage: from.usage.map(usage),
        abandoned_usage: from.abandoned_usage.map(|used| Box::new(usage(used))),
        cancellation: from.cancellation.map(cancellation),
        pause: from.pause.map(pause),
        reopen: from.reopen.map(reopen),
        forked_from: from
            .forked_from
            .map(|name| name.to_string())
            .unwrap_or_default(),
        forks: from.forks.iter().map(ToString::to_string).collect(),
        not_rolled_back: from.not_rolled_back,
        parent_execution: from
            .parent_execution
            .map(|name| name.to_string())
            .unwrap_or_default(),
    }
}

fn cancellation(from: CancelInfo) -> Box<v1::Cancellation> {
    Box::new(v1::Cancellation {
        cancelled_by: from.by,
        comment: from.comment,
        cancel_time: from.time.map(timestamp),
    })
}

fn pause(from: PauseInfo) -> Box<v1::Pause> {
    Box::new(v1::Pause {
        paused_by: from.by,
        comment: from.comment,
        step: from.step,
        offered_revision: from.offered_revision,
        conflicts: from.conflicts,
    })
}

fn reopen(from: ReopenInfo) -> Box<v1::Reopen> {
    Box::new(v1::Reopen {
        reopen_count: int32(from.count),
        reopened_by: from.by,
        reopen_time: from.time.map(timestamp),
        previous_native_state: from.from,
    })
}

pub(crate) fn step(from: Step) -> v1::Step {
    v1::Step {
        name: from.name,
        sub_state: sub_state(from.sub_state).into(),
        native_state: from.native_state,
        reason: reason(from.reason).into(),
        mapping_basis: mapping_basis(from.mapping_basis).into(),
        retry: Some(Box::new(retry(from.retry))),
        waits: from.waits.into_iter().map(wait).collect(),
        last_error: from.last_error.map(boxed_error),
        start_time: from.start_time.map(timestamp),
        end_time: from.end_time.map(timestamp),
        progress: from.progress.map(progress),
        usage: from.usage.map(usage),
        child: from.child.map(|name| name.to_string()).unwrap_or_default(),
        blocked_by: from.blocked_by,
    }
}

pub(crate) fn usage(from: Usage) -> v1::Usage {
    v1::Usage {
        input_token_count: int64(from.input_tokens),
        output_token_count: int64(from.output_tokens),
        cost_micros: int64(from.cost_micros),
    }
}

fn progress(from: Progress) -> v1::Progress {
    v1::Progress {
        fraction: from.fraction.get(),
        detail: from.detail,
    }
}

fn retry(from: Retry) -> v1::Retry {
    v1::Retry {
        attempt: int32(from.attempt),
        max_attempt_count: from.max_attempts.map(int32),
        retry_count: int32(from.retry_count),
        next_attempt_time: from.next_attempt_time.map(timestamp),
        delay: from.delay.map(duration),
        jitter_duration: from.jitter.map(duration),
        last_error: from.last_error.map(boxed_error),
        basis: retry_basis(from.basis).into(),
    }
}

fn wait(from: Wait) -> v1::Wait {
    v1::Wait {
        kind: wait_kind(from.kind).into(),
        name: from.name,
        start_time: from.since.map(timestamp),
        expire_time: from.deadline.map(timestamp),
        detail: from.detail,
        blocker: blocker(from.blocker).into(),
    }
}

pub(crate) fn error(from: ExecutionError) -> v1::ExecutionError {
    let (message, detail) = message_and_detail(from.message);
    v1::ExecutionError {
        step: from.step,
        message,
        detail,
        category: error_category(from.category).into(),
        attempt: int32(from.attempt),
        occur_time: from.at.map(timestamp),
        native_code: from.native_code,
    }
}

fn boxed_error(from: ExecutionError) -> Box<v1::ExecutionError> {
    Box::new(error(from))
}

/// The line that names the error, and the whole text if it has several lines.
fn message_and_detail(text: String) -> (String, String) {
    if text.trim().contains('\n') {
        (headline(&text).to_owned(), text)
    } else {
        (text.trim().to_owned(), String::new())
    }
}

/// A summary in one line. Of a failure this is the line that names the error; other texts, such as a
/// person's comment, are kept whole.
fn in_one_line(native_type: &str, summary: String) -> String {
    if !summary.contains('\n') {
        return summary;
    }
    if native_type.ends_with("Failed") || native_type.ends_with("Escalated") {
        return one_line_summary(&summary);
    }
    let lines = summary.lines().map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

pub(crate) fn event(from: Event) -> v1::Event {
    let detail = from.detail.map(|detail| *detail).unwrap_or_default();
    let summary = in_one_line(&from.native_type, from.summary);
    v1::Event {
        sequence: int64(from.sequence),
        occur_time: from.time.map(timestamp),
        native_type: from.native_type,
        step: from.step,
        attempt: int32(from.attempt),
        summary,
        branch: String::new(),
        phase: phase(from.phase).into(),
        payload: detail.payload.map(payload_into),
        payload_truncated: detail.payload_truncated,
        correlation_id: detail.correlation_id,
        request_id: detail.request_id,
        cause_sequence: int64(detail.cause_sequence),
        actor: detail.actor,
    }
}

const fn phase(from: Option<AttemptPhase>) -> v1::AttemptPhase {
    match from {
        None => v1::AttemptPhase::Unspecified,
        Some(AttemptPhase::Started) => v1::AttemptPhase::Started,
        Some(AttemptPhase::Succeeded) => v1::AttemptPhase::Succeeded,
        Some(AttemptPhase::Failed) => v1::AttemptPhase::Failed,
        Some(AttemptPhase::CompensationStarted) => v1::AttemptPhase::CompensationStarted,
        Some(AttemptPhase::Compensated) => v1::AttemptPhase::CompensationSucceeded,
        Some(AttemptPhase::CompensationFailed) => v1::AttemptPhase::CompensationFailed,
    }
}

pub(crate) fn payload_into(from: Payload) -> v1::Payload {
    v1::Payload {
        data: from.data,
        content_type: from.content_type,
    }
}

pub(crate) fn payload_from(from: v1::Payload) -> Payload {
    let content_type = if from.content_type.is_empty() {
        Payload::JSON.to_owned()
    } else {
        from.content_type
    };
    Payload {
        content_type,
        data: from.data,
    }
}

pub(crate) fn explanation(shown: v1::Execution, from: Explanation) -> v1::ExplainExecutionResponse {
    v1::ExplainExecutionResponse {
        execution: Some(shown),
        summary: from.summary,
        row: from.row.as_ref().map(table_row),
        evidence: from.evidence,
        steps: from.steps.into_iter().map(step_explanation).collect(),
    }
}

fn step_explanation(from: StepExplanation) -> v1::StepExplanation {
    v1::StepExplanation {
        step: from.step,
        sub_state: sub_state(from.sub_state).into(),
        summary: from.summary,
        row: from.row.as_ref().map(table_row),
        evidence: from.evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_and_progress_keep_their_figures() {
        let told = Usage {
            input_tokens: 1,
            output_tokens: 2,
            cost_micros: 3,
        };
        let expected = v1::Usage {
            input_token_count: 1,
            output_token_count: 2,
            cost_micros: 3,
        };
        assert_eq!(usage(told), expected);
        let expected = v1::Progress {
            fraction: 0.25,
            detail: "reading".into(),
        };
        assert_eq!(Progress::new(0.25, "reading").map(progress), Some(expected));
    }
}
