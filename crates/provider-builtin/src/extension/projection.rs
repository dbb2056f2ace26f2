//! An execution in the terms of another system's state machine.

use stateway_hosted::observation;
use stateway_hosted::replay::{projection, words_of};
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Projection, Result, Verb, View};

use crate::BuiltinProvider;
use crate::log::Log;

pub(super) async fn of(
    provider: &BuiltinProvider,
    call: &Call,
    id: &ExecutionId,
    wanted: &str,
) -> Result<Projection> {
    let words = words_of(wanted)?;
    let log = Log::read(provider, call, Verb::Project, id, None).await?;
    let shown = observation(&log.view, View::Basic);
    Ok(projection(&shown, log.plan, &log.events, words))
}
