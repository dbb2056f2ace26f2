//! Watches: the current set, a bookmark, changes with cursors; shared polls; slow readers.

use std::time::Duration;

use stateway_client::v1::WatchExecutionsRequest;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_model::ExecutionId;
use stateway_provider_api::{ErrorKind, NativeState, Observation, ObservedDefinition, Verb};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{EVERYTHING, Puppet, TestGateway, Watching, clock, reason_of};

const ONE: &str = "providers/p/executions/x";

async fn polled() -> (Puppet, TestGateway) {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet);
    (puppet, gateway)
}

#[tokio::test]
async fn first_the_present_set_then_a_bookmark_then_changes() {
    let (puppet, gateway) = polled().await;
    puppet.show("y", "SUCCEEDED");
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    let mut present = vec![watching.change().await, watching.change().await];
    present.sort_by(|a, b| a.1.cmp(&b.1));
    let added = |id: &str, native: &str| (Kind::Added, id.to_owned(), native.to_owned());
    assert_eq!(present, [added("x", "RUNNING"), added("y", "SUCCEEDED")]);
    watching.expect(Kind::Bookmark).await;
    puppet.show("x", "FAILED");
    assert_eq!(
        watching.change().await,
        (Kind::Modified, "x".into(), "FAILED".into())
    );
    puppet.show("z", "RUNNING");
    assert_eq!(watching.change().await, added("z", "RUNNING"));
    puppet.remove("y");
    assert_eq!(
        watching.change().await,
        (Kind::Removed, "y".into(), "SUCCEEDED".into())
    );
}

#[tokio::test]
async fn a_reader_resumes_from_its_cursor_without_losing_or_repeating() {
    let (puppet, gateway) = polled().await;
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    let cursor = watching.expect(Kind::Bookmark).await.cursor;
    drop(watching);
    puppet.show("y", "RUNNING");
    let mut other = Watching::on(&gateway, "providers/p").await;
    while other.change().await.1 != "y" {}
    let request = WatchExecutionsRequest {
        parent: "providers/p".into(),
        filter: EVERYTHING.into(),
        cursor,
        ..Default::default()
    };
    let mut resumed = Watching::open(&gateway, request).await.expect("it resumes");
    assert_eq!(
        resumed.change().await,
        (Kind::Added, "y".into(), "RUNNING".into())
    );
    puppet.show("x", "FAILED");
    assert_eq!(
        resumed.change().await,
        (Kind::Modified, "x".into(), "FAILED".into())
    );
}

#[tokio::test]
async fn a_cursor_that_is_too_old_or_foreign_is_out_of_range() {
    let (puppet, mut gateway) = polled().await;
    gateway.settings.watch.buffer = 2;
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    let old = watching.expect(Kind::Bookmark).await.cursor;
    for number in 0..4 {
        puppet.show(&format!("n{number}"), "RUNNING");
        watching.change().await;
    }
    let resume = |parent: &str, cursor: &str| WatchExecutionsRequest {
        parent: parent.into(),
        filter: EVERYTHING.into(),
        cursor: cursor.into(),
        ..Default::default()
    };
    for request in [
        resume("providers/p", &old),
        resume("providers/-", &old),
        resume("providers/p", "x"),
    ] {
        let status = Watching::open(&gateway, request)
            .await
            .err()
            .expect("a refusal");
        assert_eq!(status.code(), Code::OutOfRange);
        assert_eq!(reason_of(&status), "CURSOR_EXPIRED");
    }
}

#[tokio::test]
async fn a_filter_turns_changes_into_comings_and_goings() {
    let (puppet, gateway) = polled().await;
    let gateway = gateway.start().await;
    let request = WatchExecutionsRequest {
        parent: "providers/-".into(),
        filter: "sub_state = failed".into(),
        ..Default::default()
    };
    let mut watching = Watching::open(&gateway, request).await.expect("it opens");
    watching.expect(Kind::Bookmark).await;
    puppet.show("x", "FAILED");
    assert_eq!(
        watching.change().await,
        (Kind::Added, "x".into(), "FAILED".into())
    );
    puppet.show("x", "RUNNING");
    assert_eq!(
        watching.change().await,
        (Kind::Removed, "x".into(), "RUNNING".into())
    );
}

