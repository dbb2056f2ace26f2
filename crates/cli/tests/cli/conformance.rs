//! `stateway conformance`, against the reference provider on a socket.

#[allow(dead_code)] // Its own main.
#[path = "../../../provider-memory/tests/broken.rs"]
mod broken;

use std::sync::Arc;

use stateway_conformance::StagedProvider;
use stateway_contract_kit::Harness;
use stateway_provider_memory::MemoryProvider;
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::binary::run;

/// The provider with Staging, and its address.
fn served(folder: &TempDir) -> (String, Runtime) {
    served_by(Arc::new(broken::harness::Memory), folder)
}

fn served_by(harness: Arc<dyn Harness>, folder: &TempDir) -> (String, Runtime) {
    let runtime = Runtime::new().unwrap();
    let socket = folder.path().join("provider.sock");
    let staged = runtime.block_on(StagedProvider::new(harness));
    let routes = staged.unwrap().routes(About::new("memory", "1"));
    let listener = {
        let _inside = runtime.enter();
        Listener::unix(&socket).unwrap()
    };
    runtime.spawn(async move {
        serve(listener, routes, std::future::pending()).await.ok();
    });
    (format!("unix:{}", socket.display()), runtime)
}

#[test]
fn every_case_is_printed_with_the_reason_of_a_skip_and_written_as_junit() {
    let folder = TempDir::new().unwrap();
    let (address, _runtime) = served(&folder);
    let report = folder.path().join("report.xml");
    let ran = run(&[
        "conformance",
        &address,
        "--filter",
        "capability_on::",
        "--junit",
        report.to_str().unwrap(),
    ]);
    let out = ran.exits(0).out;
    assert!(
        out.contains("passed  capability_on::kill_is_implemented\n"),
        "{out}"
    );
    let skip = "skipped capability_on::definitions_is_implemented: needs the capability";
    assert!(out.contains(skip), "{out}");
    assert!(out.contains(" 0 failed, "), "{out}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(
        xml.contains("<testcase classname=\"capability_on\""),
        "{xml}"
    );
}

#[test]
fn a_case_that_fails_is_shown_with_its_reason_and_decides_the_exit_code() {
    let folder = TempDir::new().unwrap();
    let broken = broken::BrokenMemory(broken::Defect::StartDropsLabels);
    let (address, _runtime) = served_by(Arc::new(broken), &folder);
    let report = folder.path().join("report.xml");
    let case = "start::labels_are_kept";
    let junit = report.to_str().unwrap();
    let ran = run(&["conformance", &address, "--filter", case, "--junit", junit]);
    let out = ran.exits(8).out;
    assert!(out.contains(&format!("failed  {case}: ")), "{out}");
    assert!(out.contains(" 1 failed, "), "{out}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(xml.contains("<failure"), "{xml}");
}

#[test]
fn a_provider_that_is_absent_and_a_filter_that_matches_nothing_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let absent = format!("unix:{}/none.sock", folder.path().display());
    run(&["conformance", &absent]).exits(6);
    let (address, _runtime) = served(&folder);
    run(&["conformance", &address, "--filter", "no such case"]).exits(2);
    run(&["conformance", "http://10.0.0.1:7000"]).exits(2);
}

#[test]
fn a_run_that_checks_nothing_does_not_succeed() {
    let folder = TempDir::new().unwrap();
    let (address, runtime) = served(&folder);
    // The reference provider has no definitions.
    let filter = "capability_on::definitions_is_implemented";
    let skipped = run(&["conformance", &address, "--filter", filter]).exits(8);
    assert!(
        skipped.err.contains("every case was skipped"),
        "{skipped:?}"
    );

    let socket = folder.path().join("plain.sock");
    let table = stateway_provider_api::table::compiled_in("memory").unwrap();
    let id = "far".parse().unwrap();
    let memory = MemoryProvider::new(id, &Default::default(), table).unwrap();
    let routes = ProviderServer::new(Arc::new(memory), About::new("plain", "1")).routes();
    let _inside = runtime.enter();
    let listener = Listener::unix(&socket).unwrap();
    runtime.spawn(async move { serve(listener, routes, std::future::pending()).await.ok() });
    let address = format!("unix:{}", socket.display());
    let refused = run(&["conformance", &address, "--filter", "start"]).exits(2);
    assert!(
        refused
            .err
            .contains("does not serve stateway.provider.v1.Staging"),
        "{refused:?}"
    );
}
