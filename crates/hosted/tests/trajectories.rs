//! The golden trajectories, over objects in memory whose time passes like real time.

use std::time::Duration;

use jiff::SignedDuration;
use stateway_trajectory_kit::compare;

use crate::lab::Lab;
use crate::provider::provider;

/// How often the alarms that are due fire.
const TICK: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread")]
async fn hosted_executions_show_the_golden_trajectories() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let passing = tokio::spawn({
        let lab = lab.clone();
        async move {
            let mut last = tokio::time::Instant::now();
            loop {
                tokio::time::sleep(TICK).await;
                let now = tokio::time::Instant::now();
                lab.pass(SignedDuration::try_from(now - last).unwrap());
                last = now;
            }
        }
    });
    let refused = compare(&provider).await;
    passing.abort();
    let names: Vec<_> = refused.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["concurrency", "http"], "{refused:?}");
}
