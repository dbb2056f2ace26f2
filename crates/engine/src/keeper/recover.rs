//! Repairs executions whose row or memory contradicts the log, and continues after a damaged log.

use std::sync::Arc;

use stateway_machine::{Fact, Verb};
use tokio::sync::oneshot;

use super::{Keeper, Live};
use crate::cause;
use crate::error::{EngineError, ErrorKind, Result};
use crate::recovery::inspect::{Basis, Inspection, InspectionContext, verify};
use crate::recovery::scan::memory;
use crate::recovery::{Code, Finding, Recover, Remedy, Verdict};
use crate::request::RequestKey;
use crate::store::{Branch, StoreError};

/// The actor of automatic recoveries.
const ENGINE: &str = "engine";
/// The number of the newest rows of the log whose executions are checked when the engine opens: more than a
/// turn writes, and only the last one can have been torn.
const RECENT: usize = 4_096;
/// The most automatic repairs of one execution while the process lives.
const MOST_HEALED: u8 = 3;
/// Executions that are checked between two progress messages.
const TELL_EVERY: usize = 1_000;

/// What a recovery did, without the execution as it is then.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecoveryResult {
    pub(crate) repaired: Vec<Finding>,
    pub(crate) from: u32,
    pub(crate) branched: bool,
    pub(crate) cutoff: u64,
    pub(crate) again: Vec<Arc<str>>,
    /// Where damaged events are left behind.
    left: Vec<i64>,
}

