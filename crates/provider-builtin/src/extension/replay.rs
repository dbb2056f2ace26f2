//! What a replay applies: the recorded events, or a definition of the engine.

use std::sync::Arc;

use stateway_engine::recording::{Recording, plan_of};
use stateway_machine::Plan;
use stateway_provider_api::{Call, Error, ErrorKind, ReplayUnder, Result, Verb};

use crate::BuiltinProvider;
use crate::log::unreadable;

/// The fewest digits that may name a revision.
const SHORTEST_REVISION: usize = 6;

impl BuiltinProvider {
    /// The last event of a replay and the plan of its shadow.
    pub(super) async fn replay_plan(
        &self,
        call: &Call,
        under: &ReplayUnder,
        recording: &Recording,
    ) -> Result<(u64, Option<Arc<Plan>>)> {
        let name = &recording.definition;
        let source = match under {
            ReplayUnder::Recorded { until } => return Ok((*until, None)),
            ReplayUnder::Source(source) => {
                let plan = plan_of(source, "source").map_err(|error| wrong(error.to_string()))?;
                return Ok((0, Some(plan)));
            }
            ReplayUnder::Latest => {
                let found = self.engine.definition(Arc::clone(name), None);
                self.line.carry(call, Verb::Replay, found).await?.source
            }
            ReplayUnder::Revision(digits) => self.revision_source(call, name, digits).await?,
        };
        let plan = plan_of(&source, name);
        let plan = plan.map_err(|error| unreadable(Verb::Replay, &error.to_string()))?;
        Ok((0, Some(plan)))
    }

    /// The source of a revision, which may be named by its first digits.
    async fn revision_source(&self, call: &Call, name: &Arc<str>, digits: &str) -> Result<String> {
        let known = self.engine.revisions(Arc::clone(name));
        let known = self.line.carry(call, Verb::Replay, known).await?;
        let mut fitting = known.iter().filter(|known| {
            *known.revision == *digits
                || digits.len() >= SHORTEST_REVISION && known.revision.starts_with(digits)
        });
        match (fitting.next(), fitting.next()) {
            (Some(found), None) => Ok(found.source.clone()),
            (Some(_), Some(_)) => Err(wrong(format!(
                "more than one revision begins with `{digits}`"
            ))),
            (None, _) => {
                let message = format!("definition `{name}` has no revision `{digits}`");
                let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
                let newest = known.iter().take(5).map(|known| short(&known.revision));
                let newest: Vec<_> = newest.collect();
                Err(Error::new(ErrorKind::NotFound, Verb::Replay, message)
                    .with_reason("REVISION_NOT_FOUND")
                    .with_hint(format!("The newest are {}.", newest.join(", "))))
            }
        }
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, Verb::Replay, message)
}
