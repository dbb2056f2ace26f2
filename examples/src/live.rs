//! Prints the changes of an execution, a line for each change.

use std::collections::BTreeMap;
use std::time::Instant;

use stateway_client::{Change, Client, WatchRequest, is_finished, v1, word_of};

use crate::Outcome;

/// Reports the changes of an execution until it has finished. Returns the finished execution.
///
/// # Errors
/// The gateway refuses the watch.
pub async fn follow(
    client: &Client,
    name: &str,
    tell: &(dyn Fn(String) + Send + Sync),
) -> Outcome<v1::Execution> {
    let begin = Instant::now();
    let mut told = BTreeMap::new();
    let mut watch = client.watch(WatchRequest::of([name]));
    while let Some(change) = watch.next().await {
        let (Change::Added(execution) | Change::Modified(execution)) = change? else {
            continue;
        };
        let mut lines: Vec<(String, String)> = execution.steps.iter().map(of_step).collect();
        let word = said(execution.sub_state, execution.reason().label());
        lines.push(("(execution)".to_owned(), word));
        for (who, what) in lines {
            if told.get(&who) != Some(&what) {
                tell(format!(
                    "{:>8.3} s  {who:<14} {what}",
                    begin.elapsed().as_secs_f64()
                ));
                told.insert(who, what);
            }
        }
        if is_finished(execution.sub_state) {
            return Ok(execution);
        }
    }
    Err("the watch ended before the execution".into())
}

fn of_step(step: &v1::Step) -> (String, String) {
    let mut what = said(step.sub_state, step.reason().label());
    if let Some(retry) = &step.retry
        && retry.attempt > 1
    {
        what = format!("{what}, attempt {}", retry.attempt);
    }
    if let Some(error) = &step.last_error {
        what = format!("{what} (last: {})", error.message);
    }
    (step.name.clone(), what)
}

fn said(sub_state: i32, reason: &str) -> String {
    match reason {
        "" => word_of(sub_state).to_owned(),
        reason => format!("{} {reason}", word_of(sub_state)),
    }
}
