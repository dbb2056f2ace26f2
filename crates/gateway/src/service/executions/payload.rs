//! One payload in parts: what does not fit into one message can still be read.

use bytes::Bytes;
use futures::Stream;
use stateway_access::Permission;
use stateway_model::Payload;
use stateway_proto::v1;
use stateway_proto::v1::read_payload_request::Source;
use stateway_provider_api::View;
use tonic::{Code, Status};

use super::super::validate;
use super::{Executions, step};
use crate::access::ApiCall;
use crate::status::Refusal;

/// The bytes of one part. A message with them is far below every limit.
const PART: usize = 32 * 1024;

impl Executions {
    pub(super) async fn payload(
        &self,
        call: ApiCall,
        request: v1::ReadPayloadRequest,
    ) -> Result<Payload, Status> {
        let source = match request.source() {
            Source::Unspecified => {
                let message = "`source` must be INPUT or OUTPUT";
                return Err(Refusal::invalid("source", message).into());
            }
            source => source,
        };
        let found = if request.name.contains("/steps/") {
            let (execution, step) = step::parse(&request.name)?;
            self.authorize(&call, &execution, Permission::ReadPayloads)
                .await?;
            self.step_payload(&call, &execution, &step, source).await?
        } else {
            let name = validate::execution_name("name", &request.name)?;
            let read = self.read(&call, &name, View::Full).await?;
            call.require_execution(Permission::ReadPayloads, &read)?;
            if source == Source::Input {
                read.input
            } else {
                read.output
            }
        };
        found.ok_or_else(|| no_payload(&request.name, source))
    }
}

/// The payload in parts. An empty payload has one part, which carries its content type.
pub(super) fn parts(
    payload: Payload,
) -> impl Stream<Item = Result<v1::ReadPayloadResponse, Status>> {
    let data = payload.data;
    let first = v1::ReadPayloadResponse {
        data: data.slice(..data.len().min(PART)),
        content_type: payload.content_type,
        size_bytes: i64::try_from(data.len()).unwrap_or(i64::MAX),
    };
    let rest = (PART..data.len()).step_by(PART).map(move |from| {
        let part: Bytes = data.slice(from..data.len().min(from + PART));
        v1::ReadPayloadResponse {
            data: part,
            ..v1::ReadPayloadResponse::default()
        }
    });
    futures::stream::iter(std::iter::once(first).chain(rest).map(Ok))
}

fn no_payload(name: &str, source: Source) -> Status {
    let what = if source == Source::Input {
        "input"
    } else {
        "output"
    };
    let message = format!("`{name}` has no {what}");
    Refusal::new(Code::NotFound, "PAYLOAD_NOT_FOUND", message)
        .hint("The execution may not have finished, or its provider does not report payloads.")
        .into()
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn sent(bytes: usize) -> Vec<v1::ReadPayloadResponse> {
        let payload = Payload::json("x".repeat(bytes));
        let sent = parts(payload).map(Result::unwrap).collect::<Vec<_>>();
        sent.now_or_never().unwrap()
    }

    #[test]
    fn the_parts_are_the_payload_and_the_first_one_describes_it() {
        for bytes in [0, 1, PART - 1, PART, PART + 1, 5 * PART + 7] {
            let sent = sent(bytes);
            let whole: usize = sent.iter().map(|part| part.data.len()).sum();
            assert_eq!(whole, bytes);
            assert_eq!(sent.len(), bytes.div_ceil(PART).max(1));
            assert_eq!(sent[0].size_bytes, i64::try_from(bytes).unwrap());
            assert_eq!(sent[0].content_type, "application/json");
            assert!(sent[1..].iter().all(|part| part.content_type.is_empty()));
        }
    }
}
