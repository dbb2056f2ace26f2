//! A history as a file.

use stateway_engine::recording::Recording;
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::{Code, Status};

use super::super::validate;
use super::{REPLAY, Recovery};
use crate::engines::Chosen;
use crate::status::Refusal;

/// The most bytes of a file in one message.
const PIECE: usize = 256 * 1024;

impl Recovery {
    pub(super) async fn export(
        &self,
        call: Call,
        request: v1::ExportHistoryRequest,
    ) -> Result<Vec<u8>, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let chosen = self.directory.of(&name.provider, REPLAY)?;
        let recording = recording(&call, chosen, name.id.as_str()).await?;
        let recording = if request.redact {
            let redacted = recording.redact();
            redacted.map_err(|error| unreadable(chosen, &error.to_string()))?
        } else {
            recording
        };
        Ok(recording.write())
    }
}

/// An execution's whole log.
pub(super) async fn recording(
    call: &Call,
    chosen: Chosen<'_>,
    id: &str,
) -> Result<Recording, Status> {
    chosen
        .answer(call, chosen.engine.recording(id.into()))
        .await
}

pub(super) fn unreadable(chosen: Chosen<'_>, why: &str) -> Status {
    let message = format!("provider {}: {why}", chosen.id);
    Refusal::new(Code::DataLoss, "LOG_UNREADABLE", message)
        .with("provider", chosen.id.to_string())
        .hint("VerifyExecution says what is wrong with it.")
        .into()
}

/// The file in pieces that fit into messages.
pub(super) fn pieces(file: &[u8]) -> Vec<v1::ExportHistoryResponse> {
    let pieces = file.chunks(PIECE).map(|piece| v1::ExportHistoryResponse {
        data: piece.to_vec(),
    });
    pieces.collect()
}
