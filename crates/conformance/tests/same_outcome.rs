//! Each case of the kit ends in the same way in process and over the wire, skips and their reasons included.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use stateway_conformance::OverWire;
use stateway_contract_kit::{Case, Harness, Outcome, Stop, cases, run};

#[allow(dead_code)] // Its own main.
#[path = "../../provider-memory/tests/harness/mod.rs"]
mod memory;
#[allow(dead_code)] // Its own main.
#[path = "../../provider-restate/tests/contract.rs"]
mod restate;
#[allow(dead_code)] // Its own main.
#[path = "../../provider-step-functions/tests/contract.rs"]
mod step_functions;

fn in_words(outcome: Outcome) -> String {
    match outcome {
        Ok(()) => "passed".to_owned(),
        Err(Stop::Failed(why)) => format!("failed: {why}"),
        Err(Stop::Skipped(why)) => format!("skipped: {why}"),
    }
}

fn trials(name: &str, in_process: impl Harness, over_wire: impl Harness) -> Vec<Trial> {
    let in_process: Arc<dyn Harness> = Arc::new(in_process);
    let over_wire: Arc<dyn Harness> = Arc::new(OverWire::new(over_wire));
    let trial = |case: Case| {
        let (in_process, over_wire) = (in_process.clone(), over_wire.clone());
        Trial::test(format!("{name}::{}", case.name), move || {
            let near = in_words(run(&case, &in_process));
            let far = in_words(run(&case, &over_wire));
            if near == far {
                return Ok(());
            }
            Err(Failed::from(format!(
                "in process {near}, over the wire {far}"
            )))
        })
    };
    let cases = cases(&in_process.table());
    cases.into_iter().map(trial).collect()
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They mostly wait: for deadlines, and for streams that say nothing.
    arguments.test_threads.get_or_insert(4);
    let mut all = trials("memory", memory::Memory, memory::Memory);
    all.extend(trials("restate", restate::Restate, restate::Restate));
    all.extend(trials(
        "step-functions",
        step_functions::Mocked,
        step_functions::Mocked,
    ));
    libtest_mimic::run(&arguments, all).exit_code()
}
