//! The dashboard in a real browser: Debian's Chromium, spoken to by WebDriver. `cargo xtask test`
//! installs it; without it every test is counted as skipped, with the reason.
//!
//! Each test has a gateway, an engine and a browser of its own, and asserts at its end that no script
//! failed and that nothing was refused by the Content-Security-Policy.

#![allow(clippy::unwrap_used)]

mod access;
mod browser;
mod daily;
mod demo;
mod driver;
mod execution;
mod executions;
mod harness;
mod hostile;
mod inbox;
mod pages;
mod sign_in;
mod stage;
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

/// Tests of the harness itself, which need no browser.
macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        [$(Trial::test(stringify!($name), || {
            driver::rules::$name();
            Ok(())
        })),+]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A browser is a dozen processes: two at once keep a small machine busy.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let programs = Programs::here();
    let mut trials = trials![programs;
        harness::a_browser_tells_what_went_wrong_on_a_page,
        inbox::an_approval_granted_in_the_browser_moves_the_execution,
        inbox::an_approval_rejected_in_the_browser_is_on_the_record,
        inbox::a_new_approval_appears_and_a_decided_one_leaves_without_a_reload,
        inbox::a_question_that_somebody_else_answered_is_refused_in_place,
        inbox::the_keyboard_alone_grants_an_approval,
        inbox::waiting_for_me_shows_what_i_may_decide,
        inbox::a_stuck_step_is_resumed_reassigned_and_cancelled_in_the_browser,
        pages::a_definition_is_looked_at_compared_and_started,
        pages::a_provider_that_goes_down_is_named_and_comes_back_without_a_reload,
        pages::a_provider_tells_what_it_can_and_how_its_words_are_read,
        pages::a_worker_and_what_waits_for_it_are_seen_live,
        hostile::hostile_content_is_shown_on_every_page_and_does_not_run,
        access::a_phone_shows_every_page_without_scrolling_sideways,
        access::a_phone_shows_every_section,
        executions::rows_change_in_place_and_new_ones_wait_until_asked_for,
        executions::the_list_is_walked_by_keys,
        executions::a_provider_that_goes_down_is_named_without_a_reload,
        executions::a_long_id_fits_on_a_phone,
        execution::every_action_asks_first_and_then_happens,
        execution::the_page_follows_without_a_reload,
        execution::a_countdown_counts_and_an_attempt_can_be_made_now,
        execution::markup_of_others_does_not_run,
        daily::the_payloads_of_a_step_are_one_click_away,
        daily::a_person_decides_on_the_page_that_waits,
        daily::ids_are_found_and_several_executions_are_cancelled,
        daily::times_are_shown_as_chosen_and_keys_can_be_turned_off,
        daily::the_graph_is_zoomed_and_the_failing_step_is_found,
        daily::a_text_is_copied,
        demo::the_demo_shows_all_six_sub_states_within_a_minute,
    ];
    trials.extend(trials![programs;
        sign_in::a_session_that_ends_leads_an_open_page_to_the_sign_in,
    ]);
    let with_axe = programs.clone().and_then(|programs| {
        access::axe()?;
        Ok(programs)
    });
    trials.extend(trials![with_axe;
        access::every_page_passes_axe_in_both_lights,
        access::an_open_dialog_passes_axe,
    ]);
    let with_provider = programs.clone().and_then(|programs| {
        sign_in::module()?;
        Ok(programs)
    });
    trials.extend(trials![with_provider;
        sign_in::a_person_signs_in_at_a_real_provider_and_out_again,
        sign_in::the_device_flow_is_confirmed_in_the_browser,
        sign_in::the_browser_flow_of_the_command_line_comes_back,
    ]);
    trials.extend(rules![
        the_port_is_read_wherever_the_line_stands,
        a_driver_that_ends_before_it_prints_its_port_is_started_again,
        a_driver_that_never_starts_is_reported_with_its_output,
        a_driver_that_prints_no_port_is_ended_and_reported_with_its_output,
    ]);
    // Pictures are not a test: `STATEWAY_SCREENSHOTS` asks for them, and then nothing else runs.
    if std::env::var_os("STATEWAY_SCREENSHOTS").is_some() {
        trials = trials![programs; demo::screenshots];
    }
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