#[tokio::test]
async fn a_watch_is_filtered_by_the_short_name_of_a_definition() {
    let (puppet, gateway) = polled().await;
    let of = |id: &str, definition: &str| {
        let id = ExecutionId::new(id).expect("an id");
        let mut seen = Observation::new(id, NativeState::new("RUNNING"));
        seen.definition = Some(ObservedDefinition::Native(definition.to_owned()));
        puppet.show_observation(seen);
    };
    of("wanted", "Order/run");
    of("other", "Order/cancel");
    let gateway = gateway.start().await;
    let added = |id: &str| (Kind::Added, id.to_owned(), "RUNNING".to_owned());
    let mut watches = Vec::new();
    for filter in ["definition = Order/run", "definition = p/Order/run"] {
        let request = WatchExecutionsRequest {
            parent: "providers/p".into(),
            filter: filter.into(),
            ..Default::default()
        };
        let mut watching = Watching::open(&gateway, request).await.expect("it opens");
        assert_eq!(watching.change().await, added("wanted"));
        watching.expect(Kind::Bookmark).await;
        watches.push(watching);
    }
    of("another-other", "Order/cancel");
    of("another-wanted", "Order/run");
    for watching in &mut watches {
        assert_eq!(watching.change().await, added("another-wanted"));
    }
}

#[tokio::test]
async fn many_readers_of_one_execution_share_one_poll() {
    let (puppet, mut gateway) = polled().await;
    gateway.settings.default_upstream.max_poll_interval = Duration::from_millis(200);
    gateway.settings.default_upstream.min_poll_interval = Duration::from_millis(200);
    let gateway = gateway.start().await;
    let mut readers = Vec::new();
    for _ in 0..50 {
        let mut reader = Watching::on(&gateway, ONE).await;
        reader.expect(Kind::Added).await;
        reader.expect(Kind::Bookmark).await;
        readers.push(reader);
    }
    let before = puppet.asked(Verb::Get);
    puppet.show("x", "SUCCEEDED");
    for reader in &mut readers {
        assert_eq!(
            reader.change().await,
            (Kind::Modified, "x".into(), "SUCCEEDED".into())
        );
    }
    let polls = puppet.asked(Verb::Get) - before;
    assert!(
        polls <= 5,
        "{polls} polls for one change seen by 50 readers"
    );
}

