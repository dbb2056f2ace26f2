//! Live updates: what is sent when something changes, and that it ends.

use std::time::Duration;

use stateway_gateway::Settings;
use stateway_proto::v1::{PurgeExecutionRequest, SignalExecutionRequest, SubState};
use stateway_provider_api::Capabilities;

use crate::headers::between;
use crate::support::{GATE, Rig};

async fn signal(rig: &Rig, name: &str) {
    let request = SignalExecutionRequest {
        name: name.into(),
        signal: "go".into(),
        ..Default::default()
    };
    rig.api().await.signal_execution(request).await.unwrap();
}

async fn purge(rig: &Rig, name: &str) {
    let request = PurgeExecutionRequest {
        name: name.into(),
        ..Default::default()
    };
    rig.api().await.purge_execution(request).await.unwrap();
}

/// The address of a page's live updates.
pub(crate) fn live_of(html: &str) -> String {
    between(html, "data-live=\"", "\"").replace("&amp;", "&")
}

#[tokio::test]
async fn a_row_changes_in_place_and_a_new_one_is_announced() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("<tr class=\"row waiting\""))
        .await;
    signal(&rig, &name).await;
    live.until(|heard| {
        heard.contains("<tr class=\"row succeeded\" id=\"row-providers/b/executions/one\"")
    })
    .await;
    live.until(|heard| between_last(heard, "<a class=\"succeeded", "</a>").contains("<b>1</b>"))
        .await;
    assert!(!live.heard.contains("new – show"), "{}", live.heard);
    rig.begin("gate", "two", "").await;
    live.until(|heard| heard.contains("1 new – show")).await;
    assert!(
        !live.heard.contains("row-providers/b/executions/two"),
        "it must not jump in"
    );
}

#[tokio::test]
async fn a_row_that_leaves_the_filter_still_shows_where_it_is() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let page = browser
        .get("/executions?filter=sub_state+%3D+%22waiting%22")
        .await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("row waiting")).await;
    signal(&rig, &name).await;
    live.until(|heard| heard.contains("row succeeded")).await;
}

#[tokio::test]
async fn who_comes_back_is_told_about_the_rows_that_left_the_filter() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let page = browser
        .get("/executions?filter=sub_state+%3D+%22waiting%22")
        .await;
    let address = live_of(&page.body);
    let mut live = browser.listen(&address).await;
    live.until(|heard| heard.contains("row waiting")).await;
    drop(live);
    signal(&rig, &name).await;
    rig.until(&name, |seen| seen.sub_state() == SubState::Succeeded)
        .await;
    let mut again = browser.listen(&address).await;
    again
        .until(|heard| {
            heard.contains("<tr class=\"row succeeded\" id=\"row-providers/b/executions/one\"")
        })
        .await;
}

#[tokio::test]
async fn who_comes_back_is_told_about_rows_that_newer_ones_pushed_off_the_page() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let address = live_of(&browser.get("/executions").await.body);
    for number in 0..30 {
        rig.begin("gate", &format!("newer-{number}"), "").await;
    }
    let mut live = browser.listen(&address).await;
    live.until(|heard| heard.contains("30+ new – show")).await;
    signal(&rig, &name).await;
    live.until(|heard| {
        heard.contains("<tr class=\"row succeeded\" id=\"row-providers/b/executions/one\"")
    })
    .await;
}

#[tokio::test]
async fn an_older_execution_that_passes_the_filter_now_is_announced() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let older = rig.begin("gate", "older", "").await;
    let newer = rig.begin("gate", "newer", "").await;
    signal(&rig, &newer).await;
    rig.until(&newer, |seen| seen.sub_state() == SubState::Succeeded)
        .await;
    let mut browser = rig.browser();
    let page = browser
        .get("/executions?filter=sub_state+%3D+%22succeeded%22")
        .await;
    assert!(page.body.contains("row-providers/b/executions/newer"));
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("data: fresh")).await;
    signal(&rig, &older).await;
    live.until(|heard| heard.contains("1 new – show")).await;
}

/// One row of a full page leaves the filter, and one of the next page moves up.
#[tokio::test]
async fn what_moves_up_from_the_next_page_is_not_new() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let mut newest = String::new();
    for number in 0..31 {
        newest = rig.begin("gate", &format!("e{number}"), "").await;
    }
    let mut browser = rig.browser();
    let page = browser
        .get("/executions?filter=sub_state+%3D+%22waiting%22")
        .await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    signal(&rig, &newest).await;
    live.until(|heard| between_last(heard, "<a class=\"waiting", "</a>").contains("<b>30</b>"))
        .await;
    assert!(!live.heard.contains("new – show"), "{}", live.heard);
    rig.begin("gate", "new", "").await;
    live.until(|heard| heard.contains("1 new – show")).await;
}

