//! What an answer costs: calls are counted at the service.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mock::bench::{Bench, call, counted};
use mock::scene::{huge_map_history, long_running_sequence, long_sequence};
use mock::script;
use serde_json::json;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, ErrorKind, ListRequest, Observation, Provider, StartDefinition, StartRequest, View,
    classify,
};
use stateway_provider_step_functions::Api;

fn shown(seen: &Observation) -> SubState {
    let table = compiled_in("step-functions").expect("a table");
    classify(&table, seen, Timestamp::now()).execution.sub_state
}

#[tokio::test]
async fn a_history_of_25_000_events_in_sequence_costs_two_calls_and_one_page_at_every_look() {
    for view in [View::Basic, View::Full] {
        let bench = Bench::new(|_| {}).await;
        let id = bench.put("long", "a", long_running_sequence(25_000));
        let look = async || {
            let seen = bench.provider.get(&call(), &id, view).await;
            let seen = seen.expect("an answer");
            assert_eq!(shown(&seen), SubState::Running);
            assert_eq!(seen.steps[0].name, "T");
            assert_eq!(seen.input.is_some(), view == View::Full);
            assert!(seen.start_time.is_some());
            let retry = seen.steps[0].retry.clone().expect("an attempt");
            (retry.attempt, retry.max_attempts, seen.native.qualifiers)
        };
        // The newest page alone says that it runs. How many attempts there may be, and that nothing
        // else is open, is not known without the definition.
        let (attempt, most, qualifiers) = look().await;
        assert_eq!((attempt, most), (1, None));
        assert_eq!(qualifiers["history"], "partial");
        let first = [("DescribeExecution", 1), ("GetExecutionHistory", 1)];
        assert_eq!(bench.calls(), counted(&first));
        // Who looks again is told that too: the definition is asked for once.
        let (attempt, most, qualifiers) = look().await;
        assert_eq!((attempt, most), (1, Some(4)));
        assert!(qualifiers.is_empty());
        let second = [
            ("DescribeStateMachineForExecution", 1),
            ("GetExecutionHistory", 1),
        ];
        assert_eq!(bench.calls(), counted(&second));
        for _ in 0..3 {
            assert_eq!(look().await.1, Some(4));
            assert_eq!(bench.calls(), counted(&first));
        }
    }
}

#[tokio::test]
async fn between_attempts_the_definition_is_asked_for_at_once_and_only_once() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("long", "a", long_sequence(25_000));
    let seen = bench.get(&id).await;
    assert_eq!(shown(&seen), SubState::BackingOff);
    assert_eq!(seen.steps[0].name, "T");
    // When it is tried again is in the definition: one call more, once.
    let first = [
        ("DescribeExecution", 1),
        ("DescribeStateMachineForExecution", 1),
        ("GetExecutionHistory", 1),
    ];
    assert_eq!(bench.calls(), counted(&first));
    let second = [("DescribeExecution", 1), ("GetExecutionHistory", 1)];
    bench.get(&id).await;
    assert_eq!(bench.calls(), counted(&second));
    // Another execution of the same definition that started before.
    let other = bench.put("long", "b", long_sequence(25_000));
    bench.service.world().executions[1].started -= 60.0;
    bench.get(&other).await;
    assert_eq!(bench.calls(), counted(&second));
}

#[tokio::test]
async fn an_execution_that_ended_after_a_glimpse_is_described() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("long", "a", long_running_sequence(1_000));
    bench.get(&id).await;
    {
        let mut world = bench.service.world();
        let execution = &mut world.executions[0];
        "ABORTED".clone_into(&mut execution.status);
        script::push(
            &mut execution.events,
            0,
            "ExecutionAborted",
            script::NOTHING,
        );
    }
    let seen = bench.get(&id).await;
    assert_eq!(shown(&seen), SubState::Failed);
    assert!(seen.end_time.is_some());
}

#[tokio::test]
async fn a_finished_execution_costs_one_call() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("long", "a", long_sequence(100));
    "SUCCEEDED".clone_into(&mut bench.service.world().executions[0].status);
    assert_eq!(shown(&bench.get(&id).await), SubState::Succeeded);
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 1)]));
}

#[tokio::test]
async fn a_huge_map_is_read_up_to_a_bound_and_answered_as_partial() {
    let bench = Bench::new(|config| config.history_pages = 3).await;
    let id = bench.put("huge", "a", huge_map_history(12_000));
    for _ in 0..2 {
        let seen = bench.get(&id).await;
        assert_eq!(seen.native.qualifiers["history"], "partial");
        assert_eq!(shown(&seen), SubState::Running);
        let pages = bench
            .calls()
            .into_iter()
            .find(|(api, _)| api == "GetExecutionHistory");
        assert_eq!(pages.map(|(_, times)| times), Some(3));
    }
}

