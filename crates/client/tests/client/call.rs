//! How calls are made: retries, request ids, deadlines, pages, errors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::fake::{Script, serve};
use futures::{StreamExt, TryStreamExt};
use stateway_client::{
    AdoptDefinition, Call, Cancel, Client, Code, Get, List, Pause, Purge, Resume, RetryFrom,
    RetryNow, Signal, Start, v1,
};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

async fn client(script: &Arc<Script>) -> Client {
    Client::connect(&format!("http://{}", serve(script).await))
        .await
        .unwrap()
}

fn execution(name: &str) -> v1::Execution {
    v1::Execution {
        name: name.into(),
        ..Default::default()
    }
}

fn answers(list: Vec<Result<v1::Execution, Status>>) -> Arc<Script> {
    let script = Arc::<Script>::default();
    *script.executions.lock().unwrap() = list.into();
    script
}

#[tokio::test]
async fn unavailable_is_tried_again_under_the_same_request_id() {
    let down = || Err(Status::unavailable("starting"));
    let script = answers(vec![down(), down(), Ok(execution("a"))]);
    script.is_idempotent.store(true, Ordering::Relaxed);
    let started = client(&script)
        .await
        .start(Start::new("definitions/d"))
        .await
        .unwrap();
    assert_eq!(started.name, "a");
    let ids = script.asked();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0].len(), 36, "a UUID is made where none was given");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_start_or_a_signal_that_could_happen_twice_is_not_tried_again() {
    let name = "providers/p/executions/a";
    for start in [
        Start::new("definitions/d"),
        Start::new("providers/p/definitions/d"),
    ] {
        let script = answers(vec![Err(Status::unavailable("cut off"))]);
        let error = client(&script).await.start(start).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.hint().contains("may have been carried out"));
        assert_eq!(script.asked().len(), 1);
    }
    let script = answers(vec![Err(Status::unavailable("cut off"))]);
    let signal = Signal::new(name);
    client(&script).await.signal(signal).await.unwrap_err();
    assert_eq!(script.asked().len(), 1);
    // Cancelling twice is cancelling once.
    let script = answers(vec![
        Err(Status::unavailable("cut off")),
        Ok(execution("a")),
    ]);
    client(&script)
        .await
        .cancel(Cancel::new(name))
        .await
        .unwrap();
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test]
async fn a_retry_is_tried_again_only_where_the_provider_recognises_it() {
    macro_rules! tries {
        ($method:ident($call:ident), $is_idempotent:expr) => {{
            let down = Err(Status::unavailable("cut off"));
            let script = answers(vec![down, Ok(execution("a"))]);
            script
                .is_idempotent
                .store($is_idempotent, Ordering::Relaxed);
            let call = $call::new("providers/p/executions/a");
            let done = client(&script).await.$method(call).await;
            assert_eq!(done.is_ok(), $is_idempotent, stringify!($method));
            script.asked().len()
        }};
    }
    assert_eq!(tries!(retry_now(RetryNow), true), 2);
    assert_eq!(tries!(retry_now(RetryNow), false), 1);
    assert_eq!(tries!(retry_from(RetryFrom), true), 2);
    assert_eq!(tries!(retry_from(RetryFrom), false), 1);
}

fn not_found(reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "stateway.dev", HashMap::new());
    Status::with_error_details(Code::NotFound, "no such thing", details)
}

#[tokio::test]
async fn a_purge_that_lost_its_answer_is_a_success_when_the_execution_is_gone() {
    let gone = || Err(not_found("EXECUTION_NOT_FOUND"));
    let purge = || Purge::new("providers/p/executions/a");
    let script = answers(vec![Err(Status::unavailable("cut off")), gone()]);
    client(&script).await.purge(purge()).await.unwrap();
    assert_eq!(script.asked().len(), 2);
    // The first try says that the execution does not exist.
    let script = answers(vec![gone()]);
    let error = client(&script).await.purge(purge()).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    // Something else was not found.
    let lost = Err(Status::unavailable("cut off"));
    let script = answers(vec![lost, Err(not_found("PROVIDER_NOT_FOUND"))]);
    let error = client(&script).await.purge(purge()).await.unwrap_err();
    assert_eq!(error.reason(), "PROVIDER_NOT_FOUND");
}

#[tokio::test]
async fn a_caller_may_want_a_start_at_least_once() {
    let script = answers(vec![
        Err(Status::unavailable("cut off")),
        Ok(execution("a")),
    ]);
    let start = Start::new("definitions/d").at_least_once();
    client(&script).await.start(start).await.unwrap();
    let ids = script.asked();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn an_event_without_an_id_is_the_same_event_in_every_try() {
    let script = Arc::<Script>::default();
    let down = || Err(Status::unavailable("starting"));
    let told = Ok(v1::PublishEventResponse::default());
    *script.events.lock().unwrap() = vec![down(), down(), told].into();
    let publish = Call::from_message(v1::PublishEventRequest::default());
    client(&script).await.publish(publish).await.unwrap();
    let ids = script.asked();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0].len(), 36);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn two_writes_have_two_request_ids_and_a_chosen_one_is_kept() {
    let script = answers(vec![
        Ok(execution("a")),
        Ok(execution("b")),
        Ok(execution("c")),
    ]);
    let client = client(&script).await;
    for start in [
        Start::new("definitions/d"),
        Start::new("definitions/d"),
        Start::new("definitions/d").request_id("mine"),
    ] {
        client.start(start).await.unwrap();
    }
    let ids = script.asked();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[2], "mine");
}

#[tokio::test]
async fn nothing_but_unavailable_is_tried_again() {
    for code in [
        Code::Aborted,
        Code::DeadlineExceeded,
        Code::Internal,
        Code::ResourceExhausted,
    ] {
        let script = answers(vec![Err(Status::new(code, "no"))]);
        let error = client(&script).await.get(Get::new("a")).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(script.asked().len(), 1, "{code:?}");
    }
}

