//! Providers: how they are, what they can, and how their words are read.

use stateway_provider_api::{Capabilities, ErrorKind};
use stateway_visitor::Visitor;

use crate::support::{BuiltInRig, Puppet};

#[tokio::test]
async fn a_provider_that_does_not_answer_is_named_and_told_live() {
    let puppet = Puppet::new();
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("shaky", &puppet)).await;
    let mut visit = Visitor::new(&rig.gateway);
    let mut live = visit.listen("/live/providers").await;
    live.line("answers").await;
    let page = visit.get("/providers").await.is(200);
    page.has(&["href=\"/providers/b\"", "href=\"/providers/shaky\""]);
    puppet.fail(ErrorKind::Unavailable, None);
    live.line("No answer from").await;
    let page = visit.get("/providers").await;
    page.has(&[
        "No answer from",
        "does not answer",
        "cannot be shown or controlled",
    ]);
    puppet.recover();
    live.line_that(|line| {
        line.contains("id=\"down\" role=\"status\"") && !line.contains("No answer from")
    })
    .await;
}

#[tokio::test]
async fn capabilities_are_told_in_words_with_what_their_absence_means() {
    let capabilities = Capabilities {
        pause: false,
        start_idempotent: false,
        ..Capabilities::ALL
    };
    let puppet = Puppet::with_capabilities(capabilities);
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let mut visit = Visitor::new(&rig.gateway);
    let page = visit.get("/providers/p").await.is(200);
    page.has(&[
        "It cannot",
        "The engine cannot pause an execution.",
        "A start that is repeated after a lost response may start a second execution.",
        "An execution can be cancelled.",
        "CAPABILITY_NOT_SUPPORTED",
    ]);
    visit.get("/providers/nobody").await.is(404);
}

#[tokio::test]
async fn the_state_table_tells_how_each_word_is_read() {
    let puppet = Puppet::new();
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let page = Visitor::new(&rig.gateway).get("/providers/p").await;
    // The table of Step Functions.
    page.has(&[
        "<bdi>TIMED_OUT</bdi>",
        "timed out",
        "<bdi>ABORTED</bdi>",
        "badge failed",
        "badge succeeded",
        "refined by steps, attempts and waits",
    ]);
}

#[tokio::test]
async fn a_provider_may_be_called_live() {
    let puppet = Puppet::new();
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("live", &puppet)).await;
    let mut visit = Visitor::new(&rig.gateway);
    let page = visit.get("/providers/live").await.is(200);
    page.has(&["It can", "<title>live"]);
    let list = visit.get("/providers").await;
    let mut stream = visit.listen(&list.live()).await;
    stream.line("href=\"/providers/live\"").await;
}
