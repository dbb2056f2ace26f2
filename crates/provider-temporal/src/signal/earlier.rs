//! Whether a request id was used before, in the current run or in those that it continues. The server compares
//! request ids within one run only. A run that a reset made needs no search in its base run: its history has the
//! signals and updates of the base run again, with their request ids.

use stateway_provider_api::{Error, ErrorKind, Result};

use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::reader::{MOST_RUNS, Reader};
use crate::response::run_id;

impl Reader {
    /// The run that has this request, if one of the chain has it. A request id that was used with another body
    /// is refused.
    pub(super) async fn earlier(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        current: &WorkflowExecutionInfo,
        request_id: &str,
        body: u64,
    ) -> Result<Option<WorkflowRef>> {
        let mut run = of.run(run_id(current));
        let mut facts = self.facts(ask, of, current).await?;
        for _ in 0..=MOST_RUNS {
            if let Some(delivered) = facts.requests.get(request_id) {
                let earlier = facts.body_of(request_id, delivered);
                if earlier.is_some_and(|earlier| earlier != body) {
                    return Err(Error::request_id_reused(ask.verb));
                }
                return Ok(Some(run));
            }
            let begin = facts.begin.as_ref();
            let previous = begin.and_then(|begin| begin.previous_run.clone());
            let Some(previous) = previous.filter(|_| of.run_id.is_none()) else {
                return Ok(None);
            };
            run = of.run(&previous);
            facts = match self.facts_of_ended(ask, &run).await {
                Ok(facts) => facts,
                // The server has forgotten the run, and those before it.
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(None)
    }
}
