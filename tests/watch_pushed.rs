//! Watches of a collection whose changes the provider pushes: removals however they come about,
//! the order of reports and answers, the bound, slow readers, restarts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_provider_api::Verb;
use stateway_provider_memory::{Clock, Config};
use tonic::Code;

use crate::support::{
    BuiltInRig, EVERYTHING, Puppet, Running, TestGateway, Watching, clock, reason_of,
};

const NAP: &str = "name: nap\nsteps:\n  - name: rest\n    sleep: 1ms\n";

async fn start(gateway: &Running, definition: &str, id: &str) {
    let request = v1::StartExecutionRequest {
        definition: format!("providers/m/definitions/{definition}"),
        execution_id: id.into(),
        ..Default::default()
    };
    let started = gateway.executions().await.start_execution(request).await;
    started.expect("it starts");
}

async fn purge(gateway: &Running, name: &str) {
    let request = v1::PurgeExecutionRequest {
        name: name.into(),
        ..Default::default()
    };
    let purged = gateway.executions().await.purge_execution(request).await;
    purged.expect("it is purged");
}

/// The ids that a new watcher of the collection is shown before the bookmark.
async fn present(gateway: &Running, parent: &str) -> BTreeSet<String> {
    let mut watching = Watching::on(gateway, parent).await;
    let mut present = BTreeSet::new();
    loop {
        let answer = watching.next().await.expect("an answer");
        match answer.execution {
            Some(execution) => {
                let id = execution.name.rsplit('/').next().unwrap_or_default();
                present.insert(id.to_owned());
            }
            None => return present,
        }
    }
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(ToString::to_string).collect()
}

async fn memory(clock: &Clock, change: impl FnOnce(&mut TestGateway, &mut Config)) -> Running {
    let (mut gateway, mut config) = (TestGateway::new(), Config::default());
    change(&mut gateway, &mut config);
    gateway
        .with_memory_config("m", clock, &config)
        .start()
        .await
}

/// Reads on until this execution of the in-memory provider is done.
async fn until_done(watching: &mut Watching, id: &str) {
    let done = (Kind::Modified, id.to_owned(), "DONE".to_owned());
    while watching.change().await != done {}
}

/// Waits until this holds.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(10), "it never holds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_purged_execution_is_removed_and_later_watchers_do_not_see_it() {
    let clock = clock();
    let gateway = memory(&clock, |_, _| {}).await;
    start(&gateway, "hello", "a").await;
    start(&gateway, "long", "b").await;
    let mut watching = Watching::on(&gateway, "providers/m").await;
    for _ in 0..2 {
        watching.expect(Kind::Added).await;
    }
    watching.expect(Kind::Bookmark).await;
    clock.advance(Duration::from_secs(10));
    until_done(&mut watching, "a").await;
    purge(&gateway, "providers/m/executions/a").await;
    loop {
        let (kind, id, _) = watching.change().await;
        if id == "a" {
            assert_eq!(kind, Kind::Removed);
            break;
        }
    }
    assert_eq!(present(&gateway, "providers/m").await, ids(&["b"]));
}

