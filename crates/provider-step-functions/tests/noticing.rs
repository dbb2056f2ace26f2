//! How soon a watch notices that something moves which did not move before.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mock::bench::{Bench, call};
use mock::scene::long_sequence;
use mock::script;
use stateway_provider_api::{Observation, Provider};
use stateway_provider_step_functions::Api;

const WATCHED: usize = 1_000;
/// So many seconds pass between two sweeps over all of them.
const STEP: usize = 5;
/// By then all were read, and those that do not move are known not to.
const SETTLED: usize = 150;
const SECONDS: usize = 400;
/// What does not move is due again after a minute.
const SLOWEST: usize = 60;

/// The attempt that failed last.
fn attempt(seen: &Observation) -> u32 {
    let retry = seen.steps.first().and_then(|step| step.retry.as_ref());
    retry.map_or(0, |retry| retry.attempt)
}

fn fail_again(bench: &Bench, at: usize) {
    let mut world = bench.service.world();
    let events = &mut world.executions[at].events;
    let last = events.len();
    script::push(events, last, "ActivityScheduled", script::activity());
    script::push(events, last + 1, "ActivityFailed", script::NOTHING);
}

/// Watches while so many move all the time; how long it took, at most, until the first move of one
/// that had not moved before was shown.
async fn longest_until_noticed(moving: usize) -> Duration {
    let bench = Bench::new(|_| {}).await;
    let clock = bench.provider.clock();
    let ids: Vec<_> = (0..WATCHED)
        .map(|number| bench.put("many", &number.to_string(), long_sequence(20)))
        .collect();
    let began = clock.now();
    let (mut waiting, mut longest) = (BTreeMap::<usize, Instant>::new(), Duration::ZERO);
    let mut noticed = 0;
    for second in (0..SECONDS).step_by(STEP) {
        clock.skip(Duration::from_secs(STEP as u64));
        for at in 0..moving {
            fail_again(&bench, at);
        }
        // One after the other begins to move, here and there: the last ones too.
        if (SETTLED..SECONDS - 150).contains(&second) {
            let at = WATCHED - 1 - (second * 7) % (WATCHED - moving);
            waiting.insert(at, clock.now());
            fail_again(&bench, at);
        }
        for (batch, chunk) in ids.chunks(100).enumerate() {
            let seen = bench.provider.observe(&call(), chunk).await;
            for (at, seen) in seen.into_iter().enumerate() {
                let number = batch * 100 + at;
                let moved = attempt(&seen.expect("an answer")) > 1;
                if let (true, Some(since)) = (moved, waiting.get(&number).copied()) {
                    waiting.remove(&number);
                    longest = longest.max(clock.now() - since);
                    noticed += 1;
                }
            }
        }
    }
    let quota = Api::GetExecutionHistory.default_quota("us-east-1");
    let calls = bench.service.world().calls["GetExecutionHistory"];
    // The time that the test itself takes passes too.
    let passed = (clock.now() - began).as_secs_f64();
    let allowed = f64::from(quota.burst) + f64::from(quota.per_second) * passed;
    assert!(
        calls as f64 <= allowed,
        "{calls} histories, {allowed} allowed"
    );
    assert!(waiting.is_empty(), "never noticed: {waiting:?}");
    assert!(noticed >= 15, "only {noticed} moved");
    println!(
        "summary: watch on {WATCHED} executions of which {moving} move: the first move of another is shown after {:.0} s at most, {calls} histories read, {allowed:.0} allowed",
        longest.as_secs_f64()
    );
    longest
}

/// All can be looked at in 50 s at 20 a second, and each is due after a minute: whoever waits for
/// longer than both together was put off for others.
fn bound() -> Duration {
    let quota = Api::GetExecutionHistory.default_quota("us-east-1");
    let whole = WATCHED / usize::try_from(quota.per_second).unwrap_or(1);
    Duration::from_secs((SLOWEST + whole + 2 * STEP) as u64)
}

#[tokio::test]
async fn a_first_move_is_noticed_within_the_bound_while_many_others_move() {
    let longest = longest_until_noticed(100).await;
    assert!(longest <= bound(), "{longest:?}, {:?} allowed", bound());
}
