//! Answers that do not fit into one message: refused before they are sent, with the field that is
//! too large and a way to read it.

use futures::{Stream, StreamExt};
use prost::Message;
use stateway_proto::v1;
use tonic::{Code, Status};

use crate::descriptor::API;
use crate::status::Refusal;

/// The answer if it fits.
pub(super) fn fitting<M: Message>(method: &str, most: usize, answer: M) -> Result<M, Status> {
    let bytes = answer.encoded_len();
    if bytes <= most {
        return Ok(answer);
    }
    Err(too_large(method, most, bytes, &answer.encode_to_vec()).into())
}

/// An execution if it fits. If it does not, the error names the execution: the caller may not know its name yet.
pub(super) fn fitting_execution(
    method: &str,
    most: usize,
    execution: v1::Execution,
) -> Result<v1::Execution, Status> {
    let bytes = execution.encoded_len();
    if bytes <= most {
        return Ok(execution);
    }
    let refusal = too_large(method, most, bytes, &execution.encode_to_vec());
    Err(refusal.with("execution", execution.name).into())
}

/// A stream that ends with an error at the first message that does not fit.
pub(super) fn fitting_stream<M: Message, S: Stream<Item = Result<M, Status>>>(
    method: &'static str,
    most: usize,
    messages: S,
) -> impl Stream<Item = Result<M, Status>> + use<M, S> {
    messages.map(move |message| fitting(method, most, message?))
}

fn too_large(method: &str, most: usize, bytes: usize, answer: &[u8]) -> Refusal {
    let largest = API.largest_field(method, answer);
    let by_field = if largest.path.is_empty() {
        String::new()
    } else {
        format!("; `{}` has {} of them", largest.path, largest.bytes)
    };
    let message = format!(
        "the answer to {method} has {bytes} bytes, more than the {most} of one message{by_field}"
    );
    let mut ways = Vec::new();
    if largest.is_payload {
        ways.push("Read the payload with {ReadPayload}.");
    }
    if API.has_page_size(method) {
        ways.push("Ask for a smaller `page_size`.");
    }
    ways.push("An operator can raise `server.max_message_bytes`.");
    Refusal::new(Code::OutOfRange, "RESPONSE_TOO_LARGE", message)
        .with("field", largest.path)
        .with("bytes", bytes.to_string())
        .with("max_bytes", most.to_string())
        .hint(ways.join(" "))
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt;

    use super::*;

    #[test]
    fn an_answer_that_does_not_fit_names_its_field_and_a_way_to_read_it() {
        let execution = v1::Execution {
            output: Some(v1::Payload {
                data: vec![b'x'; 2_000].into(),
                content_type: String::new(),
            }),
            ..v1::Execution::default()
        };
        assert!(fitting("GetExecution", 4_000, execution.clone()).is_ok());
        let refused = fitting("GetExecution", 1_000, execution).unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange);
        let details = refused.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "RESPONSE_TOO_LARGE");
        assert_eq!(info.metadata["field"], "output.data");
        let advice = details.localized_message().unwrap();
        assert!(advice.message.contains("ReadPayload"));
    }

    #[test]
    fn a_page_that_does_not_fit_can_be_made_smaller() {
        let page = v1::ListExecutionsResponse {
            executions: vec![
                v1::Execution {
                    definition: "d".repeat(100),
                    ..v1::Execution::default()
                };
                50
            ],
            ..v1::ListExecutionsResponse::default()
        };
        let refused = fitting("ListExecutions", 1_000, page).unwrap_err();
        let details = refused.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.metadata["field"], "executions");
        let advice = details.localized_message().unwrap();
        assert!(advice.message.contains("page_size"));
    }
}
