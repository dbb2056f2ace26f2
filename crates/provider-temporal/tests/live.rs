//! The Temporal provider on the real server with a real worker: what the contract kit does not ask. Without the
//! peers, which `cargo xtask test` installs and names, every test is counted as skipped.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

#[path = "live/chains.rs"]
mod chains;
#[path = "live/deaths.rs"]
mod deaths;
mod lab;
#[path = "live/payloads.rs"]
mod payloads;
#[path = "live/rig.rs"]
mod rig;
#[path = "live/settings.rs"]
mod settings;
#[path = "live/steering.rs"]
mod steering;
#[path = "live/watching.rs"]
mod watching;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};

use lab::{Lab, Peers};
use rig::Rig;

/// The namespace of these tests.
const NAMESPACE: &str = "live";

/// The server, started by the first test that needs it. A server that did not start is not tried again.
type Shared = Arc<Mutex<Option<Result<Arc<Lab>, String>>>>;

/// One test for each function, named after it.
macro_rules! trials {
    ($lab:ident; $( $module:ident :: $name:ident ),+ $(,)?) => {
        vec![$({
            let lab = $lab.clone();
            Trial::ignorable_test(stringify!($name), move || {
                run(&lab, |rig| Box::pin($module::$name(rig)))
            })
        }),+]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time is spent waiting.
    arguments.test_threads = arguments.test_threads.or(Some(4));
    let lab: Shared = Arc::default();
    let trials = trials![lab;
        steering::a_retrying_activity_counts_down_and_is_retried_now,
        steering::a_signal_is_delivered_once,
        steering::an_update_answers,
        steering::a_cancelled_workflow_cleans_up_first,
        steering::a_paused_workflow_waits_and_resumes,
        steering::a_paused_activity_waits_and_resumes,
        steering::a_failing_workflow_task_is_an_error_with_its_message,
        steering::changed_workflow_code_is_an_error,
        steering::without_a_worker_it_waits_for_capacity,
        steering::what_failed_is_done_again_from_its_step,
        steering::a_retry_from_goes_back_to_a_chosen_event,
        chains::runs_that_continue_as_new_are_one_execution,
        chains::a_workflow_that_retries_itself_backs_off,
        chains::a_child_is_an_execution_of_its_own,
        chains::a_repeated_start_is_the_same_execution,
        chains::a_deleted_execution_is_not_found,
        chains::a_schedule_is_shown_and_cannot_be_started,
        chains::a_signal_does_not_hide_why_a_run_has_not_begun,
        chains::the_first_task_of_a_delayed_run_is_found_for_a_reset,
        chains::a_repeated_request_has_no_effect_in_a_later_run,
        chains::a_repeated_signal_has_no_effect_after_a_reset,
        chains::a_repeated_update_has_its_first_answer_after_a_reset,
        chains::a_history_has_the_runs_that_the_server_still_has,
        chains::a_list_without_reads_to_spare_shows_open_executions_as_unread,
        settings::a_server_that_cannot_pause_workflows_pauses_activities,
        settings::every_option_of_a_start_reaches_the_server,
        settings::the_reuse_policy_decides_about_an_execution_that_has_ended,
        payloads::payloads_are_shown_and_encrypted_ones_are_decoded_by_the_codec,
        payloads::labels_are_memo_and_search_attributes,
        payloads::a_history_has_pages_in_both_orders,
        watching::a_watch_of_one_sees_every_change,
        watching::a_watch_of_all_sees_starts_back_offs_and_ends,
        deaths::a_killed_worker_is_noticed_by_the_heartbeat,
        deaths::a_killed_server_is_unavailable_and_comes_back_with_its_state,
        deaths::watches_show_what_happened_after_a_killed_server,
        watching::a_limit_of_the_server_is_named_and_respected,
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The last handle ends the server and the worker.
    drop(lab);
    conclusion.exit_code()
}

type Body<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

fn run(
    shared: &Shared,
    test: impl for<'a> FnOnce(&'a Rig) -> Body<'a>,
) -> Result<Completion, libtest_mimic::Failed> {
    let peers = match Peers::named() {
        Ok(peers) => peers,
        Err(missing) => return Ok(Completion::ignored_with(missing)),
    };
    let lab = shared
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_with(|| start(&peers))
        .clone()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let rig = Rig::new(lab, peers);
        test(&rig).await;
    });
    runtime.shutdown_background();
    Ok(Completion::Completed)
}

fn start(peers: &Peers) -> Result<Arc<Lab>, String> {
    let start = || {
        let namespaces = [NAMESPACE, watching::LIMITED].map(str::to_owned);
        let lab = Lab::start(peers, &namespaces);
        lab.worker.begin(NAMESPACE);
        Arc::new(lab)
    };
    catch_unwind(AssertUnwindSafe(start))
        .map_err(|_| "the Temporal server did not start".to_owned())
}