#[tokio::test]
async fn what_went_on_is_read_from_where_the_last_look_ended() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("map", "a", huge_map_history(900));
    assert!(
        !bench
            .get(&id)
            .await
            .native
            .qualifiers
            .contains_key("history")
    );
    bench.calls();
    {
        let mut world = bench.service.world();
        let events = &mut world.executions[0].events;
        let last = events.len();
        script::push(events, last, "ActivityScheduled", script::activity());
    }
    let seen = bench.get(&id).await;
    let news = seen
        .steps
        .iter()
        .filter(|step| step.native.state == "ActivityScheduled");
    assert_eq!(news.count(), 1);
    assert_eq!(seen.steps.len(), 900);
    assert_eq!(
        bench.calls(),
        counted(&[("DescribeExecution", 1), ("GetExecutionHistory", 1)])
    );
}

#[tokio::test]
async fn a_watch_on_a_thousand_executions_stays_inside_the_default_quotas() {
    let bench = Bench::new(|_| {}).await;
    let ids: Vec<_> = (0..1_000)
        .map(|number| bench.put("many", &number.to_string(), long_sequence(20)))
        .collect();
    let began = Instant::now();
    let mut answers = 0;
    // As the gateway polls: a hundred to a call, over and over.
    while began.elapsed() < Duration::from_secs(3) {
        for batch in ids.chunks(100) {
            let seen = bench.provider.observe(&call(), batch).await;
            for (seen, id) in seen.iter().zip(batch) {
                let seen = seen.as_ref().expect("an answer");
                assert_eq!(seen.id, *id);
                answers += 1;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    for (name, times) in bench.calls() {
        let api = Api::ALL.into_iter().find(|api| format!("{api:?}") == name);
        let quota = api.expect("a known API").default_quota("us-east-1");
        let allowed = f64::from(quota.burst) + f64::from(quota.per_second) * seconds;
        println!(
            "summary: watch on 1,000 executions for 3 s: {name}: {times} calls for {answers} answers, {allowed:.0} allowed"
        );
        assert!(
            times as f64 <= allowed,
            "{name}: {times} calls, {allowed} allowed"
        );
        // One page of a list tells of them all, and one definition is run by them all.
        let histories = name == "GetExecutionHistory";
        assert!(
            name != "DescribeExecution" && (histories || times <= 12),
            "{name}: {times}"
        );
        // A quarter of the bucket is left to those who ask for one execution.
        assert!(
            !histories || times >= 300,
            "only {times} histories were read"
        );
    }
    let seen = bench.provider.observe(&call(), &ids[..100]).await;
    let back_off = |seen: &&stateway_provider_api::Result<Observation>| {
        seen.as_ref()
            .is_ok_and(|seen| shown(seen) == SubState::BackingOff)
    };
    assert_eq!(
        seen.iter().filter(back_off).count(),
        100,
        "those that were read are understood"
    );
}

/// The service's own bucket for an API, in the time of the test.
struct Allowance {
    burst: f64,
    per_second: f64,
    level: f64,
    at: Instant,
}

impl Allowance {
    /// With so many calls made since the last time.
    fn spend(&mut self, calls: usize, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.level = (self.level + self.per_second * passed).min(self.burst) - calls as f64;
        self.level >= 0.0
    }
}

#[tokio::test]
async fn a_long_watch_spends_the_quota_on_what_moves() {
    const SECONDS: usize = 300;
    const MOVING: usize = 10;
    let bench = Bench::new(|_| {}).await;
    let clock = bench.provider.clock();
    let ids: Vec<_> = (0..1_000)
        .map(|number| bench.put("many", &number.to_string(), long_sequence(20)))
        .collect();
    // Those that move come last: who comes first is not who is looked at.
    let first_moving = ids.len() - MOVING;
    let mut allowances: std::collections::BTreeMap<String, Allowance> = Api::ALL
        .into_iter()
        .map(|api| {
            let quota = api.default_quota("us-east-1");
            let burst = f64::from(quota.burst);
            let allowance = Allowance {
                burst,
                per_second: f64::from(quota.per_second),
                level: burst,
                at: clock.now(),
            };
            (format!("{api:?}"), allowance)
        })
        .collect();
    let (mut total, mut unread_at_the_end) = (std::collections::BTreeMap::new(), 0);
    let mut slowest = 0;
    let mut unseen = [0_usize; MOVING];
    for second in 0..SECONDS {
        clock.skip(Duration::from_secs(1));
        // All were read by then, and those that move are soon known to.
        let grow = second > 60 && second % 4 == 0;
        if grow {
            let mut world = bench.service.world();
            for execution in &mut world.executions[first_moving..] {
                let events = &mut execution.events;
                let last = events.len();
                script::push(events, last, "ActivityScheduled", script::activity());
                script::push(events, last + 1, "ActivityFailed", script::NOTHING);
            }
        }
        unread_at_the_end = 0;
        for (batch, chunk) in ids.chunks(100).enumerate() {
            let seen = bench.provider.observe(&call(), chunk).await;
            for (at, seen) in seen.into_iter().enumerate() {
                let seen = seen.expect("an answer");
                unread_at_the_end += usize::from(seen.native.qualifiers.contains_key("history"));
                let number = batch * 100 + at;
                if number >= first_moving && second > 200 {
                    let world = bench.service.world();
                    let newest = world.executions[number].events.len();
                    // It begins with 18 events, of which the last is the first failure.
                    let failures = (newest - 18) / 2 + 1;
                    let shown = seen.steps[0]
                        .retry
                        .as_ref()
                        .map_or(0, |retry| retry.attempt);
                    let lag = &mut unseen[number - first_moving];
                    let current = usize::try_from(shown).unwrap_or_default() >= failures;
                    *lag = if current { 0 } else { *lag + 1 };
                    slowest = slowest.max(*lag);
                }
            }
        }
        for (api, calls) in bench.calls() {
            let allowance = allowances.get_mut(&api).expect("a known API");
            assert!(
                allowance.spend(calls, clock.now()),
                "{api} is over its quota at {second} s"
            );
            *total.entry(api).or_insert(0) += calls;
        }
    }
    println!(
        "summary: watch on 1,000 executions for {SECONDS} s of which {MOVING} move: {total:?} calls, \
         a change is shown after {slowest} s at most"
    );
    assert_eq!(unread_at_the_end, 0, "each one was read");
    // What does not move is looked at once a minute; what moves every four seconds is behind by four
    // of its moves at most, on a busy machine too, whose own time runs beside the test's.
    assert!(slowest <= 16, "a change was shown after {slowest} s");
    assert!(!total.contains_key("DescribeExecution"));
}

#[tokio::test]
async fn a_used_up_quota_is_told_with_its_pause() {
    let none = stateway_provider_api::adapter::Quota {
        burst: 1,
        per_second: 1,
    };
    let bench = Bench::new(|config| {
        config.quotas.insert(Api::DescribeExecution, none);
    })
    .await;
    let id = bench.put("long", "a", long_sequence(20));
    bench.get(&id).await;
    let call = Call::within(Duration::from_millis(100));
    let refused = bench
        .provider
        .get(&call, &id, View::Basic)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Throttled);
    assert!(
        refused
            .retry_after
            .is_some_and(|pause| pause > Duration::from_millis(100))
    );
}

#[tokio::test]
async fn rows_of_a_list_show_what_their_histories_show() {
    let bench = Bench::new(|_| {}).await;
    for number in 0..7 {
        bench.put("one", &number.to_string(), long_sequence(20));
        bench.put("two", &number.to_string(), long_sequence(20));
    }
    "FAILED".clone_into(&mut bench.service.world().executions[3].status);
    let mut cursor = None;
    let mut rows = Vec::new();
    loop {
        let request = ListRequest {
            hints: Hints {
                sub_states: vec![SubState::BackingOff],
                ..Hints::none()
            },
            page_size: 3,
            cursor,
        };
        let page = bench.provider.list(&call(), request).await.expect("a page");
        rows.extend(page.observations);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(rows.len(), 13);
    assert!(rows.iter().all(|row| shown(row) == SubState::BackingOff));
}

#[tokio::test]
async fn express_can_be_started_and_says_what_it_cannot() {
    let bench = Bench::new(|config| config.express = true).await;
    let provider: Arc<dyn Provider> = Arc::new(bench.provider);
    let on: Vec<_> = provider
        .capabilities()
        .iter()
        .filter(|(_, on)| *on)
        .collect();
    let expected = ["start", "definitions", "apply_definition"].map(|name| (name, true));
    assert_eq!(on, expected);
    bench
        .service
        .world()
        .machines
        .insert("kit".to_owned(), json!({}));
    let request = StartRequest {
        definition: StartDefinition::native("kit".to_owned()),
        options: Default::default(),
        execution_id: None,
        input: None,
        labels: stateway_model::Labels::new(),
        delay: None,
        request_id: "r-1".parse().expect("a request id"),
    };
    provider.start(&call(), request).await.expect("started");
    let express = format!("{}:express:kit:r-1:x", mock::HERE);
    let id = ExecutionId::new(express).expect("a name");
    let refused = provider.get(&call(), &id, View::Basic).await.unwrap_err();
    assert_eq!(refused.reason(), "CAPABILITY_NOT_SUPPORTED");
}
