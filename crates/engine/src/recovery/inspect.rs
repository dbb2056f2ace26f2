//! Verifies one execution: its log from the beginning, and its row, snapshots, branches, requests and children.

mod log;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_driver::resume;
use stateway_machine::{
    ChildOrder, Event, ExecutionState, Fact, State, child_id, restore, snapshot, snapshot_revision,
};
use stateway_model::SubState;

use super::remedy::{after_break, after_loss, is_end};
use super::{Code, Finding, Remedy, Verdict};
use crate::catalogue::Catalogue;
use crate::cause::is_engines_own;
use crate::store::{
    ANY_BODY, Answered, Branch, ExecutionRow, Hash, OpenWork, Reading, Status, StoreError, plan,
};
use log::{Log, Trusted};

type Result<T> = std::result::Result<T, StoreError>;

/// The input of a verification beside the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InspectionContext<'e> {
    pub(crate) catalogue: &'e Catalogue,
    pub(crate) now: Timestamp,
    /// How long the id of a request is remembered.
    pub(crate) memory: SignedDuration,
}

/// The result of a verification, and what a recovery needs of it.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) verdict: Verdict,
    /// The consequence if a reader has seen events that the log does not have.
    pub(crate) if_lost: Option<Remedy>,
    /// None where nothing can be done.
    pub(crate) basis: Option<Basis>,
}

impl Inspection {
    /// Adds what was found in memory, and what follows from it.
    pub(crate) fn add(&mut self, recalled: Vec<Finding>) {
        let lost = recalled.iter().any(|found| found.code == Code::L1);
        let remedy = &mut self.verdict.remedy;
        match remedy {
            Remedy::Nothing | Remedy::Repair if lost => {
                *remedy = self.if_lost.take().unwrap_or(Remedy::Repair);
            }
            Remedy::Nothing if !recalled.is_empty() => *remedy = Remedy::Repair,
            _ => {}
        }
        self.verdict.findings.extend(recalled);
    }
}

/// How a snapshot stands to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnapshotFit {
    /// There is none, or it is what the log leads to.
    Right,
    Wrong,
    /// It has seen more than the log.
    Ahead,
}

/// The state at the beginning of a recovery.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) kept: ExecutionRow,
    /// After the last event that can be trusted.
    pub(crate) state: State,
    pub(crate) hash: Hash,
    /// The highest number a branch has.
    pub(crate) newest: u32,
    /// The branches that are missing in the table.
    pub(crate) branches: Vec<Branch>,
    /// Whether a snapshot misleads.
    pub(crate) misled: bool,
    /// The revision it was started with, where the row names another.
    pub(crate) revision: Option<Arc<str>>,
    /// The records of requests that are lost.
    pub(crate) requests: Vec<Answered>,
}

/// Looks at an execution as of one moment; one of which nothing can be read is a finding too.
pub(crate) fn verify(
    store: &dyn Reading,
    number: i64,
    context: InspectionContext<'_>,
) -> Result<Option<Inspection>> {
    let mut found = Ok(None);
    store.at_once(&mut |store| found = inspect(store, number, context))?;
    Ok(found.unwrap_or_else(|error| {
        let id = store.id_of(number).ok().flatten();
        Some(unreadable(number, id, &error))
    }))
}

/// Verifies executions in the order of their creation, after a number.
pub(crate) fn verify_several(
    store: &dyn Reading,
    (after, limit): (i64, usize),
    context: InspectionContext<'_>,
) -> Result<(Vec<Inspection>, Option<i64>)> {
    let numbers = store.numbers(after, limit)?;
    let next = numbers.last().copied().filter(|_| numbers.len() == limit);
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        // One that is gone by now needs no verdict.
        found.extend(verify(store, number, context)?);
    }
    Ok((found, next))
}

fn unreadable(number: i64, id: Option<Arc<str>>, error: &StoreError) -> Inspection {
    let found = Finding::new(Code::H2, "the stored data of the execution cannot be read");
    Inspection {
        verdict: Verdict {
            number,
            id: id.unwrap_or_else(|| format!("#{number}").into()),
            branch: 0,
            sequence: 0,
            events: 0,
            head: String::new(),
            findings: vec![found.seen(error.to_string())],
            remedy: Remedy::Refused {
                why: "the stored data of the execution cannot be read".to_owned(),
                hint: error.hint().to_owned(),
            },
        },
        if_lost: None,
        basis: None,
    }
}

