//! The adapter against a Step Functions that really runs: LocalStack in host mode, started here on
//! loopback and ended here. `cargo xtask test` installs it; without it every test is counted as
//! skipped, with the reason.
//!
//! Real executions are driven into every sub-state by a worker that succeeds and fails on demand,
//! and the canonical answer is checked at each moment. Nothing sleeps for a fixed time: a moment is
//! awaited by asking until it is there, or a deadline passes.
//!
//! What the emulator cannot show, and is shown on recordings or on the service in memory instead:
//! PENDING_REDRIVE (only children of a distributed Map have it, and distributed Maps need an object
//! store), the aborted siblings of a Parallel that fails (it writes no such events), throttling and
//! quotas (it has none), Lambda tasks (no executor without containers), and the order of events
//! after a redrive, which is its patch's and not known of AWS.

mod live {
    pub(crate) mod deaths;
    pub(crate) mod defining;
    pub(crate) mod emulator;
    pub(crate) mod endings;
    pub(crate) mod hosting;
    pub(crate) mod items;
    pub(crate) mod moments;
    pub(crate) mod people;
    pub(crate) mod rig;
    pub(crate) mod watching;
}

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use live::emulator::Emulator;
use live::rig::Rig;
use live::{deaths, defining, endings, hosting, items, moments, people, watching};

/// The interpreter that has the emulator's packages.
const PYTHON: &str = "STATEWAY_SFN_EMULATOR_PYTHON";

type Outcome = Result<(), Failed>;

macro_rules! trials {
    ($emulator:expr; $($module:ident::$name:ident),+ $(,)?) => {
        vec![$({
            let emulator = $emulator.clone();
            Trial::ignorable_test(stringify!($name), move || match &*emulator {
                Ok(emulator) => live(async || $module::$name(&Rig::new(emulator)).await, emulator),
                Err(reason) => Ok(Completion::ignored_with(reason.clone())),
            })
        }),+]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Back-offs are timed here: a few at once, so that a small machine keeps up.
    arguments.test_threads = arguments.test_threads.or(Some(4));
    let emulator = Arc::new(match (arguments.list, std::env::var_os(PYTHON)) {
        (false, Some(python)) => match Emulator::start(python.as_ref()) {
            Ok(emulator) => Ok(emulator),
            Err(error) => {
                eprintln!("error: the emulator does not start: {error}");
                return ExitCode::FAILURE;
            }
        },
        _ => Err(format!("{PYTHON} is not set: `cargo xtask test` sets it")),
    });
    let trials = trials![emulator;
        moments::a_task_is_queued_runs_backs_off_and_succeeds,
        moments::the_next_attempt_comes_when_it_was_promised,
        moments::retries_that_are_used_up_end_it_and_a_redrive_goes_on,
        moments::a_wait_shows_its_deadline_and_a_cancel_ends_it,
        moments::a_token_is_answered_by_a_signal,
        moments::branches_are_seen_on_their_own,
        moments::iterations_are_seen_on_their_own,
        moments::a_parallel_that_is_tried_again_backs_off_as_a_whole,
        moments::a_caught_failure_compensates_and_is_no_back_off,
        moments::a_start_is_idempotent_by_its_request_id,
        moments::lists_and_histories_come_in_pages,
        endings::an_execution_that_takes_too_long_times_out,
        endings::a_parent_waits_for_its_child_and_both_are_seen,
        endings::a_gate_that_pauses_is_an_error_until_someone_decides,
        endings::a_missed_heartbeat_backs_off_like_a_timeout,
        endings::an_express_machine_says_what_it_cannot,
        endings::what_is_still_open_cannot_be_redriven,
        items::a_distributed_map_counts_its_items,
        people::an_activity_for_people_is_answered_by_a_signal,
        people::a_task_whose_gateway_is_gone_is_handed_out_again,
        people::a_token_is_denied_by_a_signal,
        defining::a_state_machine_is_made_changed_read_and_started,
        defining::the_command_line_applies_lists_and_checks,
        watching::the_command_line_counts_down_to_the_next_attempt,
        hosting::hosted_executions_show_the_golden_trajectories,
        hosting::ends_are_shown_by_step_functions_too,
        hosting::an_execution_that_is_stopped_outside_shows_as_killed,
        hosting::several_gateways_carry_out_each_request_once,
        hosting::another_gateway_fires_the_alarms_of_one_that_is_gone,
        hosting::a_long_history_continues_in_another_execution,
        hosting::what_is_too_large_is_refused_with_the_words_of_the_report,
        hosting::several_gateways_start_one_execution_for_the_newest_time,
        hosting::a_disabled_schedule_starts_nothing,
        hosting::a_schedule_starts_an_execution_every_minute,
        deaths::executions_finish_although_the_gateway_is_killed,
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The last handle ends the emulator.
    drop(emulator);
    conclusion.exit_code()
}

/// Runs one test in a runtime of its own.
fn live(test: impl AsyncFnOnce() -> Outcome, emulator: &Emulator) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(test());
    runtime.shutdown_background();
    let outcome = outcome.map_err(|failed| {
        let told = failed.message().unwrap_or_default();
        Failed::from(format!(
            "{told}\nthe emulator's log: {}",
            emulator.log().display()
        ))
    });
    match outcome {
        Err(failed)
            if failed
                .message()
                .is_some_and(|told| told.starts_with(watching::SKIP)) =>
        {
            Ok(Completion::ignored_with(watching::SKIP))
        }
        outcome => outcome.map(|()| Completion::Completed),
    }
}
