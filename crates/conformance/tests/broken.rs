//! The broken providers of the kit, through the wire: the kit catches them there too, or the remote provider
//! contains the defect so that no client can meet it.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use stateway_conformance::OverWire;
use stateway_contract_kit::{Harness, Stop, cases, run};

#[allow(dead_code)] // Its own main.
#[path = "../../provider-memory/tests/broken.rs"]
mod broken;

use broken::{BrokenMemory, Defect, should_catch};

/// Whether at least one of the cases that should detect the defect fails.
fn is_caught(defect: Defect) -> bool {
    let harness: Arc<dyn Harness> = Arc::new(OverWire::new(BrokenMemory(defect)));
    let cases = cases(&harness.table()).into_iter();
    let mut cases = cases.filter(|case| should_catch(&case.name, defect));
    cases.any(|case| matches!(run(&case, &harness), Err(Stop::Failed(_))))
}

/// Defects that cannot be seen through the wire, each with the reason.
fn contained(defect: Defect) -> Option<&'static str> {
    // By name: another defect is not excused because its name resembles one of these.
    Some(match defect {
        Defect::AnApprovalIsGoneWithoutItsEnd
        | Defect::ApprovalsAreNeverInSync
        | Defect::ApprovalsAreWatchedUnderOtherRoles
        | Defect::ApprovalsAskedForLaterAreNotReported
        | Defect::PendingApprovalsAreLeftOut
        | Defect::TheEndOfAnApprovalIsNotReported => {
            "approvals are not part of the contract over the wire"
        }
        Defect::ResumeWithoutTheCapabilityDoesNothing
        | Defect::WhatIsOffIsCalledAPrecondition
        | Defect::CancelIgnoresTheChoiceToCompensate => {
            "the remote provider refuses what is off before it calls"
        }
        Defect::ListNarrowsTooFar | Defect::ListEndsAtAnEmptyPage => {
            "hints cross the wire as excluded native states: the provider is asked for more"
        }
        Defect::ListIgnoresTheOverlay => {
            "the gateway lays the rows over, the provider does not see them"
        }
        Defect::CapabilitiesChangeWithUse => {
            "a description counts until the provider describes itself again"
        }
        Defect::ADroppedReadLeavesATrace => "a read that is dropped immediately is not sent",
        Defect::DeadlinesAreIgnored | Defect::WatchOpensAfterTheDeadline => {
            "the remote provider ends every call by its deadline"
        }
        _ => return None,
    })
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They mostly wait: for deadlines, and for streams that say nothing.
    arguments.test_threads.get_or_insert(4);
    let caught = Arc::new(AtomicUsize::new(0));
    let trial = |defect: &Defect| {
        let (defect, caught) = (*defect, caught.clone());
        Trial::test(format!("{defect:?}"), move || {
            match (is_caught(defect), contained(defect)) {
                (true, _) => {
                    caught.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
                (false, Some(_)) => Ok(()),
                (false, None) => Err(Failed::from("no case caught it")),
            }
        })
    };
    let trials = Defect::ALL.iter().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        let (all, caught) = (Defect::ALL.len(), caught.load(Ordering::Relaxed));
        println!("over the wire: {all} broken providers, {caught} caught, the others contained");
    }
    conclusion.exit_code()
}
