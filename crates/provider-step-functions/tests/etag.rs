//! The etag of an execution: the same on every replica, and none while only a part of it was read.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use jiff::Timestamp;
use mock::bench::{Bench, call};
use mock::scene::{long_running_sequence, long_sequence};
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Mapper, Provider, View};

async fn etag(provider: &impl Provider, id: &ExecutionId, view: View) -> String {
    let seen = provider.get(&call(), id, view).await.expect("an answer");
    let table = compiled_in("step-functions").expect("a table");
    let mapper = Mapper::new("aws".parse().expect("an id"));
    mapper.execution(&table, seen, Timestamp::now()).etag()
}

#[tokio::test]
async fn an_execution_that_was_read_in_part_has_no_etag() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("long", "a", long_running_sequence(25_000));
    assert_eq!(etag(&bench.provider, &id, View::Basic).await, "");
    // The second look knows the definition, and so that nothing else is open.
    assert_ne!(etag(&bench.provider, &id, View::Basic).await, "");
}

#[tokio::test]
async fn every_replica_and_every_view_gives_the_same_etag() {
    let bench = Bench::new(|_| {}).await;
    let id = bench.put("long", "a", long_sequence(2_500));
    let tag = etag(&bench.provider, &id, View::Basic).await;
    assert_ne!(tag, "");
    assert_eq!(etag(&bench.provider, &id, View::Full).await, tag);
    let replica = bench.replica();
    assert_eq!(etag(&replica, &id, View::Full).await, tag);
    assert_eq!(etag(&replica, &id, View::Basic).await, tag);
}
