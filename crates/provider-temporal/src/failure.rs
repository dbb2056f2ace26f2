//! Failures and their causes as one line. Pure.

use stateway_model::{ErrorCategory, ExecutionError};
use stateway_provider_api::adapter::one_line;

use crate::api::enums::v1::TimeoutType;
use crate::api::failure::v1::Failure;
use crate::api::failure::v1::failure::FailureInfo;
use crate::payload;
use crate::steps::{activity_name, child_name};

/// The most causes that are followed.
const DEEPEST: usize = 10;

/// What went wrong, from the outermost failure to the innermost cause. The server's own wrappers around
/// the failure of an activity or a child add nothing and are left out.
pub(crate) fn error(failure: &Failure) -> ExecutionError {
    let chain = chain(failure);
    let telling = chain.iter().copied().filter(|link| !is_wrapper(link));
    let mut messages: Vec<String> = telling.map(message).collect();
    messages.dedup();
    messages.retain(|message| !message.is_empty());
    ExecutionError {
        step: chain.iter().find_map(|link| step(link)).unwrap_or_default(),
        native_code: chain.iter().find_map(|link| code(link)).unwrap_or_default(),
        category: chain.iter().find_map(|link| category(link)),
        ..ExecutionError::message(messages.join(": "))
    }
}

fn chain(failure: &Failure) -> Vec<&Failure> {
    std::iter::successors(Some(failure), |link| link.cause.as_deref())
        .take(DEEPEST)
        .collect()
}

/// A failure that only says in which activity or child its cause lies.
fn is_wrapper(failure: &Failure) -> bool {
    let around = matches!(
        failure.failure_info,
        Some(
            FailureInfo::ActivityFailureInfo(_) | FailureInfo::ChildWorkflowExecutionFailureInfo(_)
        )
    );
    around && failure.cause.is_some()
}

fn message(failure: &Failure) -> String {
    let text = encoded_message(failure).unwrap_or_else(|| failure.message.clone());
    let text = one_line(&text);
    if !text.is_empty() {
        return text;
    }
    match &failure.failure_info {
        Some(FailureInfo::TimeoutFailureInfo(info)) => {
            format!("timeout: {}", timeout_word(info.timeout_type))
        }
        Some(FailureInfo::CanceledFailureInfo(_)) => "cancelled".to_owned(),
        Some(FailureInfo::TerminatedFailureInfo(_)) => "terminated".to_owned(),
        Some(FailureInfo::ApplicationFailureInfo(info)) => info.r#type.clone(),
        _ => String::new(),
    }
}

/// The message of a failure whose attributes are a payload, where that can be read.
fn encoded_message(failure: &Failure) -> Option<String> {
    let attributes = payload::value(failure.encoded_attributes.as_ref()?);
    Some(attributes.get("message")?.as_str()?.to_owned())
}

/// The engine's own name of the failure.
fn code(failure: &Failure) -> Option<String> {
    match failure.failure_info.as_ref()? {
        FailureInfo::ApplicationFailureInfo(info) => {
            (!info.r#type.is_empty()).then(|| info.r#type.clone())
        }
        FailureInfo::TimeoutFailureInfo(info) => Some(timeout_word(info.timeout_type)),
        _ => None,
    }
}

fn category(failure: &Failure) -> Option<ErrorCategory> {
    let is_timeout = matches!(
        failure.failure_info,
        Some(FailureInfo::TimeoutFailureInfo(_))
    );
    is_timeout.then_some(ErrorCategory::Timeout)
}

/// The name of the step that failed.
fn step(failure: &Failure) -> Option<String> {
    match failure.failure_info.as_ref()? {
        FailureInfo::ActivityFailureInfo(info) => {
            let kind = info.activity_type.as_ref().map_or("", |kind| &kind.name);
            Some(activity_name(&info.activity_id, kind))
        }
        FailureInfo::ChildWorkflowExecutionFailureInfo(info) => {
            Some(child_name(&info.workflow_execution.as_ref()?.workflow_id))
        }
        _ => None,
    }
}

/// The engine's word for what took too long: `START_TO_CLOSE`.
pub(crate) fn timeout_word(timeout: i32) -> String {
    match TimeoutType::try_from(timeout) {
        Ok(timeout) => timeout
            .as_str_name()
            .trim_start_matches("TIMEOUT_TYPE_")
            .to_owned(),
        Err(_) => timeout.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::failure::v1::{
        ActivityFailureInfo, ApplicationFailureInfo, TimeoutFailureInfo,
    };

    fn application(message: &str, kind: &str, cause: Option<Failure>) -> Failure {
        Failure {
            message: message.to_owned(),
            cause: cause.map(Box::new),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(
                ApplicationFailureInfo {
                    r#type: kind.to_owned(),
                    ..Default::default()
                },
            )),
            ..Default::default()
        }
    }

    #[test]
    fn the_causes_follow_the_failure_and_the_servers_wrapper_is_left_out() {
        let root = application("connection reset", "OSError", None);
        let failed = application("card declined\n  at line 1", "RuntimeError", Some(root));
        let wrapper = Failure {
            message: "Activity task failed".to_owned(),
            cause: Some(Box::new(failed)),
            failure_info: Some(FailureInfo::ActivityFailureInfo(ActivityFailureInfo {
                activity_id: "charge".to_owned(),
                ..Default::default()
            })),
            ..Default::default()
        };
        let shown = error(&wrapper);
        assert_eq!(shown.message, "card declined: connection reset");
        assert_eq!(
            (&*shown.native_code, &*shown.step),
            ("RuntimeError", "charge")
        );
    }

    #[test]
    fn a_timeout_is_named() {
        let timeout = Failure {
            failure_info: Some(FailureInfo::TimeoutFailureInfo(TimeoutFailureInfo {
                timeout_type: TimeoutType::Heartbeat as i32,
            })),
            ..Default::default()
        };
        let shown = error(&timeout);
        assert_eq!(shown.message, "timeout: HEARTBEAT");
        assert_eq!(shown.category, Some(ErrorCategory::Timeout));
    }

    #[test]
    fn an_endless_chain_is_cut() {
        let mut failure = application("deepest", "", None);
        for number in 0..50 {
            failure = application(&number.to_string(), "", Some(failure));
        }
        assert!(!error(&failure).message.contains("deepest"));
    }
}
