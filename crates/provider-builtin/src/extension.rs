//! What the built-in engine offers beyond executions: the provider's extensions over the engine's handle.

mod approvals;
mod event_log;
mod portable_definitions;
mod projection;
mod recovery;
mod replay;
mod store;
mod triggers;
mod workers;

use stateway_engine::RequestKey;
use stateway_provider_api::{Call, Error, ErrorKind, Precondition, Result, Verb};

use crate::BuiltinProvider;

impl BuiltinProvider {
    /// Refuses a new request whose etag is not current. A repetition passes: it is answered as the first
    /// time.
    async fn check_precondition(
        &self,
        call: &Call,
        verb: Verb,
        precondition: Precondition,
        key: &RequestKey,
    ) -> Result<()> {
        if precondition != Precondition::Broken {
            return Ok(());
        }
        let asked = self.line.carry(call, verb, self.engine.was_asked(key));
        if asked.await? {
            return Ok(());
        }
        let message = "the execution has changed since its etag was read";
        Err(Error::new(ErrorKind::Conflict, verb, message)
            .with_reason("ETAG_MISMATCH")
            .with_hint("Read the execution again, then decide."))
    }
}
