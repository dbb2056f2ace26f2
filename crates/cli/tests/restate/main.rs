//! The real Restate server, a service that does as it is told, a gateway in front of them and the
//! command line in front of that. `cargo xtask test` installs and names the peers; without them
//! every test is counted as skipped.

#![allow(clippy::unwrap_used)]

mod campaign;
mod deaths;
mod endings;
mod hosts;
mod kills;
mod lab;
mod older;
mod process;
mod queues;
mod starts;
mod waits;
mod walk;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use lab::{Lab, Peers};
use libtest_mimic::{Arguments, Completion, Trial};

/// A test, by its name: it gets the laboratory for itself.
type Test = (&'static str, fn(&mut Lab));

const TESTS: &[Test] = &[
    (
        "one_invocation_walks_through_every_open_state",
        walk::through_every_open_state,
    ),
    (
        "the_command_line_tells_attempt_most_next_time_and_last_error",
        walk::back_off_in_words,
    ),
    (
        "paused_by_hand_is_waiting_and_can_go_on",
        walk::paused_by_hand,
    ),
    ("a_refusal_is_failed", endings::refused),
    (
        "used_up_attempts_that_end_it_are_failed_and_exhausted",
        endings::exhausted,
    ),
    (
        "a_cancelled_invocation_is_failed_and_cancelled",
        endings::cancelled,
    ),
    ("a_killed_invocation_is_failed_and_killed", endings::killed),
    ("what_failed_is_done_again_from_there", endings::done_again),
    ("what_has_finished_can_be_purged", endings::purged),
    (
        "a_delayed_start_waits_and_vanishes_when_it_is_cancelled",
        waits::scheduled,
    ),
    ("behind_a_key_it_waits_for_its_turn", waits::pending),
    (
        "a_timer_and_a_child_are_named_as_waits",
        waits::timer_and_child,
    ),
    ("a_promise_is_resolved_by_its_handler", waits::promise),
    (
        "a_repeated_start_is_the_same_and_another_body_is_refused",
        starts::idempotent,
    ),
    ("a_list_shows_every_row_once_over_its_pages", starts::listed),
    (
        "a_portable_definition_has_the_same_trajectory_inside_restate",
        hosts::same_trajectory,
    ),
    (
        "a_hosted_execution_survives_the_deaths_of_host_gateway_and_server",
        hosts::deaths,
    ),
    (
        "approvals_children_and_escalations_are_the_same_inside_restate",
        hosts::people_and_children,
    ),
    (
        "one_process_can_be_gateway_and_host",
        hosts::host_inside_the_gateway,
    ),
    ("a_host_is_upgraded_while_executions_wait", hosts::upgrade),
    (
        "the_golden_trajectories_are_the_same_inside_restate",
        hosts::golden_trajectories,
    ),
    ("a_definition_is_moved_to_a_host_and_back", hosts::migrate),
    (
        "random_definitions_have_the_same_trajectories_inside_restate",
        hosts::random_definitions,
    ),
    (
        "many_executions_survive_the_deaths_of_gateway_host_and_server",
        kills::many_executions,
    ),
    ("the_service_dies_and_comes_back", deaths::of_the_service),
    ("the_server_dies_and_comes_back", deaths::of_the_server),
    ("an_older_server_is_used_by_what_it_has", older::smoke),
    (
        "with_vqueues_a_hidden_back_off_is_found",
        queues::hidden_back_off,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one server and end with its death.
    arguments.test_threads = Some(1);
    let lab = Arc::new(Mutex::new(None));
    let trial = |(name, test): &Test| {
        let (lab, test) = (lab.clone(), *test);
        Trial::ignorable_test(*name, move || {
            let peers = match Peers::named() {
                Ok(peers) => peers,
                Err(missing) => return Ok(Completion::ignored_with(missing)),
            };
            let mut lab = lab.lock().unwrap_or_else(PoisonError::into_inner);
            // Where it could not be set up once, it is not tried again for every test.
            let lab = lab.get_or_insert_with(|| catch_unwind(|| Lab::new(&peers, "")).ok());
            let lab = lab.as_mut().ok_or("the laboratory could not be set up")?;
            test(lab);
            Ok(Completion::Completed)
        })
    };
    let conclusion = libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect());
    // The processes end here, whatever became of the tests.
    drop(lab);
    conclusion.exit_code()
}
