//! Live updates: what is sent when something changes, and that it ends.

use std::time::Duration;

use stateway_proto::v1::SignalExecutionRequest;

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

/// The address of a page's live updates.
fn live_of(html: &str) -> String {
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
async fn a_provider_that_goes_down_is_announced_and_back_again() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    let mut live = browser.listen(&live_of(&page.body)).await;
    live.until(|heard| heard.contains("id=\"unreachable\""))
        .await;
    rig.take_down(30);
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
