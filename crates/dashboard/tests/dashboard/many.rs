//! The list does not grow with the store: a page is a page. `STATEWAY_MANY=100000` says how many
//! executions there are; the default keeps the test short.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use stateway_proto::v1::StartExecutionRequest;

use crate::live::live_of;
use crate::support::{GATE, Rig};

/// With how many executions the time of a page is compared.
const FEW: usize = 40;
/// How much longer a page may take with many executions. A page that reads all of them takes far longer.
const AT_MOST: u32 = 5;
/// Below this, times are those of the machine and not of the page.
const NOISE: Duration = Duration::from_millis(50);
/// Starts under way at once.
const AT_ONCE: usize = 48;

const PATHS: [&str; 3] = [
    "/executions",
    "/executions?filter=sub_state+%3D+%22waiting%22",
    "/executions?filter=sub_state+%3D+%22failed%22",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_as_fast_with_many_executions() {
    let many = std::env::var("STATEWAY_MANY").ok();
    let many = many.map_or(1_500, |many| many.parse().expect("a number"));
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    begin(&rig, 0..FEW).await;
    let few = times(&rig).await;
    begin(&rig, FEW..many).await;
    let all = times(&rig).await;
    eprintln!("{FEW} executions: {few:?}; {many} executions: {all:?}");
    for (few, all) in few.into_iter().zip(all) {
        assert!(all < few.max(NOISE) * AT_MOST, "{few:?}, then {all:?}");
    }
}

/// Starts the executions with these numbers.
async fn begin(rig: &Rig, numbers: std::ops::Range<usize>) {
    let api = rig.api().await;
    stream::iter(numbers)
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
}

/// The shortest time of three for each page, and for the first message of the live list.
async fn times(rig: &Rig) -> Vec<Duration> {
    let mut browser = rig.browser();
    let mut times = Vec::new();
    for path in PATHS {
        let mut shortest = Duration::MAX;
        for _ in 0..3 {
            let begun = Instant::now();
            let page = browser.get(path).await;
            shortest = shortest.min(begun.elapsed());
            assert_eq!(page.status, 200);
            assert!(page.body.matches("<tr class=\"row").count() <= 30);
            assert!(page.body.len() < 70_000, "{} bytes", page.body.len());
        }
        times.push(shortest);
    }
    let address = live_of(&browser.get("/executions").await.body);
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        let mut live = browser.listen(&address).await;
        live.until(|heard| heard.contains("data: counts")).await;
        shortest = shortest.min(begun.elapsed());
    }
    times.push(shortest);
    times
}
