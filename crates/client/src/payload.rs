//! One payload in parts, so that its size does not matter.

use bytes::Bytes;
use stateway_proto::v1;
use tonic::Streaming;

use crate::{Client, Error, ReadPayload};

/// A payload that is being read.
#[derive(Debug)]
pub struct PayloadParts {
    stream: Streaming<v1::ReadPayloadResponse>,
    first: Option<Bytes>,
    content_type: String,
    size: u64,
}

impl PayloadParts {
    /// The media type.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The number of bytes of the whole payload.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The next bytes; none after the last.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let next = self.stream.message().await;
        let next = next.map_err(|status| Error::from_status(&status))?;
        Ok(next.map(|part| part.data))
    }
}

impl Client {
    /// Reads the input or the output of an execution or of a step, whatever its size.
    ///
    /// # Errors
    /// What the gateway refuses, or that it cannot be reached.
    pub async fn read_payload(&self, call: ReadPayload) -> Result<PayloadParts, Error> {
        let opened = self.read(call, |request| {
            let mut service = self.executions();
            async move { service.read_payload(request).await }
        });
        let mut stream = opened.await?;
        let first = stream.message().await;
        let first = first.map_err(|status| Error::from_status(&status))?;
        let first = first.unwrap_or_default();
        Ok(PayloadParts {
            stream,
            first: Some(first.data),
            content_type: first.content_type,
            size: u64::try_from(first.size_bytes).unwrap_or_default(),
        })
    }
}