#[tokio::test]
async fn a_purge_of_many_reaches_every_watcher_and_leaves_no_ghosts() {
    const MANY: usize = 40;
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    let mut watching = Watching::on(&rig.gateway, "providers/b").await;
    watching.expect(Kind::Bookmark).await;
    let mut merged = Watching::on(&rig.gateway, "providers/-").await;
    merged.expect(Kind::Bookmark).await;
    for number in 0..MANY {
        rig.begin("nap", &format!("e{number}"), "ada", json!({}))
            .await;
    }
    for number in 0..MANY {
        let done = |view: &v1::Execution| view.native_state == "completed";
        rig.until(&format!("e{number}"), done).await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let request = v1::PurgeExecutionsRequest {
        parent: "providers/b".into(),
        filter: format!("end_time < {}", jiff::Timestamp::now()),
        force: true,
    };
    let purged = rig.admin().await.purge_executions(request).await;
    assert_eq!(
        purged.expect("it purges").into_inner().purge_count,
        i64::try_from(MANY).unwrap()
    );
    for watching in [&mut watching, &mut merged] {
        let mut removed = BTreeSet::new();
        while removed.len() < MANY {
            let (kind, id, _) = watching.change().await;
            if kind == Kind::Removed {
                assert!(removed.insert(id), "removed twice");
            }
        }
    }
    for parent in ["providers/b", "providers/-"] {
        assert_eq!(present(&rig.gateway, parent).await, BTreeSet::new());
    }
}

#[tokio::test]
async fn an_execution_that_makes_room_for_another_is_removed() {
    let clock = clock();
    let gateway = memory(&clock, |_, config| config.max_executions = 2).await;
    start(&gateway, "hello", "old").await;
    start(&gateway, "long", "kept").await;
    clock.advance(Duration::from_secs(10));
    let mut watching = Watching::on(&gateway, "providers/m").await;
    for _ in 0..2 {
        watching.expect(Kind::Added).await;
    }
    watching.expect(Kind::Bookmark).await;
    start(&gateway, "long", "new").await;
    let mut changes = Vec::new();
    while changes.len() < 2 {
        let (kind, id, _) = watching.change().await;
        if kind != Kind::Modified {
            changes.push((kind, id));
        }
    }
    changes.sort();
    let expected = [
        (Kind::Added, "new".to_owned()),
        (Kind::Removed, "old".to_owned()),
    ];
    assert_eq!(changes, expected);
    assert_eq!(
        present(&gateway, "providers/m").await,
        ids(&["kept", "new"])
    );
}

#[tokio::test]
async fn a_collection_that_is_pushed_is_not_listed_as_well() {
    let puppet = Puppet::pushing();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    puppet.show("x", "SUCCEEDED");
    assert_eq!(watching.change().await.2, "SUCCEEDED");
    assert_eq!(
        (puppet.asked(Verb::List), puppet.asked(Verb::WatchAll)),
        (0, 1)
    );
}

#[tokio::test]
async fn an_answer_that_is_late_does_not_replace_what_was_pushed_since() {
    let puppet = Puppet::pushing();
    puppet.show("x", "RUNNING");
    puppet.late_cancels(Duration::from_millis(300));
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    let cancel = v1::CancelExecutionRequest {
        name: "providers/p/executions/x".into(),
        ..Default::default()
    };
    let answer = gateway.executions().await.cancel_execution(cancel).await;
    assert_eq!(
        answer.expect("it answers").into_inner().native_state,
        "RUNNING"
    );
    assert_eq!(watching.change().await.2, "ABORTED");
    // Nothing between the two: the late answer was no change.
    puppet.show("y", "RUNNING");
    assert_eq!(watching.change().await.1, "y");
}

#[tokio::test]
async fn a_provider_that_lost_track_is_watched_again_and_what_went_meanwhile_is_removed() {
    let puppet = Puppet::pushing();
    for id in ["gone", "stays"] {
        puppet.show(id, "RUNNING");
    }
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    for _ in 0..2 {
        watching.expect(Kind::Added).await;
    }
    watching.expect(Kind::Bookmark).await;
    puppet.lose_track();
    puppet.remove("gone");
    puppet.show("new", "RUNNING");
    let mut changes = vec![watching.change().await, watching.change().await];
    changes.sort();
    let change = |kind, id: &str| (kind, id.to_owned(), "RUNNING".to_owned());
    let expected = [change(Kind::Added, "new"), change(Kind::Removed, "gone")];
    assert_eq!(changes, expected);
}

#[tokio::test]
async fn more_executions_than_a_watch_follows_end_the_watch_and_say_so() {
    let clock = clock();
    let gateway = memory(&clock, |gateway, _| {
        gateway.settings.watch.max_watched_executions = 2;
    })
    .await;
    start(&gateway, "hello", "a").await;
    start(&gateway, "long", "b").await;
    let mut watching = Watching::on(&gateway, "providers/m").await;
    let mut merged = Watching::on(&gateway, "providers/-").await;
    for watching in [&mut watching, &mut merged] {
        watching.expect(Kind::Added).await;
        watching.expect(Kind::Added).await;
        watching.expect(Kind::Bookmark).await;
    }
    start(&gateway, "long", "c").await;
    // A watch of this provider ends.
    let status = loop {
        if let Err(status) = watching.next().await {
            break status;
        }
    };
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "TOO_MANY_EXECUTIONS");
    // A watch of all providers continues without this one.
    while merged.next().await.expect("an answer").kind() != Kind::Resync {}
    let bookmark = merged.expect(Kind::Bookmark).await;
    assert_eq!(bookmark.unreachable, ["providers/m"]);
    let request = v1::WatchExecutionsRequest {
        parent: "providers/m".into(),
        ..Default::default()
    };
    let refused = Watching::open(&gateway, request).await;
    let refused = refused.err().expect("a refusal");
    assert_eq!(reason_of(&refused), "TOO_MANY_EXECUTIONS");
    // Single executions can be watched, and the collection again once it is smaller.
    Watching::on(&gateway, "providers/m/executions/c")
        .await
        .expect(Kind::Added)
        .await;
    clock.advance(Duration::from_secs(10));
    purge(&gateway, "providers/m/executions/a").await;
    assert_eq!(present(&gateway, "providers/m").await, ids(&["b", "c"]));
}