impl Keeper {
    /// Inspects an execution, and repairs it.
    pub(super) fn recover(
        &mut self,
        number: i64,
        ask: &Recover,
        by: &Arc<str>,
        cause: &Arc<str>,
    ) -> Result<RecoveryResult> {
        if self.executions.get(number).is_some_and(Live::is_unwritten) {
            return Err(EngineError::new(
                ErrorKind::Throttled,
                "ENGINE_BUSY",
                "the execution is changing at this moment",
            )
            .hint("Try again in a moment."));
        }
        self.check_single_writer(number)?;
        let mut inspection = self.inspect(number)?;
        let seen = (inspection.verdict.branch, inspection.verdict.sequence);
        if let Some(expected) = ask.expected.filter(|expected| *expected != seen) {
            return Err(EngineError::new(
                ErrorKind::Conflict,
                "EXECUTION_CHANGED",
                format_args!(
                    "event {} of branch {} is the last, not event {} of branch {}",
                    seen.1, seen.0, expected.1, expected.0
                ),
            )
            .hint("Verify the execution again, then recover it."));
        }
        let row_is_right = inspection.verdict.findings.is_empty();
        inspection.add(self.memory_findings(number, row_is_right));
        let Inspection { verdict, basis, .. } = inspection;
        if verdict.findings.is_empty() || ask.repair_only && is_history(&verdict) {
            return Ok(RecoveryResult::default());
        }
        let Some(basis) = basis else {
            return Err(refused(&verdict.remedy, &verdict.findings));
        };
        let mended = RecoveryResult {
            from: basis.kept.status.branch,
            left: verdict
                .findings
                .iter()
                .filter_map(|found| found.position)
                .collect(),
            repaired: verdict.findings,
            branched: matches!(verdict.remedy, Remedy::Branch { .. }),
            cutoff: basis.state.sequence(),
            again: match verdict.remedy {
                Remedy::Branch { again, .. } => again,
                _ => Vec::new(),
            },
        };
        if mended.branched && ask.repair_only {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "LOG_NOT_WHOLE",
                format_args!(
                    "the log is damaged ({}); continuing would repeat steps",
                    codes(&mended.repaired)
                ),
            )
            .hint("See {VerifyExecution}, then decide with {RecoverExecution}."));
        }
        self.mend(basis, &mended, by, cause)?;
        Ok(mended)
    }

    /// Recovers an execution because someone asks for it, once.
    pub(super) fn asked_to_recover(
        &mut self,
        id: &str,
        ask: &Recover,
        (actor, request): (&Arc<str>, &RequestKey),
        answer: oneshot::Sender<Result<RecoveryResult>>,
    ) {
        let done = self.seen(request).and_then(|seen| match seen {
            Some(number) => self.repeated_recovery(number, &request.id),
            None => {
                let number = self.number_of(id)?;
                if self.executions.contains(number) {
                    self.write_first(number)?;
                }
                let mended = self.recover(number, ask, actor, &request.id)?;
                self.remember(request, number);
                Ok(mended)
            }
        });
        self.outbox.answer(answer, done);
    }

    /// What a recovery that was asked for before did, by the log.
    fn repeated_recovery(&self, number: i64, cause: &Arc<str>) -> Result<RecoveryResult> {
        let mut told = RecoveryResult::default();
        self.store.chronicle(number, (0, 0), &mut |row| {
            let events = row.events(number).unwrap_or_default();
            for event in events.into_iter().filter(|event| event.causation == *cause) {
                if let Fact::ExecutionRecovered {
                    reason,
                    from,
                    branch,
                    cutoff,
                    again,
                    left,
                    by: _,
                } = event.fact
                {
                    told = RecoveryResult {
                        repaired: findings_of(&reason),
                        from,
                        branched: from != branch && !again.is_empty(),
                        cutoff,
                        again,
                        left,
                    };
                }
            }
            Ok(true)
        })?;
        Ok(told)
    }

    /// Drops the turn if another process has written to the log of an execution in memory: that is no damage
    /// of the log, but this process no longer has the store.
    fn check_single_writer(&mut self, number: i64) -> Result<()> {
        let live = self.executions.get(number);
        if !live.is_some_and(|live| !live.is_unwritten() && self.is_behind(live)) {
            return Ok(());
        }
        let error = StoreError::Failed("another process has written to the store".to_owned());
        self.break_off(&error);
        Err(error.into())
    }

    /// Repairs an execution before it resumes.
    pub(super) fn repair_before(&mut self, number: i64) -> Result<()> {
        let (by, cause): (Arc<str>, Arc<str>) = (ENGINE.into(), cause::RESUME.into());
        let ask = Recover {
            repair_only: true,
            ..Recover::default()
        };
        match self.recover(number, &ask, &by, &cause) {
            // An execution that changed in this turn is as its log has it.
            Err(error) if error.kind != ErrorKind::Throttled => Err(error),
            _ => Ok(()),
        }
    }

    /// Inspects what is on disk of an execution.
    pub(super) fn inspect(&self, number: i64) -> Result<Inspection> {
        let context = InspectionContext {
            catalogue: &self.definitions.catalogue,
            now: self.now.wall,
            memory: memory(&self.config),
        };
        let found = verify(&*self.store, number, context)?;
        found.ok_or_else(|| EngineError::no_execution(&number.to_string()))
    }

    /// Replaces the state by the replayed one, and records the recovery.
    fn mend(
        &mut self,
        basis: Basis,
        mended: &RecoveryResult,
        by: &Arc<str>,
        cause: &Arc<str>,
    ) -> Result<()> {
        let Basis { kept, state, .. } = basis;
        let number = kept.origin.number;
        let parent = state.branch();
        let definition = Arc::clone(&kept.origin.definition);
        // One that is over by its log is taken off again when that is carried out.
        if state.times().started.is_some() {
            self.slots.begin(&definition, number);
        } else {
            self.slots.end(&definition, number);
        }
        self.executions.forget(number);
        let mut live = Live::new(Arc::clone(&kept.origin), state, basis.hash);
        live.status = Some(kept.status);
        live.branch = live.state.branch();
        live.notice_time(self.now.wall);
        live.renew_snapshot = basis.misled;
        let times = live.state.times();
        let under_way = times.started.is_some() && times.ended.is_none();
        self.executions.keep(live);
        self.executions.count(number, under_way);
        self.executions.touch(number);
        let revision = basis.revision.map(|revision| (number, revision));
        self.outbox.turn.revisions.extend(revision);
        self.outbox.turn.branches.extend(basis.branches);
        for request in basis.requests {
            self.outbox.remember_answered(request);
        }
        if mended.branched {
            let (branch, cutoff) = (basis.newest + 1, mended.cutoff);
            let verb = Verb::OpenBranch {
                branch,
                cutoff,
                by: Arc::clone(by),
                redo: None,
                reopened: None,
                spent: stateway_model::Usage::default(),
                spent_by_step: std::collections::BTreeMap::new(),
            };
            self.command(number, cause, verb)?;
            self.outbox.turn.branches.push(Branch {
                number,
                branch,
                parent,
                cutoff,
            });
            self.take_back(number, cause);
        }
        let verb = Verb::Recover {
            reason: reason(&mended.repaired).into(),
            from: mended.from,
            cutoff: mended.cutoff,
            again: mended.again.clone(),
            left: mended.left.clone(),
            by: Arc::clone(by),
        };
        self.command(number, cause, verb)?;
        self.executions.clear_damaged(number);
        let id = self
            .executions
            .get(number)
            .map(|live| Arc::clone(&live.origin.id));
        tracing::warn!(
            execution = id.as_deref().unwrap_or_default(),
            found = codes(&mended.repaired),
            branched = mended.branched,
            "an execution was recovered"
        );
        metrics::counter!("stateway_engine_recovered_executions_total").increment(1);
        Ok(())
    }

    /// Repairs what contradicts a log, if that repeats no step.
    pub(super) fn repair(&mut self, number: i64) -> Result<()> {
        if self.executions.repairs(number) >= MOST_HEALED {
            return Err(EngineError::corrupt(
                "the execution was repaired and is inconsistent again",
            ));
        }
        let (by, cause): (Arc<str>, Arc<str>) = (ENGINE.into(), cause::VERIFICATION.into());
        let ask = Recover {
            repair_only: true,
            ..Recover::default()
        };
        let mended = self.recover(number, &ask, &by, &cause)?;
        if !mended.repaired.is_empty() {
            self.executions.count_repair(number);
        }
        Ok(())
    }

    /// Repairs the execution, or lists it as damaged.
    pub(super) fn repair_or_set_aside(&mut self, number: i64) {
        match self.repair(number) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, ErrorKind::Throttled | ErrorKind::NotFound) => {}
            Err(error) => self.set_aside_by_number(number, &error),
        }
    }

    /// Compares the memory of executions with their logs, and repairs it.
    pub(super) fn recheck(&mut self, numbers: Vec<i64>) {
        for number in numbers {
            if !self.memory_findings(number, true).is_empty() {
                self.repair_or_set_aside(number);
                self.do_work();
            }
        }
    }

    pub(super) fn set_aside_by_number(&mut self, number: i64, error: &EngineError) {
        if let Some(kept) = self.store.kept(number).ok().flatten() {
            self.set_aside(number, &kept.origin.id, error);
        }
    }

    /// Inspects the executions that the last process wrote last, before anything continues.
    pub(super) fn check_recent(&mut self) -> Result<()> {
        let recent = self.store.recent(RECENT)?;
        let total = recent.len();
        for (done, number) in recent.into_iter().enumerate() {
            if done > 0 && done % TELL_EVERY == 0 {
                tracing::info!(
                    done,
                    total,
                    "verifying the executions that were written last"
                );
            }
            let Ok(inspection) = self.inspect(number) else {
                // It is set aside when it is taken up.
                continue;
            };
            if !inspection.verdict.findings.is_empty() {
                self.repair_or_set_aside(number);
                self.do_work();
            }
        }
        Ok(())
    }
}

