//! Names, payloads and errors of others are text wherever they are shown.

use std::time::Duration;

use crate::live::live_of;
use crate::support::Rig;

const SCRIPT: &str = "<script>alert(1)</script>";

#[tokio::test]
async fn markup_in_names_payloads_and_errors_is_text() {
    let rig = Rig::start().await;
    let id = "<img src=x onerror=alert(2)>\"'";
    let input = serde_json::json!({
        "steps": [
            {"name": SCRIPT, "fails": 5,
             "error": {"message": "</pre><script>alert(3)</script>\u{202e}\u{0}\r\n"},
             "retry": {"max_attempts": 9, "delay": "1h"}},
        ],
        "output": "</script>",
    });
    let name = rig.begin("m/script", id, &input.to_string()).await;
    rig.clock.advance(Duration::from_secs(1));
    let path = name.replace("providers/m/executions/", "/executions/m/");
    let mut browser = rig.browser();
    let live = format!("{path}/live");
    for page in [
        "/executions".to_owned(),
        "/executions?filter=%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        path.clone(),
        format!("{path}/do/cancel"),
        format!("{path}/do/retry-now?step=%3Cscript%3Ealert(1)%3C/script%3E"),
        format!("/executions/m/{}", "%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
    ] {
        let shown = browser.get(&page).await;
        assert_inert(&page, &shown.body);
    }
    let list = live_of(&browser.get("/executions").await.body);
    for stream in [&list, &live] {
        let mut live = browser.listen(stream).await;
        live.until(|heard| heard.contains("&lt;img src=x")).await;
        let (_, sent) = live.heard.split_once("\r\n\r\n").unwrap();
        assert_inert(stream, sent);
        assert!(!sent.contains("data: \r"), "{sent}");
    }
    let whole = browser.get(&format!("{path}/input")).await;
    assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(whole.header("x-content-type-options"), "nosniff");
}

fn assert_inert(page: &str, html: &str) {
    for word in ["<script>", "<img", "</pre><script", "\u{202e}", "\u{0}"] {
        assert!(!html.contains(word), "{page} has {word:?}: {html}");
    }
}
