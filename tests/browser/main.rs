//! The dashboard in a real browser: Debian's Chromium, spoken to by WebDriver. `cargo xtask test`
//! installs it; without it every test is counted as skipped, with the reason.
//!
//! Each test has a gateway, an engine and a browser of its own, and asserts at its end that no script
//! failed and that nothing was refused by the Content-Security-Policy.

#![allow(clippy::unwrap_used)]

mod browser;
mod demo;
mod execution;
mod executions;
mod harness;
mod inbox;
// The stories' own; not everything of it is needed here.
#[allow(dead_code, unused_imports)]
#[path = "../support/mod.rs"]
mod support;
mod wire;

use std::process::ExitCode;

use browser::{Browser, Programs};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

macro_rules! trials {
    ($programs:expr; $($module:ident::$name:ident),+ $(,)?) => {
        vec![$({
            let programs = $programs.clone();
            Trial::ignorable_test(stringify!($name), move || match programs {
                Ok(programs) => in_browser(&programs, async |browser| $module::$name(browser).await),
                Err(reason) => Ok(Completion::ignored_with(reason)),
            })
        }),+]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A browser is a dozen processes: two at once keep a small machine busy.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let programs = Programs::here();
    let trials = trials![programs;
        harness::a_browser_tells_what_went_wrong_on_a_page,
        inbox::an_approval_granted_in_the_browser_moves_the_execution_within_a_second,
        executions::rows_change_in_place_and_new_ones_wait_until_asked_for,
        executions::the_list_is_walked_by_keys,
        executions::a_provider_that_goes_down_is_named_without_a_reload,
        executions::it_can_be_read_in_any_light_and_on_a_phone,
        execution::every_action_asks_first_and_then_happens,
        execution::the_page_follows_without_a_reload,
        execution::a_countdown_counts_and_an_attempt_can_be_made_now,
        execution::markup_of_others_does_not_run,
        demo::the_demo_shows_all_six_sub_states_within_a_minute,
    ];
    // Pictures are no test: they are made when they are asked for, and then nothing else is done.
    let trials = match std::env::var_os("STATEWAY_SCREENSHOTS") {
        None => trials,
        Some(_) => trials![programs; demo::screenshots],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn in_browser(programs: &Programs, test: impl AsyncFnOnce(&Browser)) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let browser = Browser::open(programs);
    runtime.block_on(test(&browser));
    Ok(Completion::Completed)
}
