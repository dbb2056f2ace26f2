//! The cost of many open tabs. `STATEWAY_TABS=500` says how many there are; the default keeps the test short.

use crate::live::live_of;
use crate::support::{GATE, Rig};

/// A tab may cost this much memory of the gateway; its connection is the most of it.
const BYTES_PER_TAB: usize = 400 * 1024;

/// The resident memory of this process, in bytes; none where the system does not say.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Half of the tabs show the list, the others ten different executions. The gateway has one watch for the
/// list and one for each of the executions, whatever the number of tabs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_open_tabs_cost_a_connection_each_and_one_watch_per_page() {
    let tabs = std::env::var("STATEWAY_TABS").ok();
    let tabs = tabs.map_or(60, |tabs| tabs.parse().expect("a number"));
    // One caller may have half of them.
    let watches = 24;
    let rig = Rig::with(stateway_provider_api::Capabilities::ALL, |settings| {
        settings.watch.max_streams = watches;
    })
    .await;
    rig.apply(GATE).await;
    for number in 0..30 {
        rig.begin("gate", &format!("e{number}"), "").await;
    }
    let mut browser = rig.browser();
    let mut addresses = vec![live_of(&browser.get("/executions").await.body)];
    for number in 0..10 {
        let page = browser.get(&format!("/executions/b/e{number}")).await;
        addresses.push(live_of(&page.body));
    }
    let before = resident();
    let mut open = Vec::new();
    for tab in 0..tabs {
        let address = if tab % 2 == 0 {
            &addresses[0]
        } else {
            &addresses[1 + tab / 2 % 10]
        };
        let mut listener = browser.listen(address).await;
        listener.until(|heard| heard.contains("waiting")).await;
        assert!(!listener.heard.contains("could not be brought up to date"));
        // The test keeps what it heard; a browser's memory is its own.
        listener.heard = String::new();
        open.push(listener);
    }
    let after = resident();
    if let Some((before, after)) = before.zip(after) {
        let each = after.saturating_sub(before) / tabs;
        eprintln!(
            "{tabs} tabs: {watches} watches at most, {} KiB of memory each (the test's own sockets included)",
            each / 1024
        );
        assert!(each < BYTES_PER_TAB, "{each} bytes for each tab");
    }
}
