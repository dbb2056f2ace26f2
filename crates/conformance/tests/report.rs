//! A run over the wire against one long-running provider, as `stateway conformance` does it.

use std::sync::Arc;
use std::time::Duration;

use stateway_conformance::{StagedProvider, Verdict, WireHarness, junit, run};
use stateway_provider_remote::Config;
use stateway_provider_server::{About, Listener, serve};
use tokio::runtime::Runtime;

use crate::harness;

/// The reference provider with Staging, on a runtime of its own.
fn served(folder: &tempfile::TempDir) -> (Config, Runtime) {
    let runtime = Runtime::new().expect("a runtime");
    let socket = folder.path().join("provider.sock");
    let routes = runtime.block_on(async {
        let staged = StagedProvider::new(Arc::new(harness::Memory)).await;
        staged
            .expect("it is in memory")
            .routes(About::new("memory", "1"))
    });
    let listener = {
        let _inside = runtime.enter();
        Listener::unix(&socket).expect("a socket")
    };
    runtime.spawn(async move {
        serve(listener, routes, std::future::pending()).await.ok();
    });
    (Config::at(format!("unix:{}", socket.display())), runtime)
}

#[test]
fn one_provider_passes_case_after_case_and_the_report_has_every_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, runtime) = served(&folder);
    let harness = runtime
        .block_on(WireHarness::connect(config))
        .expect("connected");
    let mut shown = 0;
    let report = run(harness, "definitions", |_| shown += 1);
    assert_eq!(shown, report.results.len());
    let (passed, failed, skipped) = report.counts();
    assert_eq!((failed, passed + skipped), (0, shown), "{report:?}");
    assert!(passed > 0 && skipped > 3, "{report:?}");
    for one in &report.results {
        if let Verdict::Skipped(why) = &one.verdict {
            assert!(why.starts_with("needs the capability `"), "{why}");
        }
    }
    let xml = junit(&report, "memory");
    assert_eq!(xml.matches("<testcase ").count(), shown);
}

#[test]
fn the_rules_of_the_wire_are_checked_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, runtime) = served(&folder);
    let harness = runtime
        .block_on(WireHarness::connect(config))
        .expect("connected");
    let report = run(harness, "wire::", |_| {});
    assert_eq!(report.counts(), (6, 0, 1), "{report:?}");
}

#[test]
fn a_provider_that_dies_fails_its_cases_and_skips_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, runtime) = served(&folder);
    let harness = runtime
        .block_on(WireHarness::connect(config))
        .expect("connected");
    runtime.shutdown_timeout(Duration::from_secs(5));
    let report = run(harness, "health::", |_| {});
    let (passed, failed, skipped) = report.counts();
    assert!(failed > 0 && passed == 0 && skipped == 0, "{report:?}");
}
