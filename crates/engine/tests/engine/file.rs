//! The store's file under the process: removed, replaced, opened a second time by another path.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use stateway_engine::{Config, Engine};

use crate::lab::Lab;

const GATE: &str = "name: gate\nsteps: [{name: a, signal: go}]";

/// Something happens to the file; nothing is acknowledged afterwards. The executions that were acknowledged
/// before.
async fn nothing_is_acknowledged_after(happens: impl FnOnce(&Path)) -> (Lab, Vec<Arc<str>>) {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let mut acknowledged = Vec::new();
    for _ in 0..5 {
        acknowledged.push(lab.start("gate", json!(null)).await.id);
    }
    happens(&lab.config.path);
    for _ in 0..3 {
        let refused = lab.engine.start(lab.start_of("gate", json!(null))).await;
        let error = refused.unwrap_err();
        assert_eq!(error.reason, "STORE_REPLACED");
        assert!(error.message.contains("removed or replaced"), "{error}");
    }
    (lab, acknowledged)
}

fn log_of(path: &Path) -> std::path::PathBuf {
    path.with_file_name("store.db-wal")
}

#[tokio::test]
async fn a_store_whose_file_was_removed_acknowledges_nothing() {
    nothing_is_acknowledged_after(|path| std::fs::remove_file(path).unwrap()).await;
}

#[tokio::test]
async fn a_store_whose_file_was_replaced_acknowledges_nothing() {
    nothing_is_acknowledged_after(|path| {
        let copy = path.with_file_name("copy");
        std::fs::copy(path, &copy).unwrap();
        std::fs::rename(copy, path).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_store_whose_log_was_removed_loses_nothing_that_was_acknowledged() {
    let (lab, acknowledged) =
        nothing_is_acknowledged_after(|path| std::fs::remove_file(log_of(path)).unwrap()).await;
    // The process is killed: only the file remains.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    std::fs::copy(&lab.config.path, &path).unwrap();
    let engine = Engine::open(&Config::new(path)).unwrap();
    for id in acknowledged {
        engine.get(id).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_comes_back_is_used_again() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let away = lab.config.path.with_file_name("away");
    std::fs::rename(&lab.config.path, &away).unwrap();
    let refused = lab.engine.start(lab.start_of("gate", json!(null))).await;
    assert_eq!(refused.unwrap_err().reason, "STORE_REPLACED");
    std::fs::rename(&away, &lab.config.path).unwrap();
    let started = async {
        while lab
            .engine
            .start(lab.start_of("gate", json!(null)))
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::lab::PATIENCE, started)
        .await
        .expect("the store is tried again");
}

#[test]
fn a_second_engine_by_a_link_or_without_the_lock_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let _engine = Engine::open(&Config::new(&path)).unwrap();
    let refused = |path: &Path| {
        let error = Engine::open(&Config::new(path)).unwrap_err();
        assert_eq!(error.reason, "STORE_IN_USE", "{}", path.display());
    };
    refused(&path);
    let elsewhere = tempfile::tempdir().unwrap();
    let symbolic = elsewhere.path().join("symbolic.db");
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    refused(&symbolic);
    let hard = folder.path().join("hard.db");
    std::fs::hard_link(&path, &hard).unwrap();
    refused(&hard);
    std::fs::remove_file(folder.path().join("store.db.lock")).unwrap();
    refused(&path);
}

#[test]
fn an_engine_that_has_stopped_leaves_the_file_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for _ in 0..3 {
        drop(Engine::open(&Config::new(&path)).unwrap());
    }
}

#[tokio::test]
async fn a_second_engine_on_the_same_file_is_refused() {
    let lab = Lab::new();
    let error = stateway_engine::Engine::open(&lab.config).unwrap_err();
    assert_eq!(error.reason, "STORE_IN_USE");
    assert!(
        error.message.contains(&std::process::id().to_string()),
        "{error}"
    );
}
