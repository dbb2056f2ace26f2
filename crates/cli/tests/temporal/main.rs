//! The real Temporal server beside the built-in engine and a real Restate server, behind one gateway, seen through
//! the command line and the dashboard. `cargo xtask test` installs and names the peers; without those of Temporal
//! every test is counted as skipped.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

#[path = "../restate/campaign.rs"]
mod campaign;
mod hosts;
mod kills;
#[path = "../restate/lab.rs"]
#[allow(dead_code, reason = "the tests of Restate use the rest")]
mod lab;
#[path = "../restate/process.rs"]
#[allow(dead_code, reason = "the tests of Restate use the rest")]
mod process;
mod story;
#[path = "../../../provider-temporal/tests/lab/mod.rs"]
mod temporal;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};
use temporal::Peers;

/// A test, by its name.
type Test = (&'static str, fn(&Peers));

const TESTS: &[Test] = &[
    (
        "a_retrying_activity_counts_down_in_one_list_with_other_engines",
        story::one_list,
    ),
    (
        "a_gateway_with_temporal_alone_explains_a_back_off",
        story::temporal_alone,
    ),
    (
        "a_killed_server_is_unreachable_and_comes_back",
        story::killed_server,
    ),
    (
        "a_portable_execution_inside_temporal_shows_the_same_trajectory",
        hosts::same_trajectory,
    ),
    (
        "reads_need_no_host_and_a_write_waits_for_one",
        hosts::reads_without_a_host,
    ),
    (
        "another_host_takes_over_while_executions_wait",
        hosts::upgrade,
    ),
    (
        "one_process_can_be_gateway_and_host",
        hosts::host_inside_the_gateway,
    ),
    ("a_definition_is_moved_to_a_host_and_back", hosts::migrate),
    (
        "many_executions_survive_the_deaths_of_gateway_host_and_server",
        kills::many_executions,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test runs servers of its own.
    arguments.test_threads = Some(1);
    let trial = |(name, test): &Test| {
        let test = *test;
        Trial::ignorable_test(*name, move || {
            let peers = match Peers::named() {
                Ok(peers) => peers,
                Err(missing) => return Ok(Completion::ignored_with(missing)),
            };
            test(&peers);
            Ok(Completion::Completed)
        })
    };
    let conclusion = libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect());
    conclusion.exit_code()
}
