//! The defects, one per broken provider, each with the cases that must catch it.

/// One way to break the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    StartForgetsItsRequestId,
    StartIgnoresTheBody,
    StartAnswersWithWhoeverHasTheId,
    StartDropsLabels,
    GetInventsUnknownExecutions,
    GetAlwaysShowsPayloads,
    GetRenamesUnknownStates,
    GetDropsQualifiers,
    GetInventsAttempts,
    GetForgetsTheNextAttempt,
    GetShowsOnlyTheFirstStep,
    ObserveSortsItsAnswers,
    ListEndsAtAnEmptyPage,
    ListRepeatsARow,
    ListNarrowsTooFar,
    ListTakesAnyCursor,
    HistoryRunsBackwards,
    WatchLeavesOutThePresent,
    WatchLosesTheLastState,
    WatchIsNeverInSync,
    WatchIsInSyncTooEarly,
    WatchHidesRemovals,
    WatchVersionsGoBack,
    WatchOfOneNeverEnds,
    WatchOfTheEndReportsNoEnd,
    WatchOpensAfterTheDeadline,
    SignalIsDeliveredAgain,
    SignalAfterTheEndIsSwallowed,
    CancelFailsTheSecondTime,
    CancelReportsTheEndTooEarly,
    CancelIgnoresTheChoiceToCompensate,
    PauseDoesNothing,
    ResumeWithoutTheCapabilityDoesNothing,
    RetryNowNeverRefuses,
    DeadlinesAreIgnored,
    ThrottlingLosesItsPause,
    NonsenseIsCalledInternal,
    CallsWaitForEachOther,
    RestartForgetsEverything,
    HealthIsAlwaysGood,
    StartIsNeverDelayed,
    StartCallsAnUnknownDefinitionInvalid,
    StartAnswersSomethingElse,
    GetLosesTheWordsOfSteps,
    ObserveShowsPayloads,
    ListShowsPayloads,
    UnknownExecutionsAreCalledInvalid,
    RefusalsAfterTheEndLoseTheirReason,
    WhatIsOffIsCalledAPrecondition,
    ResumeDoesNothing,
    ResumeNeverRefuses,
    RetryNowDoesNothing,
    RetryFromDoesNothing,
    KillIsGraceful,
    OneFailureFailsAllThatFollow,
    SlowAnswersAreGivenUp,
    UnreachableIsCalledInternal,
    CapabilitiesChangeWithUse,
    HealthIsNeverGood,
    StartMisreportsAWantedId,
    GetLagsBehindACancel,
    GetForgetsWhatIsDone,
    SignalDoesNothing,
    SignalIgnoresItsName,
    PauseFailsTheSecondTime,
    RetryFromTakesAnyStep,
    RetryFromIgnoresItsInput,
    ADroppedReadLeavesATrace,
    PurgeDoesNothing,
    PurgeTakesWhatIsOpen,
    PurgeIsASuccessEveryTime,
    ListStillShowsWhatWasPurged,
    CountLeavesOutTheFinished,
    DefinitionsAreNotListed,
    DefinitionsTakeAnyCursor,
    AnUnknownDefinitionIsInvalid,
    ApplyKeepsNothing,
    ApplyMakesARevisionEveryTime,
    ApplyTakesNonsense,
    ValidateFindsFaultWithEverything,
    ListLeavesOutUnknownStates,
    ListIgnoresTheOverlay,
    ListNarrowsToOtherDefinitions,
    ListLeavesOutTheBoundsOfTimes,
    HistoryTakesAnyCursor,
    HistoryIgnoresItsOrder,
    HistoryForgetsTheEnd,
    DenialIsCalledInternal,
    StartIgnoresOptions,
    RetryFromIgnoresFeedback,
    RetryFromIgnoresFromStart,
    ResumeIsForgotten,
    RetryNowForgetsItsRequestId,
    RetryFromForgetsItsRequestId,
    ApprovalsAskedForLaterAreNotReported,
    PendingApprovalsAreLeftOut,
    ApprovalsAreWatchedUnderOtherRoles,
    ApprovalsAreNeverInSync,
    TheEndOfAnApprovalIsNotReported,
    AnApprovalIsGoneWithoutItsEnd,
}

