//! Between the adapter and the engine: deadlines, and a place where tests can disturb.
//!
//! The engine is in the same process and has no network to fail. What can happen to a call is
//! that the disk is slow, full or damaged; a test says so here, in the engine's own errors.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use stateway_engine::EngineError;
use stateway_provider_api::{Call, Result, Verb};
use tokio::time::{Instant, timeout_at};

use crate::error::{refused, too_late};

/// Comes between a call and the engine. For tests.
#[async_trait]
pub trait Disturb: Send + Sync + 'static {
    /// Lets the call through, late or not at all.
    async fn disturb(&self) -> std::result::Result<(), EngineError>;
}

#[derive(Clone, Default)]
pub(crate) struct Line {
    pub(crate) disturb: Option<Arc<dyn Disturb>>,
}

impl Line {
    /// The engine's answer, by the call's deadline.
    pub(crate) async fn carry<T>(
        &self,
        call: &Call,
        verb: Verb,
        ask: impl Future<Output = std::result::Result<T, EngineError>>,
    ) -> Result<T> {
        let answer = async {
            if let Some(disturb) = &self.disturb {
                disturb.disturb().await?;
            }
            ask.await
        };
        match timeout_at(Instant::from_std(call.deadline), answer).await {
            Ok(answer) => answer.map_err(|error| refused(verb, error)),
            Err(_elapsed) => Err(too_late(verb)),
        }
    }
}
