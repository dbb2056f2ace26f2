//! How many executions show each sub-state, over one provider or all of them.

use futures::future::join_all;
use stateway_model::SubState;
use stateway_proto::v1;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{Count, ListRequest, Verb};
use tonic::Status;

use super::super::validate;
use super::Executions;
use crate::access::ApiCall;
use crate::convert;
use crate::parent::Parent;
use crate::upstream::{CallError, Guarded, Upstream};

/// Executions in one call to the provider, where they are counted one by one.
const ROWS_PER_READ: u32 = 1_000;
/// The most calls to one provider for one count. Beyond it the counts are lower bounds.
const MOST_READS: usize = 20;

impl Executions {
    pub(super) async fn count(
        &self,
        call: ApiCall,
        request: v1::CountExecutionsRequest,
    ) -> Result<v1::CountExecutionsResponse, Status> {
        let mut total = Total::default();
        match validate::parent(&request.parent)? {
            Parent::One(id) => {
                let upstream = self.upstream(&call, &id)?;
                total.add(&ask(&call, upstream, || upstream.within(&call)).await?);
            }
            Parent::All => {
                let all = self.upstreams.values();
                let all = all.filter(|upstream| call.access.may_read(&upstream.id));
                let asked = all.clone();
                let asked = asked.map(|upstream| ask(&call, upstream, || upstream.merged(&call)));
                let answers = join_all(asked).await;
                for (upstream, answer) in all.zip(answers) {
                    match answer {
                        Ok(counts) => total.add(&counts),
                        Err(_) => total.uncounted.push(upstream.id.resource_name()),
                    }
                }
            }
        }
        Ok(total.into())
    }
}

/// For each sub-state how many there are, and whether there are more.
type Counts = [(u64, bool); SubState::ALL.len()];

/// The counts of one provider, of the executions that the caller may read.
async fn ask<'u>(
    call: &ApiCall,
    upstream: &'u Upstream,
    guarded: impl Fn() -> Guarded<'u>,
) -> Result<Counts, CallError> {
    if !call.access.may_read(&upstream.id) {
        return Ok(Counts::default());
    }
    if !call.access.reads_all(&upstream.id) {
        return one_by_one(call, upstream, guarded).await;
    }
    let guarded = guarded();
    let counts = guarded.call(Verb::Count, |provider, call| provider.count(call));
    let mut all = Counts::default();
    for Count {
        example,
        count,
        at_least,
    } in counts.await?
    {
        let (total, is_more) = of(&mut all, upstream.sub_state(&example));
        *total = total.saturating_add(count);
        *is_more |= at_least;
    }
    Ok(all)
}

/// Reads executions, because a provider counts without looking at what a caller may read.
async fn one_by_one<'u>(
    call: &ApiCall,
    upstream: &'u Upstream,
    guarded: impl Fn() -> Guarded<'u>,
) -> Result<Counts, CallError> {
    let mut hints = Hints::none();
    call.access.narrow(&upstream.id, &mut hints);
    let mut all = Counts::default();
    let mut cursor = None;
    for _ in 0..MOST_READS {
        let request = ListRequest {
            hints: hints.clone(),
            page_size: ROWS_PER_READ,
            cursor,
        };
        let guarded = guarded();
        let page = guarded.call(Verb::List, |provider, call| provider.list(call, request));
        let page = page.await?;
        for observation in page.observations {
            let execution = upstream.execution(observation);
            if call.access.reads(&execution) {
                of(&mut all, execution.sub_state).0 += 1;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(all);
        }
    }
    for (_, is_more) in &mut all {
        *is_more = true;
    }
    Ok(all)
}

fn of(counts: &mut Counts, wanted: SubState) -> &mut (u64, bool) {
    let place = SubState::ALL.iter().position(|state| *state == wanted);
    &mut counts[place.unwrap_or_default()]
}

#[derive(Default)]
struct Total {
    counts: Counts,
    uncounted: Vec<String>,
}

impl Total {
    fn add(&mut self, counts: &Counts) {
        for (total, one) in self.counts.iter_mut().zip(counts) {
            total.0 = total.0.saturating_add(one.0);
            total.1 |= one.1;
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