#[tokio::test]
async fn a_row_whose_record_is_removed_says_so() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let address = live_of(&browser.get("/executions").await.body);
    let mut watched = browser.listen(&address).await;
    watched.until(|heard| heard.contains("row waiting")).await;
    signal(&rig, &name).await;
    watched.until(|heard| heard.contains("row succeeded")).await;
    // It has ended when this one comes, and is not watched by it.
    let mut looked_up = browser.listen(&address).await;
    looked_up
        .until(|heard| heard.contains("row succeeded"))
        .await;
    purge(&rig, &name).await;
    for live in [&mut watched, &mut looked_up] {
        live.until(|heard| {
            heard.contains("<tr class=\"row removed\" id=\"row-providers/b/executions/one\"")
        })
        .await;
    }
}

#[tokio::test]
async fn a_provider_that_goes_down_is_announced_and_back_again() {
    // A provider that pushes is reachable as long as its stream is open; one that is polled has to answer.
    let rig = Rig::polled().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("id=\"unreachable\""))
        .await;
    rig.take_down(12);
    live.until(|heard| heard.contains("No answer from <b><bdi>m"))
        .await;
    live.until(|heard| {
        let (_, after) = heard.split_once("No answer from").unwrap();
        after.contains("<div id=\"unreachable\" role=\"status\"></div>")
    })
    .await;
}

#[tokio::test]
async fn the_parts_of_a_page_follow_their_execution() {
    let rig = Rig::start().await;
    rig.begin("m/flaky", "one", "").await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/m/one").await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("data: history")).await;
    rig.clock.advance(Duration::from_secs(2));
    for part in [
        "head", "actions", "overview", "graph", "timeline", "steps", "history",
    ] {
        live.until(|heard| {
            let sent = heard.rsplit_once(&format!("data: {part}\n"));
            sent.is_some_and(|(_, html)| {
                let html = html.split("\n\n").next().unwrap_or_default();
                html.contains("backing-off")
                    || html.contains("AttemptFailed")
                    || html.contains("retry-now")
                    || html.contains("due")
            })
        })
        .await;
    }
}

#[tokio::test]
async fn a_page_says_when_its_provider_does_not_answer_and_when_it_does_again() {
    // Nobody but the pages asks the provider, so that they are refused.
    let seldom = |settings: &mut Settings| {
        settings.default_upstream.health_interval = Duration::from_secs(600);
    };
    let rig = Rig::with(Capabilities::ALL, seldom).await;
    rig.begin("m/long", "one", "").await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/m/one").await;
    assert!(page.body.contains("<div id=\"trouble\"></div>"));
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("<div id=\"trouble\"></div>"))
        .await;
    rig.take_down(12);
    live.until(|heard| heard.contains("may be outdated")).await;
    while browser.get("/executions/m/one").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.until(|heard| {
        let (_, after) = heard.split_once("may be outdated").unwrap();
        after.contains("<div id=\"trouble\"></div>")
    })
    .await;
}

#[tokio::test]
async fn a_page_whose_execution_is_removed_says_so_and_offers_nothing_to_do() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/b/one").await;
    let address = live_of(&page.body);
    let mut live = browser.listen(&address).await;
    signal(&rig, &name).await;
    live.until(|heard| heard.contains("do/purge")).await;
    purge(&rig, &name).await;
    // Who is there is told, and who comes back later.
    let mut later = browser.listen(&address).await;
    for live in [&mut live, &mut later] {
        live.until(|heard| heard.contains("EXECUTION_NOT_FOUND"))
            .await;
        live.until(|heard| heard.contains("data: actions\ndata: <div id=\"actions\"></div>"))
            .await;
    }
}

/// With a filter that the API would refuse: it is not even asked.
#[tokio::test]
async fn one_page_too_many_is_refused_before_anything_is_asked() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let mut open = Vec::new();
    for _ in 0..500 {
        let mut live = browser.listen("/live/providers").await;
        live.until(|heard| heard.contains("200 OK")).await;
        open.push(live);
    }
    let refused = browser.get("/executions/live?filter=nonsense").await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("too many live pages"));
}

#[tokio::test]
async fn live_updates_end_with_the_gateway() {
    let rig = Rig::start().await;
    let browser = rig.browser();
    let mut live = browser.listen("/executions/live").await;
    live.until(|heard| heard.contains("event: part")).await;
    drop(rig);
    live.ended().await;
}

fn between_last<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let found = text.rsplit_once(start);
    found.map_or("", |(_, rest)| rest.split(end).next().unwrap_or_default())
}