#[tokio::test]
async fn many_watched_executions_are_polled_in_batches() {
    let puppet = Puppet::new();
    for number in 0..120 {
        puppet.show(&format!("e{number}"), "RUNNING");
    }
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut readers = Vec::new();
    for number in 0..120 {
        let parent = format!("providers/p/executions/e{number}");
        let mut reader = Watching::on(&gateway, &parent).await;
        reader.expect(Kind::Added).await;
        readers.push(reader);
    }
    let filled = async {
        let mut turn = 0;
        while !puppet.batches().contains(&100) {
            // What moves is looked at again soon: so all of them are due at the same time, however
            // slowly the watches began.
            turn += 1;
            for number in 0..120 {
                puppet.show(&format!("e{number}"), &format!("RUNNING{turn}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), filled)
        .await
        .expect("a full batch");
    assert!(puppet.batches().iter().all(|size| *size <= 100));
}

#[tokio::test]
async fn a_slow_reader_is_told_to_resync_and_then_has_everything() {
    let (puppet, mut gateway) = polled().await;
    gateway.settings.watch.buffer = 4;
    let gateway = gateway.start().await;
    let mut slow = Watching::on(&gateway, "providers/p").await;
    slow.expect(Kind::Added).await;
    slow.expect(Kind::Bookmark).await;
    // Enough changes to fill the transport's window and then the topic's buffer.
    let mut fast = Watching::on(&gateway, "providers/p").await;
    fast.expect(Kind::Added).await;
    let fat = "x".repeat(200_000);
    for number in 0..40 {
        puppet.show("x", &format!("{fat}{number}"));
        while !fast.change().await.2.ends_with(&format!("x{number}")) {}
    }
    let mut kinds = vec![Kind::Bookmark];
    let last = loop {
        let answer = slow.next().await.expect("an answer");
        kinds.push(answer.kind());
        if let Some(execution) = answer.execution.filter(|e| e.native_state.ends_with("x39")) {
            break execution;
        }
    };
    let resync = kinds
        .iter()
        .position(|kind| *kind == Kind::Resync)
        .expect("it is told");
    // A bookmark there would carry a cursor beyond the changes that were lost.
    assert_eq!(kinds[resync - 1], Kind::Modified);
    slow.expect(Kind::Bookmark).await;
    assert!(last.name.ends_with("/x"));
}

#[tokio::test]
async fn a_quiet_watch_sends_bookmarks_that_name_who_does_not_answer() {
    let (puppet, mut gateway) = polled().await;
    gateway.settings.watch.heartbeat = Duration::from_millis(30);
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    watching.expect(Kind::Added).await;
    assert!(watching.expect(Kind::Bookmark).await.unreachable.is_empty());
    puppet.fail(ErrorKind::Unavailable, None);
    while watching.expect(Kind::Bookmark).await.unreachable != ["providers/p"] {}
    puppet.recover();
    let back = async { while !watching.next().await.unwrap().unreachable.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(20), back)
        .await
        .expect("it comes back");
}

#[tokio::test]
async fn a_collection_that_comes_up_unreachable_is_named_and_followed_later() {
    let (puppet, mut gateway) = polled().await;
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_millis(50);
    puppet.fail(ErrorKind::Unavailable, None);
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    assert_eq!(
        watching.expect(Kind::Bookmark).await.unreachable,
        ["providers/p"]
    );
    puppet.recover();
    assert_eq!(
        watching.change().await,
        (Kind::Added, "x".into(), "RUNNING".into())
    );
}

#[tokio::test]
async fn watching_what_does_not_exist_is_not_found() {
    let (_, gateway) = polled().await;
    let gateway = gateway.start().await;
    let request = by_names(&["providers/p/executions/nothing"]);
    let status = Watching::open(&gateway, request)
        .await
        .err()
        .expect("a refusal");
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::NotFound, "EXECUTION_NOT_FOUND".into())
    );
}

#[tokio::test]
async fn no_more_watches_than_allowed() {
    let (_, mut gateway) = polled().await;
    gateway.settings.watch.max_streams = 1;
    let gateway = gateway.start().await;
    let first = Watching::on(&gateway, ONE).await;
    let request = by_names(&[ONE]);
    let status = Watching::open(&gateway, request.clone())
        .await
        .err()
        .expect("a refusal");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&status), "TOO_MANY_WATCHES");
    drop(first);
    let freed = async { while Watching::open(&gateway, request.clone()).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(5), freed)
        .await
        .expect("the place is free again");
}

#[tokio::test]
async fn a_pushing_provider_is_followed_without_polling() {
    let clock = clock();
    let gateway = TestGateway::new().with_memory("m", &clock).start().await;
    let start = stateway_client::v1::StartExecutionRequest {
        definition: "providers/m/definitions/flaky".into(),
        ..Default::default()
    };
    let name = gateway
        .executions()
        .await
        .start_execution(start)
        .await
        .unwrap()
        .into_inner()
        .name;
    let mut watching = Watching::on(&gateway, &name).await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    clock.advance(Duration::from_millis(1_500));
    let backing_off = watching
        .expect(Kind::Modified)
        .await
        .execution
        .expect("an execution");
    assert_eq!(
        backing_off.sub_state(),
        stateway_client::v1::SubState::BackingOff
    );
    let retry = backing_off.retry.expect("retry figures");
    assert_eq!((retry.attempt, retry.max_attempt_count), (1, Some(5)));
    assert!(retry.next_attempt_time.is_some());
}

#[tokio::test]
async fn an_execution_that_a_lagging_list_leaves_out_is_not_removed() {
    let (puppet, gateway) = polled().await;
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    puppet.unlist("x", true);
    let lists = puppet.asked(Verb::List);
    while puppet.asked(Verb::List) < lists + 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    puppet.show("y", "RUNNING");
    assert_eq!(
        watching.change().await,
        (Kind::Added, "y".into(), "RUNNING".into())
    );
    // What the list does not show is read by itself, so that its changes are not missed either.
    puppet.show("x", "FAILED");
    assert_eq!(
        watching.change().await,
        (Kind::Modified, "x".into(), "FAILED".into())
    );
    puppet.remove("x");
    assert_eq!(
        watching.change().await,
        (Kind::Removed, "x".into(), "FAILED".into())
    );
}

#[tokio::test]
async fn a_list_that_shows_a_finished_execution_as_open_is_not_believed() {
    let (puppet, gateway) = polled().await;
    puppet.slow_lists(Duration::from_millis(300));
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    // A list is under way that shows the execution as it was when the list began.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let cancel = stateway_client::v1::CancelExecutionRequest {
        name: ONE.into(),
        ..Default::default()
    };
    let cancelled = gateway.executions().await.cancel_execution(cancel).await;
    cancelled.expect("it is cancelled");
    assert_eq!(watching.change().await.2, "ABORTED");
    puppet.show("y", "RUNNING");
    assert_eq!(watching.change().await.1, "y");
}