/// A watch of this provider with this filter.
async fn filtered(
    gateway: &Running,
    parent: &str,
    filter: &str,
) -> Result<Watching, tonic::Status> {
    let request = v1::WatchExecutionsRequest {
        parent: parent.into(),
        filter: filter.into(),
        ..Default::default()
    };
    Watching::open(gateway, request).await
}

#[tokio::test]
async fn the_bound_of_a_watch_is_counted_after_its_filter() {
    let clock = clock();
    let gateway = memory(&clock, |gateway, _| {
        gateway.settings.watch.max_watched_executions = 2;
    })
    .await;
    for id in ["a", "b"] {
        start(&gateway, "long", id).await;
    }
    let mut before = filtered(&gateway, "providers/m", "labels.team = red")
        .await
        .expect("it opens");
    before.expect(Kind::Bookmark).await;
    let red = v1::StartExecutionRequest {
        definition: "providers/m/definitions/long".into(),
        execution_id: "red".into(),
        labels: [("team".into(), "red".into())].into(),
        ..Default::default()
    };
    let mut executions = gateway.executions().await;
    executions.start_execution(red).await.expect("it starts");
    // A watch that was open continues with the executions that its filter admits.
    while before.next().await.expect("an answer").kind() != Kind::Resync {}
    let seen = before.expect(Kind::Added).await.execution.expect("one");
    assert_eq!(seen.name, "providers/m/executions/red");
    before.expect(Kind::Bookmark).await;
    // A new one opens, of one provider and of all.
    for parent in ["providers/m", "providers/-"] {
        let opened = filtered(&gateway, parent, "labels.team = red").await;
        let mut opened = opened.expect("it opens");
        let seen = opened.expect(Kind::Added).await.execution.expect("one");
        assert_eq!(seen.name, "providers/m/executions/red");
        let bookmark = opened.expect(Kind::Bookmark).await;
        assert_eq!(bookmark.unreachable, Vec::<String>::new());
    }
    let other = filtered(&gateway, "providers/m", "definition = hello").await;
    let mut other = other.expect("it opens");
    other.expect(Kind::Bookmark).await;
    // What comes later is reported as before.
    start(&gateway, "hello", "d").await;
    let change = other.change().await;
    assert_eq!((change.0, change.1.as_str()), (Kind::Added, "d"));
    // Too many of those that the filter admits are refused.
    for filter in ["", "definition = long", "labels.team:* AND id = red"] {
        let refused = filtered(&gateway, "providers/m", filter).await;
        let refused = refused.err().expect("a refusal");
        assert_eq!(reason_of(&refused), "TOO_MANY_EXECUTIONS", "{filter}");
    }
}

#[tokio::test]
async fn a_slow_reader_of_a_pushed_collection_resyncs_and_has_no_ghosts() {
    let puppet = Puppet::pushing();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.watch.buffer = 4;
    let gateway = gateway.start().await;
    let mut slow = Watching::on(&gateway, "providers/p").await;
    slow.expect(Kind::Added).await;
    slow.expect(Kind::Bookmark).await;
    let mut fast = Watching::on(&gateway, "providers/p").await;
    fast.expect(Kind::Added).await;
    let fat = "x".repeat(200_000);
    for number in 0..40 {
        puppet.show("x", &format!("{fat}{number}"));
        while !fast.change().await.2.ends_with(&format!("x{number}")) {}
    }
    puppet.show("y", "RUNNING");
    puppet.remove("x");
    while fast.change().await.0 != Kind::Removed {}
    while slow.next().await.expect("an answer").kind() != Kind::Resync {}
    let mut shown = BTreeSet::new();
    loop {
        let answer = slow.next().await.expect("an answer");
        match answer.execution {
            Some(execution) => shown.insert(execution.name),
            None => break,
        };
    }
    assert_eq!(shown, ids(&["providers/p/executions/y"]));
}

