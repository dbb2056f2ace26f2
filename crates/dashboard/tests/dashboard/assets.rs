//! Embedded files: kept for ever under their hash, and small.

use crate::headers::between;
use crate::support::Rig;

#[tokio::test]
async fn a_file_is_not_sent_again_to_who_has_it() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    let path = between(&page.body, "rel=\"stylesheet\" href=\"", "\"");
    let first = browser.get(&path).await;
    assert_eq!(first.header("content-type"), "text/css; charset=utf-8");
    let tag = first.header("etag").to_owned();
    assert!(path.contains(tag.trim_matches('"')), "{path} {tag}");
    let head = format!("GET {path} HTTP/1.1\r\nif-none-match: {tag}\r\n");
    let again = browser.raw(&head).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

/// The worst list there can be: every row full, long names and messages throughout.
#[tokio::test]
async fn the_first_view_is_under_120_kb() {
    let rig = Rig::start().await;
    let message = "x".repeat(5_000);
    let input = format!(
        r#"{{"steps":[{{"name":"{}","fails":3,"error":{{"message":"{message}"}},"retry":{{"max_attempts":9,"delay":"1h"}}}}]}}"#,
        "step".repeat(50)
    );
    for number in 0..60 {
        let id = format!("{}-{number}", "order".repeat(30));
        rig.begin("m/script", &id, &input).await;
    }
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    assert_eq!(page.body.matches("<tr class=\"row").count(), 30);
    let mut total = page.body.len();
    for start in [
        "rel=\"stylesheet\" href=\"",
        "<script src=\"",
        "rel=\"icon\" href=\"",
    ] {
        let path = between(&page.body, start, "\"");
        let file = browser.get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        total += file.body.len();
    }
    assert!(total < 120_000, "{total} bytes");
}
