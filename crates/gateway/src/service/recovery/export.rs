//! A history as a file.

use stateway_proto::v1;
use stateway_provider_api::Verb;
use tonic::Status;

use super::super::validate;
use super::Recovery;
use crate::access::ApiCall;
use crate::upstream::Topic;

/// The most bytes of a file in one message: it fits into the smallest `max_message_bytes`.
const PIECE: usize = 32 * 1024;

impl Recovery {
    pub(super) async fn export(
        &self,
        call: ApiCall,
        request: v1::ExportHistoryRequest,
    ) -> Result<Vec<u8>, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::EVENT_LOG)?;
        let reads_payloads = self.executions.authorize_read(&call, &name).await?;
        let redact = request.redact || !reads_payloads;
        let guarded = upstream.until_deadline(&call);
        let file = guarded.event_log(Verb::Export, |log, call| log.export(call, &name.id, redact));
        Ok(file.await?)
    }
}

/// The file in pieces that fit into messages.
pub(super) fn pieces(file: &[u8]) -> Vec<v1::ExportHistoryResponse> {
    let pieces = file.chunks(PIECE).map(|piece| v1::ExportHistoryResponse {
        data: piece.to_vec(),
    });
    pieces.collect()
}
