//! The list does not grow with the store: a page is a page. `STATEWAY_MANY=100000` says how many
//! executions there are; the default keeps the test short.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use stateway_proto::v1::StartExecutionRequest;

use crate::live::live_of;
use crate::support::{GATE, Rig};

/// What a page may take; a person does not notice it.
const AT_MOST: Duration = Duration::from_millis(500);
/// Starts under way at once.
const AT_ONCE: usize = 48;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_as_fast_with_many_executions() {
    let many = std::env::var("STATEWAY_MANY").ok();
    let many = many.map_or(1_500, |many| many.parse().expect("a number"));
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let api = rig.api().await;
    stream::iter(0..many)
        .for_each_concurrent(AT_ONCE, |number| {
            let mut api = api.clone();
            let request = StartExecutionRequest {
                parent: "providers/b".into(),
                definition: "definitions/gate".into(),
                execution_id: format!("e{number}"),
                ..Default::default()
            };
            async move {
                api.start_execution(request).await.expect("it starts");
            }
        })
        .await;
    let mut browser = rig.browser();
    for path in [
        "/executions",
        "/executions?filter=sub_state+%3D+%22waiting%22",
        "/executions?filter=sub_state+%3D+%22failed%22",
    ] {
        let begun = Instant::now();
        let page = browser.get(path).await;
        let took = begun.elapsed();
        eprintln!(
            "{many} executions: {path} took {took:?}, {} bytes",
            page.body.len()
        );
        assert_eq!(page.status, 200);
        assert!(page.body.matches("<tr class=\"row").count() <= 30);
        assert!(page.body.len() < 70_000, "{} bytes", page.body.len());
        assert!(took < AT_MOST, "{path} took {took:?}");
    }
    let address = live_of(&browser.get("/executions").await.body);
    let begun = Instant::now();
    let mut live = browser.listen(&address).await;
    live.until(|heard| heard.contains("data: counts")).await;
    eprintln!("{many} executions: live began after {:?}", begun.elapsed());
    assert!(begun.elapsed() < AT_MOST * 2, "{:?}", begun.elapsed());
}