impl Defect {
    /// The cases that must fail, and no other may. A name that ends in `*` stands for every case
    /// that begins so.
    pub(crate) const fn caught_by(self) -> &'static [&'static str] {
        match self {
            Self::StartForgetsItsRequestId => &[
                "start::a_repeated_request_answers_the_same_execution",
                "start::a_request_id_with_another_body_is_refused",
                "fault::a_dropped_write_is_settled_by_repeating_it",
                "restart::a_start_is_still_idempotent",
            ],
            Self::StartIgnoresTheBody => &["start::a_request_id_with_another_body_is_refused"],
            Self::StartAnswersWithWhoeverHasTheId => {
                &["start::an_execution_id_that_is_taken_is_refused"]
            }
            Self::StartDropsLabels => &["start::labels_are_kept"],
            Self::GetInventsUnknownExecutions => &[
                "get::an_unknown_execution_is_not_found",
                "purge::what_was_purged_is_not_found",
            ],
            Self::GetAlwaysShowsPayloads => &["get::payloads_only_in_the_full_view"],
            Self::GetRenamesUnknownStates => &["mapping::a_state_in_no_table_is_reported_verbatim"],
            Self::GetDropsQualifiers => &["mapping::execution::BROKEN (cause = *"],
            Self::GetInventsAttempts => &["mapping::without_metadata_there_is_no_evidence"],
            Self::GetForgetsTheNextAttempt => {
                &["mapping::back_off_is_reported_with_its_attempt_its_time_and_its_error"]
            }
            Self::GetShowsOnlyTheFirstStep => &[
                "mapping::several_open_steps_follow_the_precedence",
                "signal::the_same_request_is_delivered_once",
            ],
            Self::ObserveSortsItsAnswers => &["observe::keeps_the_order_and_isolates_failures"],
            Self::ListEndsAtAnEmptyPage => &[
                "list::an_empty_page_is_not_the_end",
                "list::what_the_hints_admit_is_never_left_out",
            ],
            Self::ListRepeatsARow => &["list::every_execution_is_shown_once_over_the_pages"],
            Self::ListNarrowsTooFar => &["list::what_the_hints_admit_is_never_left_out"],
            Self::ListTakesAnyCursor => &["list::a_foreign_cursor_is_refused"],
            Self::HistoryRunsBackwards => &[
                "history::ascends_over_the_pages_without_gaps_or_repeats",
                "history::newest_first_is_the_same_history_in_reverse",
                "history::only_grows",
                "retry_from::what_the_old_run_did_stays_readable",
            ],
            Self::WatchLeavesOutThePresent => &[
                "watch::one_begins_with_its_present_state_and_is_in_sync",
                "watch::all_begins_with_the_present_set_and_is_in_sync",
                "watch::a_purged_execution_is_gone",
                "watch::versions_never_go_back",
                "watch::the_end_arrives_on_a_watch_of_the_end",
                "watch::the_last_state_arrives_and_ends_the_stream",
                "watch::the_deadline_bounds_opening_not_the_stream",
            ],
            Self::WatchLosesTheLastState => &[
                "watch::the_last_state_arrives_and_ends_the_stream",
                "watch::the_end_arrives_on_a_watch_of_the_end",
                "watch::a_purged_execution_is_gone",
                "watch::all_reports_changes",
                "watch::versions_never_go_back",
                "watch::the_deadline_bounds_opening_not_the_stream",
            ],
            Self::WatchIsNeverInSync | Self::WatchIsInSyncTooEarly => &[
                "watch::one_begins_with_its_present_state_and_is_in_sync",
                "watch::all_begins_with_the_present_set_and_is_in_sync",
            ],
            Self::WatchHidesRemovals => &["watch::a_purged_execution_is_gone"],
            Self::WatchVersionsGoBack => &["watch::versions_never_go_back"],
            Self::WatchOfOneNeverEnds => &[
                "watch::the_last_state_arrives_and_ends_the_stream",
                "watch::the_end_arrives_on_a_watch_of_the_end",
            ],
            Self::WatchOfTheEndReportsNoEnd => &["watch::the_end_arrives_on_a_watch_of_the_end"],
            Self::WatchOpensAfterTheDeadline => &["watch::opening_ends_by_the_deadline"],
            Self::SignalIsDeliveredAgain => &[
                "signal::the_same_request_is_delivered_once",
                "signal::a_request_id_with_another_body_is_refused",
            ],
            Self::SignalAfterTheEndIsSwallowed => &["signal::a_signal_after_the_end_is_refused"],
            Self::CancelFailsTheSecondTime => &[
                "cancel::asking_twice_is_the_same_as_asking_once",
                "cancel::killing_twice_is_the_same_as_killing_once",
            ],
            Self::CancelReportsTheEndTooEarly => {
                &["cancel::what_still_cleans_up_is_not_reported_as_ended"]
            }
            Self::CancelIgnoresTheChoiceToCompensate => &[
                "cancel::no_compensation_ends_what_would_clean_up",
                "capability_off::a_choice_about_compensation_is_unsupported",
            ],
            Self::PauseDoesNothing => &[
                "pause::what_is_paused_waits",
                "resume::what_was_paused_goes_on",
            ],
            Self::ResumeWithoutTheCapabilityDoesNothing => {
                &["capability_off::resume_answers_unsupported"]
            }
            Self::RetryNowNeverRefuses => &["retry_now::with_nothing_backing_off_it_is_refused"],
            Self::DeadlinesAreIgnored => &[
                "fault::a_call_ends_by_its_deadline_when_the_engine_hangs",
                "fault::a_write_ends_by_its_deadline_when_the_engine_hangs",
            ],
            Self::ThrottlingLosesItsPause => {
                &["fault::throttling_carries_the_pause_that_was_asked_for"]
            }
            Self::NonsenseIsCalledInternal => {
                &["fault::an_answer_that_makes_no_sense_is_malformed"]
            }
            Self::CallsWaitForEachOther => &["fault::a_slow_answer_delays_no_other_call"],
            Self::RestartForgetsEverything => &["restart::*"],
            Self::StartIsNeverDelayed => &["start::a_delayed_start_waits_for_its_time"],
            Self::StartCallsAnUnknownDefinitionInvalid => {
                &["start::an_unknown_definition_is_not_found"]
            }
            Self::StartAnswersSomethingElse => &["start::the_answer_is_what_get_shows"],
            Self::GetLosesTheWordsOfSteps => &[
                "mapping::step::*",
                "mapping::a_step_state_in_no_table_is_reported_verbatim",
                "mapping::several_open_steps_follow_the_precedence",
                "mapping::back_off_is_reported_with_its_attempt_its_time_and_its_error",
            ],
            Self::ObserveShowsPayloads => &["observe::shows_no_payloads"],
            Self::ListShowsPayloads => &["list::shows_no_payloads"],
            Self::UnknownExecutionsAreCalledInvalid => {
                &["unknown_execution::*", "purge::purging_twice_is_not_found"]
            }
            Self::RefusalsAfterTheEndLoseTheirReason => &[
                "signal::a_signal_after_the_end_is_refused",
                "cancel::cancelling_what_succeeded_is_refused",
                "cancel::killing_what_succeeded_is_refused",
                "pause::pausing_after_the_end_is_refused",
                "resume::resuming_after_the_end_is_refused",
                "retry_now::after_the_end_it_is_refused",
                "purge::an_open_execution_is_refused_and_stays",
            ],
            Self::WhatIsOffIsCalledAPrecondition => &[
                "capability_off::*",
                "retry_from::an_input_is_used_or_refused",
                "retry_from::feedback_is_used_or_refused",
                "retry_from::from_start_is_used_or_refused",
            ],
            Self::ResumeDoesNothing => &[
                "resume::what_is_stuck_goes_on",
                "resume::what_was_paused_goes_on",
            ],
            Self::ResumeNeverRefuses => {
                &["resume::resuming_what_is_neither_paused_nor_stuck_is_refused"]
            }
            Self::RetryNowDoesNothing => &[
                "retry_now::the_next_attempt_is_made_at_once",
                "retry_now::a_request_id_with_another_body_is_refused",
            ],
            Self::RetryFromDoesNothing => &[
                "retry_from::what_failed_is_done_again",
                "retry_from::a_request_id_with_another_body_is_refused",
            ],
            Self::KillIsGraceful => &["cancel::a_kill_ends_what_still_cleans_up"],
            Self::OneFailureFailsAllThatFollow => {
                &["fault::one_failed_call_does_not_fail_the_next"]
            }
            Self::SlowAnswersAreGivenUp => &[
                "fault::a_slow_answer_that_is_in_time_is_an_answer",
                "fault::a_slow_answer_delays_no_other_call",
            ],
            Self::UnreachableIsCalledInternal => &[
                "fault::an_engine_that_cannot_be_reached_is_unavailable",
                "fault::one_failed_call_does_not_fail_the_next",
            ],
            Self::ListLeavesOutUnknownStates => &["list::a_state_in_no_table_is_never_left_out"],
            Self::ListIgnoresTheOverlay => {
                &["list::a_row_that_an_operator_laid_over_the_table_is_never_left_out"]
            }
            Self::ListNarrowsToOtherDefinitions => {
                &["list::the_hinted_definition_is_never_left_out"]
            }
            Self::ListLeavesOutTheBoundsOfTimes => {
                &["list::the_hinted_times_leave_out_nothing_between_them"]
            }
            Self::HistoryTakesAnyCursor => &["history::a_foreign_cursor_is_refused"],
            Self::HistoryIgnoresItsOrder => &[
                "capability_off::newest_first_is_unsupported",
                "history::newest_first_is_the_same_history_in_reverse",
                "history::a_cursor_of_the_other_order_is_refused",
            ],
            Self::HistoryForgetsTheEnd => &["history::only_grows"],
            Self::DenialIsCalledInternal => {
                &["fault::an_operation_that_the_engine_denies_is_permission_denied"]
            }
            Self::StartIgnoresOptions => &["start::an_unknown_option_is_refused"],
            Self::RetryFromIgnoresFeedback => &["retry_from::feedback_is_used_or_refused"],
            Self::RetryFromIgnoresFromStart => &["retry_from::from_start_is_used_or_refused"],
            Self::RetryNowForgetsItsRequestId => &[
                "retry_now::the_same_request_retries_once",
                "retry_now::a_request_id_with_another_body_is_refused",
                "restart::a_retry_now_is_still_idempotent",
            ],
            Self::RetryFromForgetsItsRequestId => &[
                "retry_from::the_same_request_runs_again_once",
                "retry_from::a_request_id_with_another_body_is_refused",
                "restart::a_retry_from_is_still_idempotent",
            ],
            Self::ResumeIsForgotten => &[
                "capability_on::resume_is_implemented",
                "resume::*",
                "unknown_execution::resume_answers_not_found",
            ],
            Self::ApprovalsAskedForLaterAreNotReported => {
                &["approvals::a_watch_reports_what_is_asked_for_later"]
            }
            Self::PendingApprovalsAreLeftOut => &[
                "approvals::a_watch_begins_with_what_is_pending_and_is_in_sync",
                "approvals::a_watch_reports_how_an_approval_ended",
                "approvals::a_watch_shows_what_a_list_shows",
            ],
            Self::ApprovalsAreWatchedUnderOtherRoles => {
                &["approvals::a_watch_shows_what_a_list_shows"]
            }
            Self::ApprovalsAreNeverInSync => &[
                "approvals::a_watch_begins_with_what_is_pending_and_is_in_sync",
                "approvals::a_watch_reports_what_is_asked_for_later",
                "approvals::a_watch_shows_what_a_list_shows",
            ],
            Self::TheEndOfAnApprovalIsNotReported | Self::AnApprovalIsGoneWithoutItsEnd => {
                &["approvals::a_watch_reports_how_an_approval_ended"]
            }
            Self::CapabilitiesChangeWithUse => &["health::capabilities_stay_the_same"],
            Self::HealthIsNeverGood => &["health::an_engine_that_answers_is_healthy"],
            Self::StartMisreportsAWantedId => {
                &["start::what_has_a_wanted_execution_id_can_be_read"]
            }
            Self::GetLagsBehindACancel => &[
                "get::an_answered_write_is_visible",
                "cancel::a_kill_ends_it_at_once",
                "cancel::a_kill_ends_what_still_cleans_up",
                "watch::versions_never_go_back",
            ],
            Self::GetForgetsWhatIsDone => &[
                "get::a_finished_execution_can_be_read",
                "mapping::execution::DONE",
            ],
            Self::SignalDoesNothing => &[
                "signal::a_signal_ends_the_wait_for_it",
                "signal::a_request_id_with_another_body_is_refused",
            ],
            Self::SignalIgnoresItsName => &[
                "signal::another_signal_does_not_end_the_wait",
                "signal::a_request_id_with_another_body_is_refused",
            ],
            Self::PauseFailsTheSecondTime => &["pause::pausing_what_is_paused_is_a_success"],
            Self::RetryFromTakesAnyStep => &[
                "retry_from::an_unknown_step_is_refused",
                "retry_from::a_request_id_with_another_body_is_refused",
            ],
            Self::RetryFromIgnoresItsInput => &["retry_from::an_input_is_used_or_refused"],
            Self::ADroppedReadLeavesATrace => &["fault::a_dropped_read_leaves_no_trace"],
            Self::PurgeDoesNothing => &[
                "purge::what_was_purged_is_not_found",
                "purge::what_was_purged_is_in_no_list",
                "purge::purging_twice_is_not_found",
                "watch::a_purged_execution_is_gone",
            ],
            Self::PurgeTakesWhatIsOpen => &["purge::an_open_execution_is_refused_and_stays"],
            Self::PurgeIsASuccessEveryTime => &["purge::purging_twice_is_not_found"],
            Self::ListStillShowsWhatWasPurged => &["purge::what_was_purged_is_in_no_list"],
            Self::CountLeavesOutTheFinished => &["count::agrees_with_what_a_list_shows"],
            Self::HealthIsAlwaysGood => {
                &["health::an_engine_that_cannot_be_reached_is_not_healthy"]
            }
            Self::DefinitionsAreNotListed => {
                &["definitions::what_can_be_started_is_listed_and_can_be_read"]
            }
            Self::DefinitionsTakeAnyCursor => &["definitions::a_foreign_cursor_is_refused"],
            Self::AnUnknownDefinitionIsInvalid => {
                &["definitions::an_unknown_definition_is_not_found"]
            }
            Self::ApplyKeepsNothing => &[
                "definitions::what_was_applied_can_be_read_and_started",
                "definitions::applying_the_same_again_changes_nothing",
            ],
            Self::ApplyMakesARevisionEveryTime => {
                &["definitions::applying_the_same_again_changes_nothing"]
            }
            Self::ApplyTakesNonsense => &["definitions::what_is_no_definition_is_refused"],
            Self::ValidateFindsFaultWithEverything => {
                &["definitions::a_definition_that_the_engine_runs_has_no_errors"]
            }
        }
    }

    pub(crate) const ALL: &'static [Self] = &[
        Self::StartForgetsItsRequestId,
        Self::StartIgnoresTheBody,
        Self::StartAnswersWithWhoeverHasTheId,
        Self::StartDropsLabels,
        Self::GetInventsUnknownExecutions,
        Self::GetAlwaysShowsPayloads,
        Self::GetRenamesUnknownStates,
        Self::GetDropsQualifiers,
        Self::GetInventsAttempts,
        Self::GetForgetsTheNextAttempt,
        Self::GetShowsOnlyTheFirstStep,
        Self::ObserveSortsItsAnswers,
        Self::ListEndsAtAnEmptyPage,
        Self::ListRepeatsARow,
        Self::ListNarrowsTooFar,
        Self::ListTakesAnyCursor,
        Self::HistoryRunsBackwards,
        Self::WatchLeavesOutThePresent,
        Self::WatchLosesTheLastState,
        Self::WatchIsNeverInSync,
        Self::WatchIsInSyncTooEarly,
        Self::WatchHidesRemovals,
        Self::WatchVersionsGoBack,
        Self::WatchOfOneNeverEnds,
        Self::WatchOfTheEndReportsNoEnd,
        Self::WatchOpensAfterTheDeadline,
        Self::SignalIsDeliveredAgain,
        Self::SignalAfterTheEndIsSwallowed,
        Self::CancelFailsTheSecondTime,
        Self::CancelReportsTheEndTooEarly,
        Self::CancelIgnoresTheChoiceToCompensate,
        Self::PauseDoesNothing,
        Self::ResumeWithoutTheCapabilityDoesNothing,
        Self::RetryNowNeverRefuses,
        Self::DeadlinesAreIgnored,
        Self::ThrottlingLosesItsPause,
        Self::NonsenseIsCalledInternal,
        Self::CallsWaitForEachOther,
        Self::RestartForgetsEverything,
        Self::HealthIsAlwaysGood,
        Self::StartIsNeverDelayed,
        Self::StartCallsAnUnknownDefinitionInvalid,
        Self::StartAnswersSomethingElse,
        Self::GetLosesTheWordsOfSteps,
        Self::ObserveShowsPayloads,
        Self::ListShowsPayloads,
        Self::UnknownExecutionsAreCalledInvalid,
        Self::RefusalsAfterTheEndLoseTheirReason,
        Self::WhatIsOffIsCalledAPrecondition,
        Self::ResumeDoesNothing,
        Self::ResumeNeverRefuses,
        Self::RetryNowDoesNothing,
        Self::RetryFromDoesNothing,
        Self::KillIsGraceful,
        Self::OneFailureFailsAllThatFollow,
        Self::SlowAnswersAreGivenUp,
        Self::UnreachableIsCalledInternal,
        Self::ListLeavesOutUnknownStates,
        Self::ListIgnoresTheOverlay,
        Self::ListNarrowsToOtherDefinitions,
        Self::ListLeavesOutTheBoundsOfTimes,
        Self::HistoryTakesAnyCursor,
        Self::HistoryIgnoresItsOrder,
        Self::HistoryForgetsTheEnd,
        Self::DenialIsCalledInternal,
        Self::StartIgnoresOptions,
        Self::RetryFromIgnoresFeedback,
        Self::RetryFromIgnoresFromStart,
        Self::ResumeIsForgotten,
        Self::RetryNowForgetsItsRequestId,
        Self::RetryFromForgetsItsRequestId,
        Self::ApprovalsAskedForLaterAreNotReported,
        Self::PendingApprovalsAreLeftOut,
        Self::ApprovalsAreWatchedUnderOtherRoles,
        Self::ApprovalsAreNeverInSync,
        Self::TheEndOfAnApprovalIsNotReported,
        Self::AnApprovalIsGoneWithoutItsEnd,
        Self::CapabilitiesChangeWithUse,
        Self::HealthIsNeverGood,
        Self::StartMisreportsAWantedId,
        Self::GetLagsBehindACancel,
        Self::GetForgetsWhatIsDone,
        Self::SignalDoesNothing,
        Self::SignalIgnoresItsName,
        Self::PauseFailsTheSecondTime,
        Self::RetryFromTakesAnyStep,
        Self::RetryFromIgnoresItsInput,
        Self::ADroppedReadLeavesATrace,
        Self::PurgeDoesNothing,
        Self::PurgeTakesWhatIsOpen,
        Self::PurgeIsASuccessEveryTime,
        Self::ListStillShowsWhatWasPurged,
        Self::CountLeavesOutTheFinished,
        Self::DefinitionsAreNotListed,
        Self::DefinitionsTakeAnyCursor,
        Self::AnUnknownDefinitionIsInvalid,
        Self::ApplyKeepsNothing,
        Self::ApplyMakesARevisionEveryTime,
        Self::ApplyTakesNonsense,
        Self::ValidateFindsFaultWithEverything,
    ];
}
