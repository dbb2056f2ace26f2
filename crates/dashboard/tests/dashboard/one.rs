//! One execution: what the page tells.

use std::time::Duration;

use stateway_proto::v1;
use stateway_provider_api::Capabilities;

use crate::headers::between;
use crate::support::{GATE, Rig, SAGA};

#[tokio::test]
async fn a_back_off_is_told_drawn_and_counted_down() {
    let rig = Rig::start().await;
    rig.begin("m/flaky", "one", "").await;
    rig.clock.advance(Duration::from_secs(2));
    let page = rig.browser().get("/executions/m/one").await;
    let now = between(&page.body, "id=\"overview\"", "</section>");
    assert!(
        now.contains("backing-off: step <code>charge</code> is backing-off"),
        "{now}"
    );
    assert!(now.contains("Attempt 1 of 5 failed"), "{now}");
    assert!(
        now.contains("Next attempt <b><time") && now.contains("data-until="),
        "{now}"
    );
    assert!(
        now.contains("card gateway timed out") && now.contains(">timeout<"),
        "{now}"
    );
    let graph = between(&page.body, "id=\"graph\"", "</section>");
    assert!(graph.contains("class=\"node backing-off\""), "{graph}");
    assert!(
        graph.contains("<a href=") && !graph.contains("role=\"img\""),
        "{graph}"
    );
    assert!(graph.contains("charge: backing-off"), "{graph}");
    let timeline = between(&page.body, "id=\"timeline\"", "</section>");
    assert!(timeline.contains("<rect class=\"failed\""), "{timeline}");
    assert!(timeline.contains("back-off of"), "{timeline}");
    assert!(timeline.contains("<line class=\"due\""), "{timeline}");
    assert!(page.body.contains("AttemptFailed"), "{}", page.body);
}

#[tokio::test]
async fn an_error_of_several_lines_is_one_line_in_tables_and_whole_in_a_block() {
    let rig = Rig::start().await;
    let trace =
        "Traceback (most recent call last):\n  File \"pay.py\", line 3\nKeyError: 'items'\n";
    let input = serde_json::json!({
        "steps": [{"name": "pay", "fails": 1, "error": {"message": trace, "fails_for_good": true}}],
    });
    rig.begin("m/script", "one", &input.to_string()).await;
    rig.clock.advance(Duration::from_secs(2));
    let mut browser = rig.browser();
    let list = browser.get("/executions").await;
    let row = between(&list.body, "<tbody", "</tbody>");
    assert!(row.contains("KeyError: 'items'"), "{row}");
    assert!(!row.contains("Traceback"), "{row}");
    let page = browser.get("/executions/m/one").await;
    let block = "<pre class=\"message\" tabindex=\"0\"><bdi>Traceback (most recent call last):\n  \
                 File &quot;pay.py&quot;, line 3\nKeyError: 'items'\n</bdi></pre>";
    let overview = between(&page.body, "id=\"overview\"", "</section>");
    assert!(overview.contains(block), "{overview}");
    let steps = between(&page.body, "<table class=\"steps\">", "</table>");
    assert!(steps.contains(block), "{steps}");
    assert!(steps.contains("<bdi>KeyError: 'items'</bdi>"), "{steps}");
    let history = between(&page.body, "id=\"history\"", "</section>");
    assert!(history.contains("KeyError: 'items'"), "{history}");
    assert!(!history.contains("Traceback"), "{history}");
    // The input is shown as JSON, which has its own way to write a line break.
    let (before, _) = page.body.split_once("id=\"payloads\"").unwrap();
    assert!(!before.contains("\\n"), "{before}");
}

#[tokio::test]
async fn a_definition_is_drawn_whole_with_its_way_back() {
    let rig = Rig::start().await;
    rig.apply(SAGA).await;
    rig.begin("saga", "one", r#"{"order": 17}"#).await;
    let page = rig.browser().get("/executions/b/one").await;
    let graph = between(&page.body, "id=\"graph\"", "</section>");
    assert_eq!(graph.matches("<path class=\"edge").count(), 2, "{graph}");
    assert!(graph.contains("ship: not started"), "{graph}");
    assert!(graph.contains("↶"), "{graph}");
    let input = between(&page.body, "id=\"input-title\"", "</section>");
    assert!(input.contains("&quot;order&quot;: 17"), "{input}");
    assert!(page.body.contains("href=\"/definitions/saga\""));
}

#[tokio::test]
async fn only_what_the_provider_can_do_and_the_state_allows_has_a_button() {
    let buttons = async |rig: &Rig, path: &str| {
        let page = rig.browser().get(path).await;
        let actions = between(&page.body, "id=\"actions\"", "</div>");
        let links = actions.split("/do/").skip(1);
        let words = links.map(|rest| rest.split('"').next().unwrap().to_owned());
        words.collect::<Vec<_>>()
    };
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "open", "").await;
    assert_eq!(
        buttons(&rig, "/executions/b/open").await,
        ["signal", "pause", "cancel", "kill"]
    );
    rig.begin("m/hello", "done", "").await;
    rig.clock.advance(Duration::from_secs(60));
    assert_eq!(buttons(&rig, "/executions/m/done").await, ["purge"]);
    rig.begin("m/stuck", "stuck", "").await;
    rig.clock.advance(Duration::from_secs(60));
    assert_eq!(
        buttons(&rig, "/executions/m/stuck").await,
        ["resume", "retry-from", "signal", "pause", "cancel", "kill"]
    );
    let can = Capabilities {
        signal: false,
        kill: false,
        ..Capabilities::ALL
    };
    let less = Rig::with(can, |_| ()).await;
    less.apply(GATE).await;
    less.begin("gate", "open", "").await;
    assert_eq!(
        buttons(&less, "/executions/b/open").await,
        ["pause", "cancel"]
    );
}

