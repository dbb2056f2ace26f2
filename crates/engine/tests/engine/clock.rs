//! The wall clock is moved, forward and back: timers fire after the time that they were set for.

use serde_json::json;
use stateway_engine::{Clock, Steer};
use stateway_model::SubState;

use crate::lab::Lab;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;

const SHORT: &str = "name: short\nsteps: [{name: a, sleep: 5s}]";
/// Long enough to leave memory.
const LONG: &str = "name: long\nsteps: [{name: a, sleep: 60s}]";

/// Waits until a turn has begun after this call. An execution is shown when a turn ends, so the
/// second request is part of such a turn.
async fn turns(lab: &Lab, id: &std::sync::Arc<str>) {
    for _ in 0..2 {
        let signal = Steer::RetryNow { step: "".into() };
        lab.steer(id, signal).await.unwrap_err();
    }
}

/// Starts a sleep while the clock is an hour fast, then puts the clock right.
async fn started_fast(source: &str, name: &str) -> (Lab, Clock, std::sync::Arc<str>) {
    let (lab, clock) = Lab::by_hand();
    lab.apply(source).await;
    clock.advance(HOUR);
    let view = lab.start(name, json!(null)).await;
    clock.advance(-HOUR);
    turns(&lab, &view.id).await;
    (lab, clock, view.id)
}

#[tokio::test]
async fn a_timer_that_was_set_while_the_clock_was_fast_is_not_late() {
    let (lab, clock, id) = started_fast(SHORT, "short").await;
    assert_eq!(lab.get(&id).await.sub_state, SubState::Waiting);
    clock.advance(5 * SECOND);
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn an_execution_that_left_memory_while_the_clock_was_fast_is_not_late() {
    let (lab, clock, id) = started_fast(LONG, "long").await;
    clock.advance(60 * SECOND);
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_clock_that_was_put_right_while_the_engine_was_down_delays_no_timer() {
    for (source, name, wait) in [(SHORT, "short", 5), (LONG, "long", 60)] {
        let (lab, clock) = Lab::by_hand();
        lab.apply(source).await;
        clock.advance(HOUR);
        let view = lab.start(name, json!(null)).await;
        let lab = lab.restart_after(|| clock.advance(-HOUR));
        turns(&lab, &view.id).await;
        clock.advance(wait * SECOND);
        assert_eq!(lab.ended(&view.id).await.sub_state, SubState::Succeeded);
    }
}

#[tokio::test]
async fn a_clock_that_goes_back_delays_no_timer_that_was_set_before() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(SHORT).await;
    let view = lab.start("short", json!(null)).await;
    clock.advance(-HOUR);
    turns(&lab, &view.id).await;
    clock.advance(4 * SECOND);
    turns(&lab, &view.id).await;
    assert_eq!(lab.get(&view.id).await.sub_state, SubState::Waiting);
    clock.advance(SECOND);
    assert_eq!(lab.ended(&view.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn verification_finds_nothing_wrong_after_the_clock_went_back() {
    let (lab, _, id) = started_fast(LONG, "long").await;
    let verdict = lab.engine.verify(id).await.unwrap();
    assert_eq!(verdict.findings, []);
}
