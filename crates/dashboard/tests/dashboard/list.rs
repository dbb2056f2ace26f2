//! The list: all providers, filters, pages, who does not answer.

use crate::headers::between;
use crate::support::{GATE, Rig};

#[tokio::test]
async fn all_providers_are_in_one_list_with_counts() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "in-b", "").await;
    rig.begin("m/approval", "in-m", "").await;
    let page = rig.browser().get("/executions").await;
    assert!(page.body.contains("/executions/b/in-b"), "{}", page.body);
    assert!(page.body.contains("/executions/m/in-m"), "{}", page.body);
    let running = between(&page.body, "<a class=\"running", "</a>");
    assert!(running.contains("<b>1</b>"), "{running}");
    let waiting = between(&page.body, "<a class=\"waiting", "</a>");
    assert!(waiting.contains("<b>1</b>"), "{waiting}");
    assert!(page.body.contains("waits for"), "{}", page.body);
    assert!(
        page.body.contains("href=\"/inbox?mine=1\""),
        "{}",
        page.body
    );
}

#[tokio::test]
async fn a_wrong_filter_is_told_below_the_box_and_kept() {
    let rig = Rig::start().await;
    let page = rig
        .browser()
        .get("/executions?filter=substate+%3D+running")
        .await;
    assert_eq!(page.status, 200);
    let problem = between(&page.body, "id=\"filter-problem\"", "</div>");
    assert!(problem.contains("`substate` is not a field"), "{problem}");
    assert!(page.body.contains("value=\"substate = running\""));
    assert!(page.body.contains("aria-invalid=\"true\""));
}

#[tokio::test]
async fn every_ready_made_filter_is_one_that_the_api_takes() {
    let rig = Rig::start().await;
    rig.begin("m/hello", "one", "").await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    let links = page.body.split("href=\"/executions?filter=").skip(1);
    let links: Vec<_> = links.map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.len() >= 10, "{links:?}");
    for link in links {
        let filtered = browser.get(&format!("/executions?filter={link}")).await;
        assert!(!filtered.body.contains("filter-problem"), "{link}");
    }
}

#[tokio::test]
async fn an_empty_list_teaches_the_first_command() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    assert!(page.body.contains("stateway start"), "{}", page.body);
    let none = browser
        .get("/executions?filter=sub_state+%3D+%22failed%22")
        .await;
    assert!(none.body.contains("No execution matches this filter"));
}

#[tokio::test]
async fn older_pages_stay_put_while_new_ones_come() {
    let rig = Rig::start().await;
    for number in 0..35 {
        rig.begin("m/hello", &format!("e{number:02}"), "").await;
    }
    let mut browser = rig.browser();
    let first = browser.get("/executions").await;
    assert!(first.body.contains(">e34<") && !first.body.contains(">e04<"));
    let older = between(&first.body, "rel=\"next\" href=\"", "\"").replace("&amp;", "&");
    let before = rows(&browser.get(&older).await.body);
    for number in 35..40 {
        rig.begin("m/hello", &format!("e{number:02}"), "").await;
    }
    let after = rows(&browser.get(&older).await.body);
    assert_eq!(before, ["e04", "e03", "e02", "e01", "e00"]);
    assert_eq!(before, after);
}

fn rows(html: &str) -> Vec<String> {
    let cells = html.split("<a class=\"go\" href=\"").skip(1);
    cells.map(|cell| between(cell, "<bdi>", "</bdi>")).collect()
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_named() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "still-here", "").await;
    let mut browser = rig.browser();
    let well = browser.get("/executions").await;
    assert!(!well.body.contains("No answer from"), "{}", well.body);
    rig.take_down(1_000);
    let ill = browser.get("/executions").await;
    let banner = between(&ill.body, "id=\"unreachable\"", "</div>");
    assert!(
        banner.contains("No answer from") && banner.contains(">m<"),
        "{banner}"
    );
    assert!(ill.body.contains("still-here"), "{}", ill.body);
}
