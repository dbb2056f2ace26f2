//! Counts by sub-state. The server counts runs by their status; an execution is a workflow, which may have
//! several runs, and only descriptions show what an open one does. So runs are listed, each workflow counts
//! once, and open ones are described as a list does it. The server's own counts say what was not listed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_model::SubState;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Count, ErrorKind, Observation, Result, Table, classify};

use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::CountWorkflowExecutionsRequest;
use crate::client::Ask;
use crate::list::LONGEST_PAGE;
use crate::qualifier::PENDING;
use crate::quota::Api;
use crate::reader::Reader;
use crate::response::{is_closed, workflow_id};
use crate::{payload, query};

/// The most pages of runs that are listed for one count.
const MOST_PAGES: usize = 5;
/// For how long a count that took several pages is answered again.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The last count that took several pages.
#[derive(Debug, Default)]
pub(crate) struct LastCount(Mutex<Option<(Instant, Vec<Count>)>>);

impl LastCount {
    fn fresh(&self, now: Instant) -> Option<Vec<Count>> {
        let last = lock(&self.0);
        let (at, counts) = last.as_ref()?;
        (*at + REMEMBERED > now).then(|| counts.clone())
    }

    fn keep(&self, now: Instant, counts: &[Count]) {
        *lock(&self.0) = Some((now, counts.to_vec()));
    }

    /// Something was changed through this provider.
    pub(crate) fn forget(&self) {
        *lock(&self.0) = None;
    }
}

pub(crate) async fn count(
    (reader, last): (&Reader, &LastCount),
    ask: Ask<'_>,
    table: &Table,
) -> Result<Vec<Count>> {
    if let Some(counts) = last.fresh(reader.clock.now()) {
        return Ok(counts);
    }
    let mut tally = Tally::default();
    let patience = ask.call.remaining() / 2;
    let (mut workflows, mut listed) = (BTreeSet::new(), BTreeMap::<i32, u64>::new());
    let mut token = Vec::new();
    for page in 0..MOST_PAGES {
        let runs = reader.runs(ask, query::ALL, LONGEST_PAGE, token).await?;
        for run in &runs.rows {
            *listed.entry(run.status).or_default() += 1;
        }
        let mut rows = runs.rows;
        rows.retain(|run| workflows.insert(workflow_id(run).to_owned()));
        for seen in reader.refine(ask, rows).await? {
            tally.add(table, &seen);
        }
        token = runs.next;
        if token.is_empty() {
            let counts = tally.counts();
            if page > 0 {
                last.keep(reader.clock.now(), &counts);
            }
            return Ok(counts);
        }
        // An incomplete count is better than none.
        if ask.call.remaining() < patience {
            break;
        }
    }
    tally.add_unlisted(table, reader.runs_by_status(ask).await?, &listed);
    let counts = tally.counts();
    last.keep(reader.clock.now(), &counts);
    Ok(counts)
}

impl Reader {
    /// How many runs there are in each status; none from a server that cannot group them.
    async fn runs_by_status(&self, ask: Ask<'_>) -> Result<Option<BTreeMap<i32, u64>>> {
        self.client.turn(ask, Api::Visibility).await?;
        let request = CountWorkflowExecutionsRequest {
            namespace: self.client.namespace(),
            query: query::by_status(),
        };
        let counted = match self.client.count_workflow_executions(ask, request).await {
            Err(error) if error.kind == ErrorKind::InvalidArgument => return Ok(None),
            counted => counted?,
        };
        let mut groups = BTreeMap::new();
        for group in counted.groups {
            let word = group.group_values.first().map(payload::text);
            let status = word.and_then(|word| query::status(&word));
            let count = u64::try_from(group.count).unwrap_or_default();
            *groups.entry(status.unwrap_or_default()).or_default() += count;
        }
        Ok(Some(groups))
    }
}

/// What was counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    counts: BTreeMap<SubState, (u64, bool)>,
    /// Open executions that are shown by their status alone.
    unread: u64,
}

impl Tally {
    fn add(&mut self, table: &Table, seen: &Observation) {
        let unread = seen.native.qualifiers.get(PENDING.as_str());
        if unread.is_some_and(|pending| pending == "unread") {
            self.unread += 1;
        }
        let sub_state = classify(table, seen, Timestamp::now()).execution.sub_state;
        self.counts.entry(sub_state).or_default().0 += 1;
    }

    /// Runs that were counted and not listed. An open run is an execution; a closed one may belong to an
    /// execution that was listed, so that the number of executions is not known.
    fn add_unlisted(
        &mut self,
        table: &Table,
        runs: Option<BTreeMap<i32, u64>>,
        listed: &BTreeMap<i32, u64>,
    ) {
        let Some(runs) = runs else {
            for sub_state in SubState::ALL {
                self.counts.entry(*sub_state).or_default().1 = true;
            }
            return;
        };
        for (status, count) in runs {
            let listed = listed.get(&status).copied().unwrap_or_default();
            let unlisted = count.saturating_sub(listed);
            let run = WorkflowExecutionInfo {
                status,
                ..WorkflowExecutionInfo::default()
            };
            let Some(seen) = crate::response::of_status(status).filter(|_| unlisted > 0) else {
                continue;
            };
            let sub_state = classify(table, &seen, Timestamp::now()).execution.sub_state;
            let shown = self.counts.entry(sub_state).or_default();
            if is_closed(&run) {
                shown.1 = true;
            } else {
                shown.0 += unlisted;
                self.unread += unlisted;
            }
        }
    }

    /// Executions whose description was not read may show another sub-state than running.
    fn counts(mut self) -> Vec<Count> {
        if self.unread > 0 {
            for sub_state in [SubState::Waiting, SubState::BackingOff, SubState::Error] {
                self.counts.entry(sub_state).or_default().1 = true;
            }
        }
        let counts = self.counts.into_iter();
        counts
            .map(|(sub_state, (count, at_least))| Count {
                sub_state,
                count,
                at_least,
            })
            .collect()
    }
}