/// Whether all findings are in events of branches that were left.
fn is_history(verdict: &Verdict) -> bool {
    let damage = |found: &Finding| matches!(found.code, Code::H1 | Code::H2);
    verdict.remedy == Remedy::Repair && verdict.findings.iter().all(damage)
}

fn refused(remedy: &Remedy, findings: &[Finding]) -> EngineError {
    let (why, hint) = match remedy {
        Remedy::Refused { why, hint } => (why.as_str(), hint.as_str()),
        _ => ("it cannot be recovered", ""),
    };
    EngineError::new(
        ErrorKind::FailedPrecondition,
        "NOT_RECOVERABLE",
        format_args!("{why} ({})", codes(findings)),
    )
    .hint(hint)
}

/// Each code once, in the order they were found.
fn codes(findings: &[Finding]) -> String {
    let mut codes: Vec<&str> = Vec::new();
    for finding in findings {
        if !codes.contains(&finding.code.as_str()) {
            codes.push(finding.code.as_str());
        }
    }
    codes.join(", ")
}

/// The findings that a recorded reason names.
fn findings_of(reason: &str) -> Vec<Finding> {
    let told = reason.split("; ").filter_map(|one| one.split_once(": "));
    told.filter_map(|(code, summary)| Some(Finding::new(code.parse().ok()?, summary)))
        .collect()
}

/// The longest reason that is written down.
const LONGEST_REASON: usize = 1_000;

fn reason(findings: &[Finding]) -> String {
    let mut reason = String::new();
    for finding in findings {
        let one = format!("{}: {}", finding.code, finding.summary);
        if reason.len() + one.len() > LONGEST_REASON {
            reason += "; and more";
            break;
        }
        if !reason.is_empty() {
            reason += "; ";
        }
        reason += &one;
    }
    reason
}
