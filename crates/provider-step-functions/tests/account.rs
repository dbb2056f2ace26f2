//! A watch of a whole account: what it costs, and what it notices.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use mock::bench::{Bench, call};
use mock::scene::long_running_sequence;
use mock::script;
use stateway_model::ExecutionId;
use stateway_provider_api::{Observation, Provider, WatchScope, WatchStream, Watched};
use stateway_provider_step_functions::Api;

const RETAINED: usize = 100_000;
const OPEN: usize = 10;
/// AWS's quota outside of its three largest regions.
const SMALL_REGION: &str = "eu-central-1";

/// An account that has run something every minute, and in which some executions are open.
async fn account(retained: usize) -> (Bench, Vec<ExecutionId>) {
    let bench = Bench::new(|_| {}).await;
    {
        let mut world = bench.service.world();
        let now = mock::now();
        for number in 0..retained {
            let mut execution = script::execution("busy", &format!("old-{number}"), Vec::new());
            "SUCCEEDED".clone_into(&mut execution.status);
            execution.started = now - 3_600.0 - 60.0 * (retained - number) as f64;
            world.executions.push(execution);
        }
    }
    let open = (0..OPEN)
        .map(|number| bench.put("busy", &format!("open-{number}"), long_running_sequence(20)))
        .collect();
    (bench, open)
}

/// What a watch has reported: the last observation of each execution, nothing for those gone.
type Reported = Arc<Mutex<BTreeMap<ExecutionId, Observation>>>;

/// Follows the stream until it is in sync, and then in the background.
async fn follow(mut stream: WatchStream) -> (Reported, tokio::task::JoinHandle<()>) {
    let reported = Reported::default();
    let mut present = BTreeMap::new();
    loop {
        match stream.next().await.expect("an item").expect("no error") {
            Watched::Seen(seen) => drop(present.insert(seen.id.clone(), *seen)),
            Watched::Gone(id) => drop(present.remove(&id)),
            Watched::InSync => break,
        }
    }
    *reported.lock().expect("no panic") = present;
    let shared = reported.clone();
    let background = tokio::spawn(async move {
        while let Some(Ok(item)) = stream.next().await {
            let mut reported = shared.lock().expect("no panic");
            match item {
                Watched::Seen(seen) => drop(reported.insert(seen.id.clone(), *seen)),
                Watched::Gone(id) => drop(reported.remove(&id)),
                Watched::InSync => {}
            }
        }
    });
    (reported, background)
}

/// Lets this much time pass for the provider, a second after the other.
async fn pass(bench: &Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.provider.clock().skip(Duration::from_secs(1));
        // A wait checks the clock every tenth of a second.
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
}

fn lists(bench: &Bench) -> usize {
    let calls: BTreeMap<_, _> = bench.calls().into_iter().collect();
    calls.get("ListExecutions").copied().unwrap_or_default()
}

/// The quota of lists, per minute.
fn allowed(region: &str) -> f64 {
    60.0 * f64::from(Api::ListExecutions.default_quota(region).per_second)
}

#[tokio::test]
async fn a_quiet_account_with_100_000_retained_executions_costs_24_lists_a_minute() {
    let (bench, open) = account(RETAINED).await;
    let watch = bench.provider.watch(&call(), WatchScope::All).await;
    let (reported, background) = follow(watch.expect("it opens")).await;
    assert_eq!(reported.lock().expect("no panic").len(), RETAINED + OPEN);
    let to_open = lists(&bench);
    assert_eq!(to_open, RETAINED / 1_000 + 1);
    pass(&bench, 20).await;
    bench.calls();
    let clock = bench.provider.clock();
    let began = clock.now();
    pass(&bench, 60).await;
    let minutes = (clock.now() - began).as_secs_f64() / 60.0;
    let per_minute = lists(&bench) as f64 / minutes;
    println!(
        "summary: watch of an account with {RETAINED} retained executions and {OPEN} open ones: {to_open} lists to open, then {per_minute:.0} a minute while nothing happens ({} allowed in {SMALL_REGION})",
        allowed(SMALL_REGION)
    );
    assert!(per_minute <= 24.0, "{per_minute} lists a minute");
    assert!(per_minute <= allowed(SMALL_REGION) / 2.0);
    // The same watch notices what is new, what ended in between and what ends.
    let new = bench.put("busy", "new", long_running_sequence(20));
    let quick = bench.put("busy", "quick", long_running_sequence(20));
    {
        let mut world = bench.service.world();
        let status = |world: &mut mock::World, name: &str, status: &str| {
            let found = world.executions.iter_mut().rev();
            let found = found.filter(|it| it.name == name).take(1);
            found.for_each(|it| status.clone_into(&mut it.status));
        };
        status(&mut world, "quick", "SUCCEEDED");
        status(&mut world, "open-0", "FAILED");
    }
    pass(&bench, 12).await;
    let shown = |id: &ExecutionId| {
        let reported = reported.lock().expect("no panic");
        reported.get(id).map(|seen| seen.native.state.clone())
    };
    assert_eq!(shown(&new).as_deref(), Some("RUNNING"));
    assert_eq!(shown(&quick).as_deref(), Some("SUCCEEDED"));
    assert_eq!(shown(&open[0]).as_deref(), Some("FAILED"));
    assert_eq!(shown(&open[1]).as_deref(), Some("RUNNING"));
    background.abort();
}

#[tokio::test]
async fn an_account_in_which_something_happens_all_the_time_costs_half_of_the_quota_at_most() {
    let (bench, _) = account(1_000).await;
    let watch = bench.provider.watch(&call(), WatchScope::All).await;
    let (reported, background) = follow(watch.expect("it opens")).await;
    bench.calls();
    let clock = bench.provider.clock();
    let began = clock.now();
    for number in 0..40 {
        bench.put("busy", &format!("more-{number}"), long_running_sequence(20));
        pass(&bench, 1).await;
    }
    let minutes = (clock.now() - began).as_secs_f64() / 60.0;
    let per_minute = lists(&bench) as f64 / minutes;
    println!(
        "summary: watch of an account with a start every second: {per_minute:.0} lists a minute"
    );
    assert!(per_minute <= allowed("us-east-1") / 2.0, "{per_minute}");
    pass(&bench, 6).await;
    let shown = reported.lock().expect("no panic").len();
    assert_eq!(shown, 1_000 + OPEN + 40);
    background.abort();
}

#[tokio::test]
async fn a_redriven_execution_is_open_again_and_its_version_is_newer() {
    let (bench, open) = account(10).await;
    let watch = bench.provider.watch(&call(), WatchScope::All).await;
    let (reported, background) = follow(watch.expect("it opens")).await;
    let set = |status: &str, redrives: u32| {
        let mut world = bench.service.world();
        let found = world.executions.iter_mut().find(|it| it.name == "open-3");
        let found = found.expect("it exists");
        status.clone_into(&mut found.status);
        found.redrives = redrives;
    };
    let shown = || {
        let reported = reported.lock().expect("no panic");
        let seen = reported.get(&open[3]).expect("it is shown");
        (seen.native.state.clone(), seen.version)
    };
    let running = shown();
    set("FAILED", 0);
    pass(&bench, 8).await;
    let failed = shown();
    assert_eq!(failed.0, "FAILED");
    set("RUNNING", 1);
    pass(&bench, 8).await;
    let redriven = shown();
    assert_eq!(redriven.0, "RUNNING");
    assert!(running.1 < failed.1 && failed.1 < redriven.1);
    background.abort();
}
