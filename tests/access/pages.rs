//! The dashboard is decided by the same rules.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rig::{AccessRig, ORDER, RELEASE};

/// The answer to a request for a page.
async fn page(rig: &AccessRig, who: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(rig.rig.gateway.address).await.unwrap();
    let key = rig.key(who);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn pages_show_what_their_visitor_may_read() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.apply(ORDER).await;
    rig.begin("ada", "release", ("theirs-1", "acme"))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine-1", "evil"))
        .await
        .unwrap();
    for path in ["/executions", "/inbox"] {
        let eve = page(&rig, "eve", path).await;
        assert!(eve.contains("mine-1"), "{path}: {eve}");
        assert!(!eve.contains("theirs-1"), "{path}: {eve}");
        let ada = page(&rig, "ada", path).await;
        assert!(
            ada.contains("theirs-1") && !ada.contains("mine-1"),
            "{path}"
        );
    }
    let hidden = page(&rig, "eve", "/executions/b/theirs-1").await;
    assert!(hidden.starts_with("HTTP/1.1 404"), "{hidden}");
    let absent = page(&rig, "eve", "/executions/b/absent-1").await;
    assert!(absent.starts_with("HTTP/1.1 404"), "{absent}");
    let payload = page(&rig, "ada", "/executions/b/theirs-1/input").await;
    assert!(payload.contains("s3cret"), "{payload}");
    for path in ["/executions/b/theirs-1", "/executions/b/theirs-1/input"] {
        let vic = page(&rig, "vic", path).await;
        assert!(!vic.contains("s3cret"), "{path}: {vic}");
    }
}

#[tokio::test]
async fn a_visitor_without_a_rule_sees_nothing() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs-1", "acme"))
        .await
        .unwrap();
    for path in [
        "/executions",
        "/executions/b/theirs-1",
        "/inbox",
        "/definitions",
        "/definitions/release",
        "/providers",
        "/workers",
    ] {
        let answer = page(&rig, "nobody", path).await;
        assert!(
            !answer.contains("theirs-1") || path.contains("theirs-1"),
            "{path}: {answer}"
        );
        assert!(answer.contains("no access rule allows"), "{path}: {answer}");
        assert!(!answer.contains("sign-off"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn metrics_are_for_readers_of_everything() {
    let rig = AccessRig::start().await;
    let root = page(&rig, "root", "/metrics").await;
    assert!(root.contains("# the metrics page"), "{root}");
    for who in ["ada", "vic", "nobody"] {
        let answer = page(&rig, who, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(!answer.contains("# the metrics page"), "{answer}");
    }
}