#[tokio::test]
async fn tries_are_bounded() {
    let script = answers((0..10).map(|_| Err(Status::unavailable("down"))).collect());
    let error = client(&script).await.get(Get::new("a")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn a_caller_may_want_no_second_try() {
    let script = answers(vec![Err(Status::unavailable("down"))]);
    let client = client(&script).await.without_retries();
    client.start(Start::new("definitions/d")).await.unwrap_err();
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test]
async fn a_write_with_an_etag_is_not_tried_again() {
    macro_rules! once {
        ($($method:ident($call:ident);)+) => { $(
            let script = answers(vec![Err(Status::unavailable("down"))]);
            let call = $call::new("providers/p/executions/a").etag("1");
            let error = client(&script).await.$method(call).await.unwrap_err();
            assert_eq!(error.code(), Code::Unavailable);
            assert_eq!(script.asked().len(), 1, stringify!($method));
        )+ };
    }
    once! {
        signal(Signal);
        cancel(Cancel);
        pause(Pause);
        resume(Resume);
        retry_now(RetryNow);
        retry_from(RetryFrom);
        adopt_definition(AdoptDefinition);
        purge(Purge);
    }
}

#[tokio::test]
async fn a_write_with_an_empty_etag_is_one_without() {
    let script = answers(vec![
        Err(Status::unavailable("starting")),
        Ok(execution("a")),
    ]);
    let cancel = Cancel::new("providers/p/executions/a").etag("");
    client(&script).await.cancel(cancel).await.unwrap();
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test]
async fn a_timeout_longer_than_the_wire_can_say_is_cut() {
    let script = answers(vec![Ok(execution("a"))]);
    let get = Get::new("a").timeout(Duration::MAX);
    client(&script).await.get(get).await.unwrap();
}

#[tokio::test]
async fn the_pause_the_gateway_asks_for_is_kept() {
    let mut details =
        ErrorDetails::with_error_info("PROVIDER_UNAVAILABLE", "stateway.dev", HashMap::new());
    details.set_retry_info(Some(Duration::from_millis(400)));
    let down = Status::with_error_details(Code::Unavailable, "breaker is open", details);
    let script = answers(vec![Err(down), Ok(execution("a"))]);
    let begin = Instant::now();
    client(&script).await.get(Get::new("a")).await.unwrap();
    assert!(
        begin.elapsed() >= Duration::from_millis(400),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_pause_longer_than_the_deadline_is_not_begun() {
    let mut details =
        ErrorDetails::with_error_info("PROVIDER_UNAVAILABLE", "stateway.dev", HashMap::new());
    details.set_retry_info(Some(Duration::from_secs(60)));
    let down = Status::with_error_details(Code::Unavailable, "breaker is open", details);
    let script = answers(vec![Err(down)]);
    let begin = Instant::now();
    let get = Get::new("a").timeout(Duration::from_secs(2));
    let error = client(&script).await.get(get).await.unwrap_err();
    assert_eq!(error.reason(), "PROVIDER_UNAVAILABLE");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn the_deadline_is_sent_and_kept() {
    let script = Arc::<Script>::default();
    let begin = Instant::now();
    let get = Get::new("hang").timeout(Duration::from_millis(300));
    let error = client(&script).await.get(get).await.unwrap_err();
    assert!(error.is_deadline(), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    let sent = script.timeouts.lock().unwrap()[0].clone();
    assert!(!sent.is_empty());
}

#[tokio::test]
async fn an_empty_page_is_not_the_end() {
    let page = |names: &[&str], token: &str| v1::ListExecutionsResponse {
        executions: names.iter().map(|name| execution(name)).collect(),
        next_page_token: token.into(),
        unreachable: Vec::new(),
        ..v1::ListExecutionsResponse::default()
    };
    let script = Arc::<Script>::default();
    let pages = vec![page(&["a", "b"], "t1"), page(&[], "t2"), page(&["c"], "")];
    *script.pages.lock().unwrap() = pages.into();
    let listed: Vec<_> = client(&script)
        .await
        .list(List::new("providers/-"))
        .map_ok(|execution| execution.name)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(listed, ["a", "b", "c"]);
    assert_eq!(script.asked(), ["", "t1", "t2"]);
}

#[tokio::test]
async fn a_listing_that_is_not_read_on_asks_for_no_more_pages() {
    let script = Arc::<Script>::default();
    let page = v1::ListExecutionsResponse {
        executions: vec![execution("a")],
        next_page_token: "more".into(),
        unreachable: Vec::new(),
        ..v1::ListExecutionsResponse::default()
    };
    *script.pages.lock().unwrap() = vec![page].into();
    let mut listing = client(&script).await.list(List::new("providers/-"));
    assert_eq!(listing.next().await.unwrap().unwrap().name, "a");
    assert_eq!(script.asked(), [""]);
}

#[tokio::test]
async fn nothing_there_is_unreachable() {
    let error = Client::connect("http://127.0.0.1:1").await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::Unavailable, "GATEWAY_UNREACHABLE")
    );
    assert!(error.message().contains("refused"), "{error}");
    let lazy = Client::lazy("http://127.0.0.1:1").unwrap();
    let error = lazy.get(Get::new("a")).await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::Unavailable, "GATEWAY_UNREACHABLE")
    );
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    for wrong in ["", "127.0.0.1:7380", "https://", "not a url", "ftp://a"] {
        let error = Client::lazy(wrong).unwrap_err();
        assert_eq!(error.reason(), "INVALID_SERVER_URL", "{wrong}");
    }
}
