//! Counts by sub-state. The server counts runs by their status; an execution is a workflow, which may have
//! several runs, and only descriptions show what an open one does. So runs are listed, each workflow counts
//! once, and open ones are described as a list does it. The server's own counts say what was not listed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::adapter::lock;
use stateway_provider_api::table::{Row, Scope};
use stateway_provider_api::{
    Count, ErrorKind, NativeState, Observation, Result, StepObservation, Table, classify,
};

use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::CountWorkflowExecutionsRequest;
use crate::client::Ask;
use crate::list::LONGEST_PAGE;
use crate::qualifier::PENDING;
use crate::quota::Api;
use crate::reader::Reader;
use crate::response::{RUNNING, is_closed, workflow_id};
use crate::{payload, query};

/// The most pages of runs that are listed for one count.
const MOST_PAGES: usize = 5;
/// For how long a count that took several pages is answered again.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The last count that took several pages.
#[derive(Debug, Default)]
pub(crate) struct LastCount(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// How often something was changed through this provider.
    changes: u64,
    counted: Option<(Instant, Vec<Count>)>,
}

impl LastCount {
    fn fresh(&self, now: Instant) -> Option<Vec<Count>> {
        let last = lock(&self.0);
        let (at, counts) = last.counted.as_ref()?;
        (*at + REMEMBERED > now).then(|| counts.clone())
    }

    fn changes(&self) -> u64 {
        lock(&self.0).changes
    }

    /// Stores a count that began after this number of changes, unless there was another change since: the count may have
    /// missed it.
    fn keep(&self, now: Instant, changes: u64, counts: &[Count]) {
        let mut last = lock(&self.0);
        if last.changes == changes {
            last.counted = Some((now, counts.to_vec()));
        }
    }

    /// Something was changed through this provider.
    pub(crate) fn forget(&self) {
        let mut last = lock(&self.0);
        last.changes += 1;
        last.counted = None;
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
    let changes = last.changes();
    let mut tally = Tally::default();
    let patience = ask.call.remaining() / 2;
    let (mut workflows, mut listed) = (BTreeSet::new(), BTreeMap::<i32, u64>::new());
    let mut token = Vec::new();
    // A count that failed in part is returned, but not cached.
    let mut is_whole = true;
    for page in 0..MOST_PAGES {
        let runs = reader.runs(ask, query::ALL, LONGEST_PAGE, token);
        let runs = if page == 0 {
            runs.await?
        } else {
            let Some(runs) = in_part_of(ask, "runs", runs).await else {
                is_whole = false;
                break;
            };
            runs
        };
        for run in &runs.rows {
            *listed.entry(run.status).or_default() += 1;
        }
        let mut rows = runs.rows;
        rows.retain(|run| workflows.insert(workflow_id(run).to_owned()));
        for seen in reader.refine(ask, rows).await? {
            tally.add(table, seen);
        }
        token = runs.next;
        if token.is_empty() {
            let counts = tally.counts(table);
            if page > 0 {
                last.keep(reader.clock.now(), changes, &counts);
            }
            return Ok(counts);
        }
        // An incomplete count is better than none.
        if ask.call.remaining() < patience {
            break;
        }
    }
    let by_status = in_part_of(ask, "the number of runs", reader.runs_by_status(ask)).await;
    is_whole &= by_status.is_some();
    tally.add_unlisted(table, by_status.flatten(), &listed);
    let counts = tally.counts(table);
    if is_whole {
        last.keep(reader.clock.now(), changes, &counts);
    }
    Ok(counts)
}

/// What the server answers in half of the time that is left, so that a count can end without it.
async fn in_part_of<T>(
    ask: Ask<'_>,
    what: &str,
    answer: impl Future<Output = Result<T>>,
) -> Option<T> {
    match tokio::time::timeout(ask.call.remaining() / 2, answer).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(error)) => {
            tracing::debug!(%error, what, "not counted");
            None
        }
        Err(_) => {
            tracing::debug!(what, "not counted in time");
            None
        }
    }
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
    counts: BTreeMap<SubState, Count>,
    /// Open executions that are shown by their status alone.
    unread: u64,
}

impl Tally {
    fn add(&mut self, table: &Table, seen: Observation) {
        let unread = seen.native.qualifiers.get(PENDING.as_str());
        if unread.is_some_and(|pending| pending == "unread") {
            self.unread += 1;
        }
        self.group(table, seen).count += 1;
    }

    /// The group of the executions that show the same sub-state as this one.
    fn group(&mut self, table: &Table, seen: Observation) -> &mut Count {
        let group = self.counts.entry(shown(table, &seen));
        group.or_insert_with(|| Count::of(seen, 0))
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
            self.may_be_more(table, SubState::ALL);
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
            let group = self.group(table, seen);
            if is_closed(&run) {
                group.at_least = true;
            } else {
                group.count += unlisted;
                self.unread += unlisted;
            }
        }
    }

    fn may_be_more(&mut self, table: &Table, sub_states: &[SubState]) {
        for sub_state in sub_states {
            let found = self.counts.contains_key(sub_state);
            let example = if found {
                None
            } else {
                example(table, *sub_state)
            };
            if let Some(example) = example {
                self.group(table, example);
            }
            if let Some(group) = self.counts.get_mut(sub_state) {
                group.at_least = true;
            }
        }
    }

    /// Executions whose description was not read may show another sub-state than running.
    fn counts(mut self, table: &Table) -> Vec<Count> {
        if self.unread > 0 {
            let hidden = [SubState::Waiting, SubState::BackingOff, SubState::Error];
            self.may_be_more(table, &hidden);
        }
        self.counts.into_values().collect()
    }
}

fn shown(table: &Table, seen: &Observation) -> SubState {
    classify(table, seen, Timestamp::now()).execution.sub_state
}

/// An execution that shows this sub-state by a row of the table; none if no row alone shows it.
fn example(table: &Table, wanted: SubState) -> Option<Observation> {
    let rows = table.rows().iter().filter(|row| row.sub_state == wanted);
    rows.filter_map(by_row)
        .find(|seen| shown(table, seen) == wanted)
}

/// An execution that the row matches, or an open one with a step that the row matches.
fn by_row(row: &Row) -> Option<Observation> {
    let native = NativeState {
        state: row.native.clone(),
        qualifiers: row.when.clone(),
    };
    let id = ExecutionId::new(Count::EXAMPLE).ok()?;
    Some(match row.scope {
        Scope::Execution => Observation::new(id, native),
        Scope::Step => {
            let open = NativeState::new(RUNNING).with(PENDING, "some");
            let mut seen = Observation::new(id, open);
            seen.steps = vec![StepObservation::new(Count::EXAMPLE, native)];
            seen
        }
    })
}