#[tokio::test]
async fn a_large_payload_is_cut_and_whole_as_text() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let large = format!(r#"{{"text":"{}"}}"#, "é".repeat(20_000));
    rig.begin("gate", "one", &large).await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/b/one").await;
    assert!(page.body.len() < 60_000, "{} bytes", page.body.len());
    assert!(page.body.contains(&format!("All {} bytes", large.len())));
    let whole = browser.get("/executions/b/one/input").await;
    assert_eq!(whole.body, large);
    assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn a_long_history_shows_its_end_and_comes_in_pages() {
    let rig = Rig::start().await;
    long(&rig, "one", 0).await;
    let mut browser = rig.browser();
    let page = "/executions/m/one";
    let newest = browser.get(page).await;
    let (shown, all) = (sequences(&newest.body), sequences_of(&rig, "one").await);
    assert!(all.len() > 150, "{}", all.len());
    assert_eq!(shown, all[all.len() - 100..]);
    let first = browser.get(&link(&newest.body, "From the beginning")).await;
    assert_eq!(sequences(&first.body), all[..100]);
    let second = browser.get(&link(&first.body, "Later events")).await;
    assert_eq!(sequences(&second.body), all[100..]);
    assert_eq!(link(&second.body, "Newest events"), page);
    // The newest page is the one that is kept up to date.
    let mut live = browser.listen(&format!("{page}/live")).await;
    let last = format!(
        "<span class=\"hidden\">Event </span>{}<",
        all.last().unwrap()
    );
    live.until(|heard| heard.contains(&last)).await;
}

#[tokio::test]
async fn a_history_of_thousands_is_read_to_its_end() {
    let rig = Rig::start().await;
    long(&rig, "one", 10).await;
    let all = sequences_of(&rig, "one").await;
    assert!(all.len() > 1_100, "{}", all.len());
    let page = rig.browser().get("/executions/m/one").await;
    assert_eq!(sequences(&page.body), all[all.len() - 100..]);
    let drawn = format!("to {} of a longer history", all.last().unwrap());
    assert!(page.body.contains(&drawn), "{drawn}");
}

/// An execution of 60 steps that is over; each of them failed so often before it was done.
async fn long(rig: &Rig, id: &str, fails: u32) {
    let retry = r#"{"max_attempts":20,"delay":"0s","factor":1.0}"#;
    let step =
        |number| format!(r#"{{"name":"s{number}","takes":"0s","fails":{fails},"retry":{retry}}}"#);
    let steps: Vec<_> = (0..60).map(step).collect();
    let input = format!(r#"{{"steps":[{}]}}"#, steps.join(","));
    rig.begin("m/script", id, &input).await;
    rig.clock.advance(Duration::from_secs(60));
}

/// The numbers of the events on a page.
fn sequences(html: &str) -> Vec<i64> {
    let cells = html.split("<span class=\"hidden\">Event </span>").skip(1);
    let number = |cell: &str| cell.split('<').next().unwrap().parse().unwrap();
    cells.map(number).collect()
}

/// The numbers of all events, from the API.
async fn sequences_of(rig: &Rig, id: &str) -> Vec<i64> {
    let mut request = v1::ListEventsRequest {
        parent: format!("providers/m/executions/{id}"),
        page_size: 1_000,
        ..Default::default()
    };
    let mut all = Vec::new();
    loop {
        let page = rig.api().await.list_events(request.clone()).await.unwrap();
        let page = page.into_inner();
        all.extend(page.events.iter().map(|event| event.sequence));
        if page.next_page_token.is_empty() {
            return all;
        }
        request.page_token = page.next_page_token;
    }
}

/// Where the link with this text leads, without the place on the page.
fn link(html: &str, text: &str) -> String {
    let (before, _) = html.split_once(&format!(">{text}</a>")).expect(text);
    let (_, href) = before.rsplit_once("href=\"").unwrap();
    href.split(['"', '#']).next().unwrap().replace("&amp;", "&")
}

#[tokio::test]
async fn what_is_not_there_or_does_not_answer_says_so() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let none = browser.get("/executions/m/none").await;
    assert_eq!(none.status, 404);
    assert!(none.body.contains("EXECUTION_NOT_FOUND"), "{}", none.body);
    rig.begin("m/long", "one", "").await;
    rig.take_down(1_000);
    let down = browser.get("/executions/m/one").await;
    assert_eq!(down.status, 503, "{}", down.body);
}

#[tokio::test]
async fn what_was_done_again_shows_its_branches() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let before = browser.get("/executions/b/one").await;
    assert!(!before.body.contains("Branches"), "there is only one");
    let kill = "/executions/b/one/do/kill";
    browser.answer(kill, &[("actor", "ada")]).await;
    rig.until(&name, |seen| seen.reason().label() == "KILLED")
        .await;
    let again = "/executions/b/one/do/retry-from?step=wait";
    let sent = browser.answer(again, &[]).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    let after = browser.get("/executions/b/one").await;
    let branches = between(&after.body, "id=\"branches\"", "</section>");
    assert_eq!(branches.matches("<li>").count(), 2, "{branches}");
    assert!(branches.contains(">current<"), "{branches}");
}

#[tokio::test]
async fn a_page_says_what_time_it_is_for_the_server() {
    let rig = Rig::start().await;
    let before = jiff::Timestamp::now().as_millisecond();
    let page = rig.browser().get("/executions").await;
    let told: i64 = between(&page.body, "data-now=\"", "\"").parse().unwrap();
    let after = jiff::Timestamp::now().as_millisecond();
    assert!((before..=after).contains(&told), "{told}");
}
