//! Runs the cases: as tests of their own, or all in one go.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::{Case, Harness, Outcome, Stop, cases};

/// The whole contract test of an adapter: one test per case, then a line that sums them up and
/// one for each skip.
#[must_use]
pub fn main(name: &str, harness: impl Harness) -> ExitCode {
    let arguments = Arguments::from_args();
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let skips = Arc::new(Mutex::new(Vec::new()));
    let trials: Vec<Trial> = cases(&harness.table())
        .into_iter()
        .map(|case| trial(case, harness.clone(), skips.clone()))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        let mut skips = skips.lock().unwrap_or_else(PoisonError::into_inner);
        let (passed, failed) = (conclusion.num_passed, conclusion.num_failed);
        let total = passed + failed + conclusion.num_ignored;
        println!(
            "contract of {name}: {total} cases, {passed} passed, {failed} failed, {} skipped",
            skips.len()
        );
        skips.sort();
        for (case, reason) in skips.iter() {
            println!("  skipped {case}: {reason}");
        }
    }
    conclusion.exit_code()
}

fn trial(case: Case, harness: Arc<dyn Harness>, skips: Arc<Mutex<Vec<(String, String)>>>) -> Trial {
    Trial::ignorable_test(case.name.clone(), move || match run(&case, &harness) {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Failed(why)) => Err(why.into()),
        Err(Stop::Skipped(why)) => {
            let mut skips = skips.lock().unwrap_or_else(PoisonError::into_inner);
            skips.push((case.name, why.clone()));
            Ok(Completion::ignored_with(why))
        }
    })
}

/// Checks one case, in a runtime of its own.
///
/// # Errors
/// The rule is broken or cannot be checked.
pub fn run(case: &Case, harness: &Arc<dyn Harness>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Failed(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(case.check(harness));
    runtime.shutdown_background();
    outcome
}