/// Verifies an execution; none if no execution has this number.
fn inspect(
    store: &dyn Reading,
    number: i64,
    context: InspectionContext<'_>,
) -> Result<Option<Inspection>> {
    let Some(kept) = store.kept(number)? else {
        return Ok(None);
    };
    let table = store.branches(number)?;
    let log = Log::read(store, number, &table)?;
    let mut verification = Verification {
        store,
        context,
        table,
        findings: log.findings(),
        log,
        kept,
    };
    verification.take().map(Some)
}

/// Whether a snapshot leads to a state. Its bytes need not be what this build would write: a build that
/// knew less of a state wrote less.
fn is_of(data: &[u8], state: &State) -> bool {
    data == snapshot(state)
        || restore(Arc::clone(state.plan()), data).is_ok_and(|read| read == *state)
}

struct Verification<'l> {
    store: &'l dyn Reading,
    context: InspectionContext<'l>,
    kept: ExecutionRow,
    table: Vec<Branch>,
    log: Log,
    findings: Vec<Finding>,
}

impl Verification<'_> {
    fn take(&mut self) -> Result<Inspection> {
        let current = self.log.current();
        let trusted = self.log.trusted(current);
        let Some(first) = trusted.events.first().cloned() else {
            let (why, hint) = if self.log.events() == 0 {
                (
                    "the execution has a row but no event",
                    "Restore a backup, or purge the execution.",
                )
            } else {
                (
                    "no event of the execution can be trusted",
                    "Restore a backup.",
                )
            };
            return Ok(self.refused(&trusted, Code::H2, why, hint));
        };
        let Some(state) = self.begin(&first)? else {
            let (why, hint) = (
                "the revision with which the execution was started is not stored",
                "Apply that revision of the definition again, then recover the execution.",
            );
            return Ok(self.refused(&trusted, Code::E2, why, hint));
        };
        let (state, snapshot) = self.replay(state, &trusted)?;
        let branches = self.branches();
        let mut requests: Vec<_> = self.start_request(&first)?.into_iter().collect();
        let remedy = if trusted.whole {
            let remedy = self.status(&state, &trusted.events, &first)?;
            match (remedy, &snapshot) {
                (Remedy::Nothing, SnapshotFit::Ahead) => after_loss(&state).unwrap_or_default(),
                (remedy, _) => remedy,
            }
        } else {
            self.broken(&state, &trusted)
        };
        requests.extend(self.last_requests()?);
        self.children(&state)?;
        let remedy = match remedy {
            Remedy::Nothing if !self.findings.is_empty() => Remedy::Repair,
            remedy => remedy,
        };
        let verdict = self.verdict(&trusted, remedy);
        let basis = Basis {
            kept: self.kept.clone(),
            state,
            hash: trusted.hash,
            newest: self.newest(current),
            branches,
            misled: snapshot != SnapshotFit::Right,
            revision: self.revision(&first),
            requests,
        };
        let basis = Some(basis).filter(|_| !matches!(verdict.remedy, Remedy::Refused { .. }));
        Ok(Inspection {
            verdict,
            if_lost: basis.as_ref().and_then(|basis| after_loss(&basis.state)),
            basis,
        })
    }

    /// The state before the first event, by the revision the log begins with.
    fn begin(&mut self, first: &Event) -> Result<Option<State>> {
        let Fact::ExecutionCreated { revision, .. } = &first.fact else {
            return Err(StoreError::corrupt(format_args!(
                "the log of execution {} does not begin with its creation",
                self.kept.origin.number
            )));
        };
        if *self.kept.revision != **revision {
            let found = Finding::new(Code::E2, "the row names another revision than the log")
                .seen(format!("row: revision {}", self.kept.revision))
                .seen(format!("log: event 1 has revision {revision}"));
            self.findings.push(found);
        }
        match self.known(revision)? {
            Some(plan) => Ok(Some(State::new(plan))),
            None => {
                let found = Finding::new(Code::E2, "the definition of the execution is not stored")
                    .seen(format!("log: event 1 has revision {revision}"))
                    .seen(format!(
                        "definitions: `{}` has no such revision",
                        self.kept.origin.definition
                    ));
                self.findings.push(found);
                Ok(None)
            }
        }
    }

    /// The revision the log begins with, where the row names another.
    fn revision(&self, first: &Event) -> Option<Arc<str>> {
        match &first.fact {
            Fact::ExecutionCreated { revision, .. } => Some(Arc::clone(revision)),
            _ => None,
        }
        .filter(|revision| *revision != self.kept.revision)
    }

    /// The plan of a revision, if that is stored: what is in memory is gone with the process.
    fn known(&self, revision: &str) -> Result<Option<Arc<stateway_machine::Plan>>> {
        match self.store.source(revision)? {
            Some(_) => plan(self.store, revision, self.context.catalogue).map(Some),
            None => Ok(None),
        }
    }

    /// Replays the events that can be trusted, and compares the snapshot with the result.
    fn replay(&mut self, mut state: State, trusted: &Trusted) -> Result<(State, SnapshotFit)> {
        let number = self.kept.origin.number;
        let kept = self.store.snapshot(number, self.kept.status.branch)?;
        // A snapshot of another build is a cache that is not used, and no damage.
        let kept = kept.filter(|kept| snapshot_revision(&kept.data).is_ok());
        let mut held = None;
        for event in &trusted.events {
            state.apply(event);
            let here = kept.as_ref().filter(|kept| kept.sequence == event.sequence);
            if let Some(kept) = here
                && self.kept.status.branch == self.log.current()
            {
                let link = self.log.link_at(self.log.current(), event.sequence);
                held = Some(is_of(&kept.data, &state) && link == Some(kept.hash));
            }
        }
        let Some(kept) = kept else {
            return Ok((state, SnapshotFit::Right));
        };
        if self.known(&kept.revision)?.is_none() {
            let found = Finding::new(Code::E2, "the revision of the snapshot is not stored")
                .seen(format!(
                    "snapshot: event {}, revision {}",
                    kept.sequence, kept.revision
                ))
                .seen("definitions: no such revision; the log continues with the first revision");
            self.findings.push(found);
            return Ok((state, SnapshotFit::Wrong));
        }
        let here = self.kept.status.branch == self.log.current() && trusted.whole;
        let (held, code, summary) = match held {
            Some(true) => return Ok((state, SnapshotFit::Right)),
            None if !here => return Ok((state, SnapshotFit::Right)),
            None if kept.sequence > state.sequence() => (
                SnapshotFit::Ahead,
                Code::L1,
                "the snapshot is ahead of the log: the last events are lost",
            ),
            _ => (
                SnapshotFit::Wrong,
                Code::S2,
                "the snapshot differs from the log",
            ),
        };
        let found = Finding::new(code, summary)
            .seen(format!("snapshot: after event {}", kept.sequence))
            .seen(format!("log: {} events", trusted.events.len()));
        self.findings.push(found);
        Ok((state, held))
    }

    /// Holds the table of branches and the row to the branches that the log opened.
    fn branches(&mut self) -> Vec<Branch> {
        let number = self.kept.origin.number;
        let lacking = self.log.lacking(&self.table, number);
        for branch in &lacking {
            let found = Finding::new(Code::D2, "the table of branches differs from the log")
                .seen(format!(
                    "log: branch {} leaves branch {} after event {}",
                    branch.branch, branch.parent, branch.cutoff
                ))
                .seen(
                    match self.table.iter().find(|row| row.branch == branch.branch) {
                        Some(row) => format!(
                            "branches: it leaves branch {} after event {}",
                            row.parent, row.cutoff
                        ),
                        None => "branches: no such row".to_owned(),
                    },
                );
            self.findings.push(found);
        }
        let (row, log) = (self.kept.status.branch, self.log.current());
        if row != log {
            let found = Finding::new(Code::D2, "the log continues on another branch than the row")
                .seen(format!("row: branch {row}"))
                .seen(format!("log: {}", self.log.opening(log)));
            self.findings.push(found);
        }
        lacking
    }

    /// Holds the row to what the log leads to.
    fn status(&mut self, state: &State, events: &[Event], first: &Event) -> Result<Remedy> {
        let not_before = self.kept.origin.not_before;
        let under_way = OpenWork::of(state, not_before);
        let log = Status::of(state, &under_way);
        let row = self.kept.status.clone();
        if self.kept.older || Status::is_like(state, &under_way, &row) {
            return Ok(Remedy::Nothing);
        }
        let moved = (row.state, row.sub_state, row.ended) != (log.state, log.sub_state, log.ended);
        let behind = row.branch < log.branch
            // Nothing comes after an end.
            || row.branch == log.branch
                && (!moved || state.state().is_terminal() || self.was_so(&row, events, first)?);
        let (code, summary) = if behind {
            differs(&row, &log)
        } else {
            (
                Code::L1,
                "the row is ahead of the log: the last events are lost",
            )
        };
        let found = Finding::new(code, summary)
            .seen(format!("row: {}", words(&row)))
            .seen(format!("log: {}", words(&log)))
            .seen(format!(
                "log: {} events, the last is {}",
                events.len(),
                events.last().map_or("none", |event| event.fact.name())
            ));
        self.findings.push(found);
        if behind {
            return Ok(Remedy::Nothing);
        }
        Ok(after_loss(state).unwrap_or_default())
    }

    /// Whether the row has the state of an earlier event.
    fn was_so(&self, row: &Status, events: &[Event], first: &Event) -> Result<bool> {
        let Fact::ExecutionCreated { revision, .. } = &first.fact else {
            return Ok(false);
        };
        let Some(plan) = self.known(revision)? else {
            return Ok(false);
        };
        let not_before = self.kept.origin.not_before;
        let mut state = State::new(plan);
        for event in events {
            state.apply(event);
            if Status::agrees(&state, &OpenWork::of(&state, not_before), row) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The consequence of an incomplete log.
    fn broken(&self, state: &State, trusted: &Trusted) -> Remedy {
        if state.state().is_terminal() {
            return Remedy::Refused {
                why: "the execution has ended according to all trusted events".to_owned(),
                hint: "Keep a copy of the store for the investigation.".to_owned(),
            };
        }
        let left = self.log.after(&trusted.lineage, state.sequence());
        // An execution that has ended for its clients must not run again to repair its history.
        if self.kept.status.ended.is_some() && left.iter().any(is_end) {
            return Remedy::Refused {
                why: "the execution has ended; only its history is damaged".to_owned(),
                hint: "Restore a backup to see what happened.".to_owned(),
            };
        }
        // What is missing may have been anything.
        let missing = self.findings.iter().any(|found| found.code == Code::H2);
        let lost = after_loss(state).filter(|_| missing);
        lost.unwrap_or_else(|| after_break(state, &left))
    }

    /// Holds the record of the request that started it to the log; what is to be written.
    fn start_request(&mut self, first: &Event) -> Result<Option<Answered>> {
        let origin = Arc::clone(&self.kept.origin);
        // Children and what the clock started are the engine's own: no request led to them.
        let own = origin.parent.is_some() || origin.id.contains('~');
        if own || first.at.duration_until(self.context.now) > self.context.memory {
            return Ok(None);
        }
        let id = Arc::clone(&first.causation);
        let summary = match self.store.answered(&id)? {
            Some(found) if found.number == origin.number => return Ok(None),
            Some(_) => "the record of the request that started the execution names another one",
            None => "the request that started the execution is not recorded",
        };
        let found = Finding::new(Code::R1, summary)
            .seen(format!("log: event 1 was caused by request `{id}`"))
            .seen("requests: a repeated request would not find this execution");
        self.findings.push(found);
        Ok(Some(self.answered(id)))
    }

    /// Holds the records of the requests that the last turn carried out to the log: a write that was torn
    /// may have left the events without the records.
    fn last_requests(&mut self) -> Result<Vec<Answered>> {
        let mut lost: Vec<Answered> = Vec::new();
        for event in self.log.last_turn() {
            let id = &event.causation;
            // How it was started is compared above; a fork has these events of its source.
            if matches!(
                event.fact,
                Fact::ExecutionCreated { .. } | Fact::ExecutionQueued { .. }
            ) {
                continue;
            }
            let asked = event.cause.is_none() && !is_engines_own(id);
            let old = event.at.duration_until(self.context.now) > self.context.memory;
            let known = lost.iter().any(|one| one.id == *id);
            if asked && !old && !known && self.store.answered(id)?.is_none() {
                lost.push(self.answered(Arc::clone(id)));
            }
        }
        for Answered { id, .. } in &lost {
            let summary = "a request that changed the execution is not recorded";
            let found = Finding::new(Code::R1, summary)
                .seen(format!(
                    "log: the last events were caused by request `{id}`"
                ))
                .seen("requests: a repeated request would be carried out again");
            self.findings.push(found);
        }
        Ok(lost)
    }

    /// The record of a request of which the log has the id. What was asked is not in the log, so whatever
    /// comes with this id is taken for it.
    fn answered(&self, id: Arc<str>) -> Answered {
        Answered {
            id,
            body: ANY_BODY,
            number: self.kept.origin.number,
            at: self.context.now,
        }
    }

    /// Holds the children it waits for to their rows.
    fn children(&mut self, state: &State) -> Result<()> {
        let open = resume(state);
        for order in open.start_children.iter().chain(&open.cancel_children) {
            if let Some(found) = self.child(order)? {
                self.findings.push(found);
            }
        }
        Ok(())
    }

    fn child(&self, order: &ChildOrder) -> Result<Option<Finding>> {
        let id = child_id(&order.key);
        let step = &order.key.task.step;
        let waits = format!("log: step `{step}` waits for the execution `{id}`");
        let Some(number) = self.store.number_of(&id)? else {
            let found = Finding::new(
                Code::P1,
                "the execution waits for a child that does not exist",
            );
            return Ok(Some(found.seen(waits)));
        };
        let ended = self.store.kept(number)?.and_then(|kept| {
            let ended = kept.status.ended.is_some();
            ended.then_some(kept.status.state)
        });
        Ok(ended.map(|state| {
            Finding::new(
                Code::P1,
                "the execution was not notified of the end of its child",
            )
            .seen(waits)
            .seen(format!("row of `{id}`: {state}"))
        }))
    }

    fn newest(&self, current: u32) -> u32 {
        let rows = self.table.iter().map(|row| row.branch).max();
        rows.unwrap_or(0).max(current)
    }

    fn refused(&mut self, trusted: &Trusted, code: Code, why: &str, hint: &str) -> Inspection {
        if !self.findings.iter().any(|found| found.code == code) {
            let seen = format!(
                "row: {}; log: {} events",
                words(&self.kept.status),
                self.log.events()
            );
            self.findings.push(Finding::new(code, why).seen(seen));
        }
        let remedy = Remedy::Refused {
            why: why.to_owned(),
            hint: hint.to_owned(),
        };
        Inspection {
            verdict: self.verdict(trusted, remedy),
            if_lost: None,
            basis: None,
        }
    }

    fn verdict(&mut self, trusted: &Trusted, remedy: Remedy) -> Verdict {
        let origin = &self.kept.origin;
        Verdict {
            number: origin.number,
            id: Arc::clone(&origin.id),
            branch: self.log.current(),
            sequence: trusted.events.last().map_or(0, |event| event.sequence),
            events: self.log.events(),
            head: stateway_definition::hex(&trusted.hash),
            findings: std::mem::take(&mut self.findings),
            remedy,
        }
    }
}

/// Which code a row has that is behind its log.
fn differs(row: &Status, log: &Status) -> (Code, &'static str) {
    let waits = |status: &Status| {
        status.inbox > 0
            || matches!(
                status.state,
                ExecutionState::AwaitingApproval | ExecutionState::AwaitingSignal
            )
    };
    let open = row.ended.is_none();
    let failed = matches!(log.sub_state, SubState::Error | SubState::Failed)
        || log.state == ExecutionState::Compensating;
    if open && log.state == ExecutionState::Completed {
        return (
            Code::A3,
            "the execution has ended in the log, not in the row",
        );
    }
    if failed && row.state != log.state {
        return (Code::A4, "a step failed in the log, not in the row");
    }
    match (waits(row), waits(log)) {
        (true, false) => (Code::A1, "the row waits for a person, the log does not"),
        (false, true) => (Code::A2, "the log waits for a person, the row does not"),
        _ if row.wake_at != log.wake_at
            && (Status {
                wake_at: log.wake_at,
                ..row.clone()
            }) == *log =>
        {
            (
                Code::T1,
                "the next timer is set for another time than in the log",
            )
        }
        _ => (Code::S1, "the row differs from the log"),
    }
}

/// A row in words.
fn words(status: &Status) -> String {
    let mut words = format!(
        "branch {}, {} ({})",
        status.branch, status.state, status.sub_state
    );
    if let Some(reason) = status.reason {
        words += &format!(", {reason}");
    }
    if status.inbox > 0 {
        words += &format!(", waits for {} decisions of people", status.inbox);
    }
    match status.wake_at {
        Some(at) if at == Timestamp::UNIX_EPOCH => words += ", work under way or queued",
        Some(at) => words += &format!(", next timer {at}"),
        None => {}
    }
    if let Some(ended) = status.ended {
        words += &format!(", ended {ended}");
    }
    words
}
