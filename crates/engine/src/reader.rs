//! Reading past the keeper: connections of their own, which see exactly what is on disk.

mod back;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use stateway_machine::{Fact, not_retried, step_input, step_output};
use stateway_model::{SubState, Usage};
use tokio::sync::Semaphore;

use crate::View;
use crate::catalogue::Catalogue;
use crate::coverage::Coverage;
use crate::error::{EngineError, ErrorKind, Result};
use crate::in_memory::{InMemory, Place};
use crate::recording::{BranchOrigin, MOST_RECORDED_EVENTS, Recording, Row, Source, count};
use crate::request::{
    BranchRecord, DefinitionRecord, EventRecord, ListQuery, Page, Purged, StepRecord,
};
use crate::standing::Standing;
use crate::store::{Backend, Branch, ExecutionRow, Reading, StoreError, load};
use crate::summary;
use crate::view::EngineView as _;
use stateway_driver::again;
use stateway_replay::{Attempts, BranchStart, Numbering};

/// The most concurrent reads.
const AT_ONCE: usize = 4;

/// Connections for reading.
#[derive(Debug)]
pub(crate) struct Readers {
    backend: Arc<dyn Backend>,
    standing: Arc<Standing>,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Reader>>>,
    /// How many logs were replayed for lists.
    pub(crate) list_replays: Arc<AtomicU64>,
}

/// An execution of a list.
#[derive(Debug)]
pub(crate) enum Listed {
    Shown(Box<View>),
    /// The keeper has it, with more events than its row shows.
    WithKeeper(Arc<str>),
}

/// The input of a replay for a list.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) coverage: Arc<Coverage>,
    pub(crate) count: Arc<AtomicU64>,
}

impl Replay {
    /// The execution by its log. One that is damaged must not hide the others.
    fn view(&self, store: &dyn Reading, kept: &ExecutionRow) -> Result<View> {
        self.count.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("stateway_engine_list_replays_total").increment(1);
        match load(store, kept.clone(), &self.catalogue) {
            Err(StoreError::Corrupt { what }) => Ok(View::unreadable(kept, &what)),
            Err(error) => Err(error.into()),
            Ok(loaded) => {
                let origin = &loaded.kept.origin;
                Ok(View::with_coverage(origin, &loaded.state, &self.coverage))
            }
        }
    }
}

/// One connection for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Box<dyn Reading + Send>,
}

impl Readers {
    pub(crate) fn open(
        backend: Arc<dyn Backend>,
        standing: Arc<Standing>,
    ) -> Result<Self, StoreError> {
        let first = Reader {
            store: backend.reader()?,
        };
        Ok(Self {
            backend,
            standing,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            idle: Arc::new(Mutex::new(vec![first])),
            list_replays: Arc::default(),
        })
    }

    /// The store that is read.
    pub(crate) const fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Does something with a connection, on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.standing.check()?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::stopped())?;
        let (backend, idle) = (Arc::clone(&self.backend), Arc::clone(&self.idle));
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut reader = match free {
                Some(reader) => reader,
                None => Reader {
                    store: backend.reader()?,
                },
            };
            let outcome = work(&mut reader);
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reader);
            outcome
        });
        let outcome = done.await.unwrap_or_else(|error| {
            if !error.is_panic() {
                return Err(EngineError::stopped());
            }
            // The connection is dropped with the panic; the next read opens another one.
            tracing::error!("a read of the store ended in a panic");
            Err(EngineError::read_abandoned())
        })?;
        // The process may have been paused meanwhile, and another one may have changed what was read.
        self.standing.check()?;
        Ok(outcome)
    }
}

impl Reader {
    pub(crate) fn store(&self) -> &dyn Reading {
        &*self.store
    }

    /// Runs all reads of `work` in one snapshot.
    fn at_once<T>(&self, work: impl FnOnce(&dyn Reading) -> Result<T>) -> Result<T> {
        let (mut work, mut outcome) = (Some(work), None);
        self.store.at_once(&mut |store| {
            outcome = work.take().map(|work| work(store));
        })?;
        outcome.unwrap_or_else(|| Err(EngineError::read_abandoned()))
    }

