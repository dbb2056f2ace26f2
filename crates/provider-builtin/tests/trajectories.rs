//! The golden trajectories are those of the built-in engine.

use stateway_provider_api::table::compiled_in;
use stateway_provider_builtin::{BuiltinProvider, Config};
use stateway_trajectory_kit::{Engine, SCENARIOS, conform};

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_engine_shows_the_golden_trajectories() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        path: folder.path().join("store.db"),
        ..Config::default()
    };
    let id = "builtin".parse().unwrap();
    let table = compiled_in("builtin").unwrap();
    let provider = BuiltinProvider::new(&id, &config, table).unwrap();
    conform(Engine::BuiltIn, &provider, SCENARIOS.len()).await;
    assert!(SCENARIOS.len() >= 25);
}
