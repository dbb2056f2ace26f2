//! The items of a distributed Map. Each is an execution of its own with a history of its own, which
//! is not read: what is shown are the counts of the Map Run.

use jiff::Timestamp;
use stateway_model::Progress;
use stateway_provider_api::StepObservation;
use stateway_provider_api::table::Qualifier;

use super::leaf::{Leaf, leaves};
use crate::response::ItemCounts;
use crate::{Definition, Fold};

/// The open steps that wait for a Map Run, with its ARN.
pub(crate) fn map_runs(
    fold: &Fold,
    definition: &Definition,
    now: Timestamp,
) -> Vec<(String, String)> {
    let found = leaves(fold, definition, now);
    let runs = found.iter().filter_map(|leaf| {
        let Leaf::Visit { visit, name, .. } = leaf else {
            return None;
        };
        let open = matches!(visit.newest.as_str(), "MapRunStarted" | "MapRunRedriven");
        let run = visit.map_run.clone().filter(|_| open)?;
        Some((name.clone(), run))
    });
    runs.collect()
}

/// Adds the counts to the step that they belong to.
pub(crate) fn with_items(steps: &mut [StepObservation], name: &str, items: &ItemCounts) {
    let Some(step) = steps.iter_mut().find(|step| step.name == name) else {
        return;
    };
    let counts = [
        ("items_total", items.total),
        ("items_pending", items.pending),
        ("items_running", items.running),
        ("items_succeeded", items.succeeded),
        ("items_failed", items.failed),
        ("items_timed_out", items.timed_out),
        ("items_aborted", items.aborted),
        ("items_pending_redrive", items.pending_redrive),
    ];
    let told = |(name, count): &(&str, u64)| *count > 0 || *name == "items_total";
    let mut native = step.native.clone();
    for (name, count) in counts.into_iter().filter(told) {
        // Figures for `explain`; no row of the table asks about them.
        native = native.with(Qualifier::new(name), count.to_string());
    }
    step.native = native;
    step.progress = progress(items);
}

#[allow(clippy::cast_precision_loss, reason = "a fraction for people")]
fn progress(items: &ItemCounts) -> Option<Progress> {
    let unhappy = items.failed + items.timed_out + items.aborted;
    let over = items.succeeded + unhappy;
    let fraction = over as f64 / items.total.max(1) as f64;
    let detail = format!(
        "{} of {} items succeeded, {unhappy} failed, {} running; retries inside the items are not reported",
        items.succeeded, items.total, items.running
    );
    Progress::new(fraction, &detail)
}