#[tokio::test]
async fn after_a_restart_an_old_cursor_is_refused_and_the_present_set_has_no_ghosts() {
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    for id in ["a", "b"] {
        rig.begin("nap", id, "ada", json!({})).await;
        let done = |view: &v1::Execution| view.native_state == "completed";
        rig.until(id, done).await;
    }
    let mut watching = Watching::on(&rig.gateway, "providers/b").await;
    for _ in 0..2 {
        watching.expect(Kind::Added).await;
    }
    let cursor = watching.expect(Kind::Bookmark).await.cursor;
    let restarted = TestGateway::new()
        .with_engine("b", rig.built_in())
        .start()
        .await;
    // The same engine behind both: a removal through one gateway reaches the watchers of the other.
    purge(&restarted, "providers/b/executions/a").await;
    while watching.change().await.0 != Kind::Removed {}
    let request = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        filter: EVERYTHING.into(),
        cursor,
        ..Default::default()
    };
    let expired = Watching::open(&restarted, request).await;
    let expired = expired.err().expect("a refusal");
    assert_eq!(expired.code(), Code::OutOfRange);
    assert_eq!(reason_of(&expired), "CURSOR_EXPIRED");
    assert_eq!(present(&restarted, "providers/b").await, ids(&["b"]));
}

#[tokio::test]
async fn a_watched_collection_shrinks_in_memory_too() {
    let clock = clock();
    let gateway = memory(&clock, |gateway, _| {
        gateway.settings.watch.max_watched_executions = 3;
    })
    .await;
    let mut watching = Watching::on(&gateway, "providers/m").await;
    watching.expect(Kind::Bookmark).await;
    // Many more than are followed at a time, one after the other: each leaves before the next.
    for number in 0..12 {
        start(&gateway, "hello", &format!("e{number}")).await;
        clock.advance(Duration::from_secs(10));
        let name = format!("providers/m/executions/e{number}");
        purge(&gateway, &name).await;
        while watching.change().await.0 != Kind::Removed {}
    }
    until(async || present(&gateway, "providers/m").await.is_empty()).await;
}

#[tokio::test]
async fn a_purged_execution_cannot_be_watched_although_others_still_do() {
    let clock = clock();
    let gateway = memory(&clock, |_, _| {}).await;
    start(&gateway, "hello", "a").await;
    let name = "providers/m/executions/a";
    let mut watching = Watching::on(&gateway, name).await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    clock.advance(Duration::from_secs(10));
    watching.expect(Kind::Modified).await;
    purge(&gateway, name).await;
    watching.expect(Kind::Removed).await;
    let request = v1::WatchExecutionsRequest {
        names: vec![name.into()],
        ..Default::default()
    };
    let refused = Watching::open(&gateway, request).await;
    let refused = refused.err().expect("a refusal");
    assert_eq!(reason_of(&refused), "EXECUTION_NOT_FOUND");
    // Started again under the same id, it is reported again.
    start(&gateway, "long", "a").await;
    let again = watching.change().await;
    assert_eq!((again.0, again.2.as_str()), (Kind::Added, "ACTIVE"));
}

#[tokio::test]
async fn finished_executions_are_followed_only_if_the_filter_asks_for_them() {
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    rig.begin("nap", "done", "ada", json!({})).await;
    let done = |view: &v1::Execution| view.native_state == "completed";
    rig.until("done", done).await;
    rig.begin("gate", "open", "ada", json!({})).await;
    let watch = async |filter: &str| {
        let request = v1::WatchExecutionsRequest {
            parent: "providers/b".into(),
            filter: filter.into(),
            ..Default::default()
        };
        let mut watching = Watching::open(&rig.gateway, request)
            .await
            .expect("it opens");
        let mut shown = BTreeSet::new();
        loop {
            let answer = watching.next().await.expect("an answer");
            let Some(execution) = answer.execution else {
                return (watching, shown);
            };
            let id = execution.name.rsplit('/').next().unwrap_or_default();
            shown.insert(id.to_owned());
        }
    };
    let (mut open, shown) = watch("").await;
    assert_eq!(shown, ids(&["open"]));
    let (mut succeeded, shown) = watch("sub_state = SUCCEEDED").await;
    assert_eq!(shown, ids(&["done"]));
    let (_, shown) = watch(EVERYTHING).await;
    assert_eq!(shown, ids(&["done", "open"]));
    // The end of an execution is reported to both.
    let signal = v1::SignalExecutionRequest {
        name: "providers/b/executions/open".into(),
        signal: "go".into(),
        ..Default::default()
    };
    let mut executions = rig.gateway.executions().await;
    executions
        .signal_execution(signal)
        .await
        .expect("signalled");
    let end = loop {
        let change = open.change().await;
        if change.2 == "completed" {
            break change;
        }
    };
    assert_eq!(end, (Kind::Modified, "open".into(), "completed".into()));
    let end = succeeded.change().await;
    assert_eq!(end, (Kind::Added, "open".into(), "completed".into()));
    // Afterwards the execution is no part of the open ones.
    let (_, shown) = watch("").await;
    assert_eq!(shown, ids(&[]));
}