#[tokio::test]
async fn opening_a_watch_ends_by_the_deadline_of_the_call() {
    let (puppet, mut gateway) = polled().await;
    // Neither the engine nor another limit answers while the test waits.
    let never = Duration::from_secs(3_000);
    puppet.slow_lists(never);
    gateway.settings.default_upstream.timeout = never;
    let gateway = gateway.start().await;
    let mut request = tonic::Request::new(WatchExecutionsRequest {
        parent: "providers/p".into(),
        ..Default::default()
    });
    // As a client that leaves it to the gateway to keep the deadline.
    request
        .metadata_mut()
        .insert("grpc-timeout", "500m".parse().expect("a header"));
    let mut client = gateway.executions().await;
    let opened = client.watch_executions(request);
    let opened = tokio::time::timeout(Duration::from_secs(60), opened).await;
    let status = opened.expect("the deadline").expect_err("a refusal");
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

fn by_names(names: &[&str]) -> WatchExecutionsRequest {
    WatchExecutionsRequest {
        names: names.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_watch_by_names_reports_these_executions_and_no_others() {
    let (puppet, gateway) = polled().await;
    puppet.show("y", "RUNNING");
    puppet.show("other", "RUNNING");
    let gateway = gateway.start().await;
    let names = [ONE, "providers/p/executions/y", "providers/p/executions/no"];
    let mut watching = Watching::open(&gateway, by_names(&names))
        .await
        .expect("it opens");
    let mut present = vec![watching.change().await.1, watching.change().await.1];
    present.sort();
    assert_eq!(present, ["x", "y"]);
    let bookmark = watching.expect(Kind::Bookmark).await;
    assert_eq!(bookmark.unreachable, [""; 0]);
    puppet.show("other", "FAILED");
    puppet.show("y", "FAILED");
    assert_eq!(
        watching.change().await,
        (Kind::Modified, "y".into(), "FAILED".into())
    );
    let resume = WatchExecutionsRequest {
        cursor: bookmark.cursor,
        ..by_names(&names)
    };
    let mut resumed = Watching::open(&gateway, resume).await.expect("it resumes");
    assert_eq!(
        resumed.change().await,
        (Kind::Modified, "y".into(), "FAILED".into())
    );
    puppet.remove("x");
    for watching in [&mut watching, &mut resumed] {
        let removed = watching.change().await;
        assert_eq!(removed, (Kind::Removed, "x".into(), "RUNNING".into()));
    }
}

#[tokio::test]
async fn a_watch_by_names_is_bounded_and_has_no_parent_and_no_filter() {
    let (_, gateway) = polled().await;
    let gateway = gateway.start().await;
    let many: Vec<String> = (0..101)
        .map(|number| format!("providers/p/executions/{number}"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let with_parent = WatchExecutionsRequest {
        parent: "providers/p".into(),
        ..by_names(&[ONE])
    };
    let with_filter = WatchExecutionsRequest {
        filter: "sub_state = running".into(),
        ..by_names(&[ONE])
    };
    let one_as_parent = WatchExecutionsRequest {
        parent: ONE.into(),
        ..Default::default()
    };
    for (request, field) in [
        (by_names(&many), "names"),
        (by_names(&["x"]), "names"),
        (with_parent, "names"),
        (with_filter, "filter"),
        (one_as_parent, "parent"),
        (WatchExecutionsRequest::default(), "parent"),
    ] {
        let refused = Watching::open(&gateway, request).await;
        let refused = refused.err().expect("a refusal");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let details = refused.get_error_details();
        let violations = details.bad_request().expect("a violation");
        assert_eq!(violations.field_violations[0].field, field, "{refused:?}");
    }
}