    /// An execution. A finished one is kept for the next who reads it.
    pub(crate) fn get(
        &mut self,
        id: &Arc<str>,
        in_memory: &InMemory,
        (catalogue, coverage): (&Catalogue, &Coverage),
    ) -> Result<Option<View>> {
        let under_way = in_memory.begin_read(id);
        // One statement reads as of one moment.
        let row = self.store.listed(id);
        let shown = row.as_ref().ok().and_then(Option::as_ref);
        let shown = shown.and_then(|row| {
            let shown = summary::read(row).filter(|shown| shown.has_payloads)?;
            let bytes = row.summary.as_ref().map_or(0, |summary| summary.len());
            Some((shown.view, bytes))
        });
        let finished = shown.as_ref().filter(|(view, _)| view.state.is_terminal());
        let finished = finished.map(|(view, bytes)| (Arc::new(view.clone()), *bytes));
        in_memory.end_read(id, under_way, finished);
        if let Some((view, _)) = shown {
            return Ok(Some(view));
        }
        if row?.is_none() {
            return Ok(None);
        }
        self.at_once(|store| {
            let Some(number) = store.number_of(id)? else {
                return Ok(None);
            };
            let kept = store.kept(number)?;
            kept.map(|kept| view(store, kept, catalogue, coverage))
                .transpose()
        })
    }

    /// A page of executions, most of them without input and output. Their rows show them; one that the
    /// keeper has is left to the keeper.
    pub(crate) fn list(
        &mut self,
        query: &ListQuery,
        in_memory: &InMemory,
        replay: &Replay,
    ) -> Result<Page<Listed>> {
        self.at_once(|store| {
            let rows = store.list(query)?;
            let full = rows.len() == query.limit;
            let next = rows.last().filter(|_| full).map(|last| last.origin.number);
            let listed = rows.into_iter().map(|kept| {
                if let Some(shown) = summary::read(&kept) {
                    return Ok(Listed::Shown(Box::new(shown.view)));
                }
                if matches!(in_memory.find(&kept.origin.id), Place::Keeper) {
                    return Ok(Listed::WithKeeper(Arc::clone(&kept.origin.id)));
                }
                let view = replay.view(store, &kept)?;
                Ok(Listed::Shown(Box::new(view)))
            });
            Ok(Page {
                items: listed.collect::<Result<_>>()?,
                next,
            })
        })
    }

    /// An execution that left the keeper since it was listed; none if it was removed.
    pub(crate) fn list_one(&mut self, id: &str, replay: &Replay) -> Result<Option<View>> {
        self.at_once(|store| {
            let Some(kept) = store.listed(id)? else {
                return Ok(None);
            };
            match summary::read(&kept) {
                Some(shown) => Ok(Some(shown.view)),
                None => replay.view(store, &kept).map(Some),
            }
        })
    }

    pub(crate) fn id_of(&mut self, number: i64) -> Result<Option<Arc<str>>> {
        Ok(self.store.id_of(number)?)
    }

    pub(crate) fn forks(&mut self, id: &str, limit: usize) -> Result<Vec<Arc<str>>> {
        Ok(self.store.forks(id, limit)?)
    }

    pub(crate) fn showing(&mut self, most: u32) -> Result<Vec<(SubState, u64)>> {
        self.at_once(|store| {
            let counts = SubState::ALL.iter().map(|sub_state| {
                let count = store.showing(*sub_state, most)?;
                Ok((*sub_state, count))
            });
            counts.collect()
        })
    }

    pub(crate) fn history(
        &mut self,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.lineage(id, None, after, limit).map(|(_, found)| found)
    }

