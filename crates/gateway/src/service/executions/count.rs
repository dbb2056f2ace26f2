//! How many executions show each sub-state, over one provider or all of them.

use futures::future::join_all;
use stateway_model::SubState;
use stateway_proto::v1;
use stateway_provider_api::{Call, Count, Verb};
use tonic::Status;

use super::super::validate;
use super::Executions;
use crate::convert;
use crate::parent::Parent;
use crate::upstream::{CallError, Guarded, Upstream};

impl Executions {
    pub(super) async fn count(
        &self,
        call: Call,
        request: v1::CountExecutionsRequest,
    ) -> Result<v1::CountExecutionsResponse, Status> {
        let mut total = Total::default();
        match validate::parent(&request.parent)? {
            Parent::One(id) => {
                let upstream = self.upstream(&id)?;
                total.add(upstream, &ask(upstream.within(&call)).await?);
            }
            Parent::All => {
                let all = self.upstreams.values();
                let asked = all.clone().map(|upstream| ask(upstream.merged(&call)));
                let answers = join_all(asked).await;
                for (upstream, answer) in all.zip(answers) {
                    match answer {
                        Ok(counts) => total.add(upstream, &counts),
                        Err(_) => total.uncounted.push(upstream.id.resource_name()),
                    }
                }
            }
        }
        Ok(total.into())
    }
}

async fn ask(guarded: Guarded<'_>) -> Result<Vec<Count>, CallError> {
    guarded
        .call(Verb::Count, |provider, call| provider.count(call))
        .await
}

#[derive(Default)]
struct Total {
    counts: [(u64, bool); SubState::ALL.len()],
    uncounted: Vec<String>,
}

impl Total {
    fn add(&mut self, upstream: &Upstream, counts: &[Count]) {
        for one in counts {
            let shown = upstream.sub_state(&one.example);
            let totals = SubState::ALL.iter().zip(&mut self.counts);
            for (_, total) in totals.filter(|(sub_state, _)| **sub_state == shown) {
                total.0 = total.0.saturating_add(one.count);
                total.1 |= one.at_least;
            }
        }
    }
}

impl From<Total> for v1::CountExecutionsResponse {
    fn from(total: Total) -> Self {
        let counts = SubState::ALL.iter().zip(total.counts);
        Self {
            counts: counts
                .map(|(sub_state, (count, at_least))| v1::SubStateCount {
                    sub_state: convert::sub_state(*sub_state).into(),
                    execution_count: convert::int64(count),
                    at_least,
                })
                .collect(),
            uncounted: total.uncounted,
        }
    }
}
