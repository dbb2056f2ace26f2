//! Runs the cases one after the other and sums them up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_contract_kit::{Harness, Outcome, Stop, cases};

use crate::{WireHarness, wire_case};

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The rule holds.
    Passed,
    /// The rule is broken, and how.
    Failed(String),
    /// The rule cannot be checked, and why.
    Skipped(String),
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// `verb::the_rule_in_words`.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// Every case that ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// In the order of the kit.
    pub results: Vec<CaseResult>,
}

impl Report {
    /// How many cases passed, failed and were skipped.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Verdict) -> bool| {
            let results = self.results.iter();
            results.filter(|result| wanted(&result.verdict)).count()
        };
        (
            count(|verdict| *verdict == Verdict::Passed),
            count(|verdict| matches!(verdict, Verdict::Failed(_))),
            count(|verdict| matches!(verdict, Verdict::Skipped(_))),
        )
    }
}

/// Runs every case of the kit, and those that only the wire has, whose name contains the filter. Reports
/// each one as it ends. Blocks the thread; a case has a runtime of its own.
pub fn run(harness: WireHarness, filter: &str, mut each: impl FnMut(&CaseResult)) -> Report {
    let harness = Arc::new(harness);
    let table = harness.table();
    let dynamic: Arc<dyn Harness> = harness.clone();
    let mut report = Report::default();
    let mut take = |name: &str, check: &mut dyn FnMut() -> Outcome| {
        if !name.contains(filter) {
            return;
        }
        let began = Instant::now();
        let outcome = check();
        let verdict = match (outcome, harness.failure()) {
            (_, Some(failure)) => Verdict::Failed(failure),
            (Ok(()), None) => Verdict::Passed,
            (Err(Stop::Failed(why)), None) => Verdict::Failed(why),
            (Err(Stop::Skipped(why)), None) => Verdict::Skipped(why),
        };
        let result = CaseResult {
            name: name.to_owned(),
            verdict,
            took: began.elapsed(),
        };
        each(&result);
        report.results.push(result);
    };
    for case in cases(&table) {
        take(&case.name, &mut || {
            stateway_contract_kit::run(&case, &dynamic)
        });
    }
    for case in wire_case::ALL {
        take(case.name, &mut || wire_case::run(case, &harness));
    }
    report
}