    /// The events along a branch, the current one when none is named.
    pub(crate) fn lineage(
        &mut self,
        id: &str,
        branch: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Result<(u32, Vec<EventRecord>)> {
        self.at_once(|store| {
            let kept = kept_of(store, id)?;
            let number = kept.origin.number;
            let branch = branch.unwrap_or(kept.status.branch);
            known_branches(store, &kept, branch)?;
            let mut found = Vec::new();
            // A row begins at or before the event that is wanted, so rows are taken from a little
            // earlier and what is not wanted is left out.
            let from = store.row_start(number, branch, after)?;
            store.walk(number, branch, from, &mut |row| {
                for event in row.events(number)? {
                    if event.sequence > after && found.len() < limit {
                        found.push(EventRecord {
                            position: row.position,
                            execution: Arc::clone(&kept.origin.id),
                            branch: row.branch,
                            event,
                        });
                    }
                }
                Ok(found.len() < limit)
            })?;
            Ok((branch, found))
        })
    }

    /// The branches of an execution, in the order in which they were opened. The first events of a branch
    /// record who opened it and why.
    pub(crate) fn branches(
        &mut self,
        id: &str,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<BranchRecord>> {
        self.at_once(|store| {
            let kept = kept_of(store, id)?;
            let number = kept.origin.number;
            let first = Branch {
                number,
                branch: 0,
                parent: 0,
                cutoff: 0,
            };
            let grown = store.branches(number)?;
            let all = std::iter::once(first).chain(grown);
            let wanted = all.filter(|branch| after.is_none_or(|after| branch.branch > after));
            let mut found = wanted
                .take(limit)
                .map(|branch| opened(store, &kept, branch))
                .collect::<Result<Vec<_>>>()?;
            add_usage(store, number, &mut found)?;
            Ok(found)
        })
    }

    /// What happened to one step: what it was given and answered, and every attempt.
    pub(crate) fn step(
        &mut self,
        id: &str,
        step: &str,
        catalogue: &Catalogue,
    ) -> Result<StepRecord> {
        self.at_once(|store| {
            let kept = kept_of(store, id)?;
            let number = kept.origin.number;
            let loaded = load(store, kept, catalogue)?;
            let state = &loaded.state;
            if state.step_state(step).is_none() {
                return Err(EngineError::new(
                    ErrorKind::NotFound,
                    "STEP_NOT_FOUND",
                    format_args!("execution `{id}` has no step `{step}`"),
                ));
            }
            let branches = store.branches(number)?.into_iter();
            let branches = branches.map(|branch| BranchStart {
                branch: branch.branch,
                parent: branch.parent,
                cutoff: branch.cutoff,
            });
            let mut attempts = Attempts::of(id.into(), step.into(), branches.collect());
            store.chronicle(number, (0, 0), &mut |row| {
                for event in row.events(number)? {
                    attempts.take(row.branch, &event);
                }
                Ok(true)
            })?;
            let (attempts, truncated) = attempts.into_records();
            Ok(StepRecord {
                input: step_input(state, step),
                output: step_output(state, step),
                not_retried: not_retried(state, step),
                attempts,
                truncated,
            })
        })
    }

    /// How the events of an execution are numbered in the list of all its branches.
    pub(crate) fn numbering(&mut self, id: &str) -> Result<Numbering> {
        self.at_once(|store| {
            let number = store.number_of(id)?;
            let number = number.ok_or_else(|| EngineError::no_execution(id))?;
            let main = Branch {
                number,
                branch: 0,
                parent: 0,
                cutoff: 0,
            };
            let branches = std::iter::once(main).chain(store.branches(number)?);
            let numbered = branches.map(|one| {
                let last = back::last_sequence(store, number, one.branch)?;
                let events = last.saturating_sub(one.cutoff);
                Ok((one.branch, one.parent, one.cutoff, events))
            });
            Ok(Numbering::of(numbered.collect::<Result<Vec<_>>>()?))
        })
    }

    /// An execution's whole log.
    pub(crate) fn recording(&mut self, id: &str) -> Result<Recording> {
        self.at_once(|store| {
            let kept = kept_of(store, id)?;
            let number = kept.origin.number;
            let (mut rows, mut events) = (Vec::new(), 0);
            store.chronicle(number, (0, 0), &mut |row| {
                events += count(row.lines);
                rows.push(Row {
                    branch: row.branch,
                    first: row.first,
                    hash: row.hash(),
                    lines: row.lines.to_vec(),
                    line: 0,
                });
                Ok(events <= MOST_RECORDED_EVENTS)
            })?;
            if events > MOST_RECORDED_EVENTS {
                let message =
                    format!("execution `{id}` has more than {MOST_RECORDED_EVENTS} events");
                let refused =
                    EngineError::new(ErrorKind::FailedPrecondition, "HISTORY_TOO_LONG", message);
                return Err(refused.hint("{ListEvents} reads it a page at a time."));
            }
            let source = store.source(&kept.revision)?;
            let source = source.map(|(name, source)| Source {
                name,
                revision: kept.revision.to_string(),
                source,
            });
            let branches = store
                .branches(number)?
                .into_iter()
                .map(|branch| BranchOrigin {
                    branch: branch.branch,
                    parent: branch.parent,
                    cutoff: branch.cutoff,
                });
            Ok(Recording {
                execution: Arc::clone(&kept.origin.id),
                definition: Arc::clone(&kept.origin.definition),
                labels: (*kept.origin.labels).clone(),
                branch: kept.status.branch,
                redacted: false,
                definitions: source.into_iter().collect(),
                branches: branches.collect(),
                rows,
            })
        })
    }

    pub(crate) fn chronicle(
        &mut self,
        id: &str,
        after: (u32, u64),
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.at_once(|store| {
            let number = store.number_of(id)?;
            let number = number.ok_or_else(|| EngineError::no_execution(id))?;
            let mut found = Vec::new();
            store.chronicle(number, after, &mut |row| {
                for event in row.events(number)? {
                    if (row.branch, event.sequence) > after && found.len() < limit {
                        found.push(EventRecord {
                            position: row.position,
                            execution: id.into(),
                            branch: row.branch,
                            event,
                        });
                    }
                }
                Ok(found.len() < limit)
            })?;
            Ok(found)
        })
    }

    pub(crate) fn log(&mut self, after: i64, limit: usize) -> Result<Vec<EventRecord>> {
        self.at_once(|store| Ok(store.log(after, limit)?))
    }

    pub(crate) fn revisions(&mut self, name: &str) -> Result<Vec<DefinitionRecord>> {
        Ok(self.store.revisions(name)?)
    }

    pub(crate) fn definitions(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DefinitionRecord>> {
        Ok(self.store.definitions(after.unwrap_or(""), limit)?)
    }

    /// How many executions ended before this time, up to a limit. Executions whose events a
    /// webhook still needs are included: only the keeper knows them.
    pub(crate) fn count_ended(&mut self, before: Timestamp, limit: usize) -> Result<Purged> {
        let found = self
            .store
            .ended(before, None, limit.saturating_add(1))?
            .len();
        Ok(Purged {
            executions: found.min(limit) as u64,
            more: found > limit,
            held_back: 0,
        })
    }
}

fn kept_of(store: &dyn Reading, id: &str) -> Result<ExecutionRow> {
    let number = store.number_of(id)?;
    let number = number.ok_or_else(|| EngineError::no_execution(id))?;
    let kept = store.kept(number)?;
    kept.ok_or_else(|| EngineError::no_execution(id))
}

/// The branches of an execution, this one among them.
fn known_branches(store: &dyn Reading, kept: &ExecutionRow, branch: u32) -> Result<Vec<Branch>> {
    let known = store.branches(kept.origin.number)?;
    if branch == 0 || known.iter().any(|known| known.branch == branch) {
        return Ok(known);
    }
    let id = &kept.origin.id;
    let message = format_args!("execution `{id}` has no branch {branch}");
    let refused = EngineError::new(ErrorKind::NotFound, "BRANCH_NOT_FOUND", message);
    Err(refused.hint("{ListBranches} lists the branches."))
}

/// Adds to each branch what its own events cost.
fn add_usage(store: &dyn Reading, number: i64, branches: &mut [BranchRecord]) -> Result<()> {
    let Some(first) = branches.first() else {
        return Ok(());
    };
    store.chronicle(number, (first.branch, 0), &mut |row| {
        let Some(branch) = branches.iter_mut().find(|one| one.branch == row.branch) else {
            return Ok(false);
        };
        for event in row.events(number)? {
            if let Fact::UsageReported { usage, .. } = event.fact {
                branch.usage = branch.usage + usage;
            }
        }
        Ok(true)
    })?;
    Ok(())
}

/// A branch, with the data of its first row.
fn opened(store: &dyn Reading, kept: &ExecutionRow, branch: Branch) -> Result<BranchRecord> {
    let mut first = Vec::new();
    store.chronicle(branch.number, (branch.branch, 0), &mut |row| {
        if row.branch == branch.branch {
            first = row.events(branch.number)?;
        }
        Ok(false)
    })?;
    let root = branch.branch == 0;
    let mut record = BranchRecord {
        branch: branch.branch,
        parent: (!root).then_some(branch.parent),
        cutoff: branch.cutoff,
        current: kept.status.branch == branch.branch,
        cause: String::new(),
        by: "".into(),
        created: first.first().map(|event| event.at),
        usage: Usage::default(),
    };
    for event in &first {
        match &event.fact {
            Fact::ExecutionCreated { initiator, .. } => {
                (record.by, record.cause) = (Arc::clone(initiator), "started".to_owned());
            }
            Fact::BranchOpened { by, redo, .. } => {
                let what = redo.as_deref().map(again).unwrap_or_default();
                (record.by, record.cause) = (Arc::clone(by), format!("retry {what}"));
            }
            Fact::ExecutionForked { from, by, redo, .. } => {
                let what = redo.as_deref().map(again).unwrap_or_default();
                (record.by, record.cause) = (Arc::clone(by), format!("fork of {from} {what}"));
            }
            Fact::ExecutionRecovered { reason, .. } => {
                record.cause = format!("recovered: {reason}");
            }
            _ => {}
        }
    }
    Ok(record)
}

fn view(
    store: &dyn Reading,
    kept: ExecutionRow,
    catalogue: &Catalogue,
    coverage: &Coverage,
) -> Result<View> {
    let loaded = load(store, kept, catalogue)?;
    Ok(View::with_coverage(
        &loaded.kept.origin,
        &loaded.state,
        coverage,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryDisk;

    #[tokio::test]
    async fn a_read_that_panics_ends_alone() {
        let readers = Readers::open(Arc::new(MemoryDisk::default()), Arc::default()).unwrap();
        let panics = |_: &mut Reader| -> Result<()> { panic!("a test lets a read panic") };
        let error = readers.read(panics).await.unwrap_err();
        assert_eq!(error.reason, EngineError::read_abandoned().reason);
        assert_ne!(error.reason, EngineError::stopped().reason);
        assert_eq!(readers.read(|_| Ok(7)).await.unwrap(), 7);
    }
}
