//! What the other tests rely on: a browser that tells when something is wrong.

use serde_json::json;

use crate::browser::{Browser, ENTER};

/// A page whose policy refuses its script, whose other script fails, and that asks something.
const BAD: &str = "data:text/html,<meta http-equiv=Content-Security-Policy \
                   content=\"script-src 'nonce-good'\"><script>window.ran = 1</script>\
                   <button autofocus onclick='window.ran = 1'>press</button>\
                   <script nonce=good>setTimeout(() => { throw new Error('broken') })</script>";

pub(crate) async fn a_browser_tells_what_went_wrong_on_a_page(browser: &Browser) {
    browser.go(BAD);
    browser.click("button");
    browser.press(ENTER);
    assert_eq!(browser.script("return window.ran", &[]), json!(null));
    let complaints = browser.until("three complaints", || {
        let told = browser.complaints().join("\n");
        told.contains("broken").then_some(told)
    });
    assert!(
        complaints.contains("Content Security Policy"),
        "{complaints}"
    );
    assert!(!browser.has_dialog());
    browser.script("setTimeout(() => alert('here'))", &[]);
    browser.until("a dialog", || browser.has_dialog().then_some(()));
}
