//! What a process reads from PostgreSQL when it starts or takes the store over: by an index, and as long as it takes.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use stateway_postgres_peer::PostgresPeer;
use tokio_postgres::{Client, NoTls};

use super::{own_schema, servers};
use crate::store::postgres::start_queries;
use crate::store::{Backend as _, PostgresConfig, PostgresStore, Store};

/// A store with tables of its own, and the name of their schema.
fn store(server: &PostgresPeer) -> (Box<dyn Store>, String) {
    let schema = own_schema();
    let config = PostgresConfig::new(&server.url()).unwrap();
    let config = config.with_schema(&schema).unwrap();
    let place = PostgresStore::new(config, &crate::Faults::default()).unwrap();
    let mut store = place.open().unwrap();
    store.own().unwrap();
    (store, schema)
}

/// Does something with a connection of its own.
fn with_client<T>(server: &PostgresPeer, work: impl AsyncFnOnce(&Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        let done = work(&client).await;
        drop(client);
        driven.await.unwrap().unwrap();
        done
    })
}

/// Many children of executions that have ended, all of them ended, and none of an older form.
const HISTORY: &str = "INSERT INTO executions (number, id, definition, revision, labels, parent, depth, created_at, \
     branch, state, sub_state, inbox, ended_at, form) \
     SELECT n, 'e' || n, 'd', 'r', '{}', n - 1, 0, n, 0, 'completed', 'succeeded', 0, n, 2 \
     FROM generate_series(1, 20000) AS n";

#[test]
fn the_reads_of_a_start_find_their_rows_by_an_index() {
    for server in servers() {
        let (_store, schema) = store(server);
        with_client(server, async |client| {
            let begin = format!("SET search_path = {schema}; {HISTORY}; ANALYZE executions");
            client.batch_execute(&begin).await.unwrap();
            // As with a statement that is prepared once and used often.
            let generic = "SET plan_cache_mode = force_generic_plan";
            client.batch_execute(generic).await.unwrap();
            for (place, (sql, index, values)) in start_queries().iter().enumerate() {
                let values = ["(0, 1000)", ""][usize::from(*values == 0)];
                let prepare = format!("PREPARE q{place} AS {sql}");
                client.batch_execute(&prepare).await.unwrap();
                let explain = format!("EXPLAIN EXECUTE q{place}{values}");
                let plan = client.simple_query(&explain).await.unwrap();
                let plan = format!("{plan:?}");
                assert!(plan.contains(index), "{sql}: {plan}");
                assert!(!plan.contains("Seq Scan"), "{sql}: {plan}");
            }
        });
    }
}

/// Keeps everyone from the executions for longer than other reads may take; reports when that begins.
fn occupied(server: &'static PostgresPeer, schema: &str) -> (Receiver<()>, JoinHandle<()>) {
    let (begun, begins) = channel();
    let lock = format!("BEGIN; LOCK TABLE {schema}.executions IN ACCESS EXCLUSIVE MODE");
    let thread = std::thread::spawn(move || {
        with_client(server, async |client| {
            client.batch_execute(&lock).await.unwrap();
            begun.send(()).unwrap();
            let end = "SELECT pg_sleep(10.5); COMMIT";
            client.batch_execute(end).await.unwrap();
        });
    });
    (begins, thread)
}

#[test]
fn a_read_of_a_start_may_take_longer_than_other_reads() {
    let Some(server) = servers().first() else {
        return;
    };
    let (store, schema) = store(server);
    let (begins, thread) = occupied(server, &schema);
    begins.recv().unwrap();
    assert!(store.orphans(0, 10).unwrap().is_empty());
    thread.join().unwrap();
    // The limit is back.
    let (begins, thread) = occupied(server, &schema);
    begins.recv().unwrap();
    assert_eq!(store.total().unwrap_err().reason(), "STORE_UNREACHABLE");
    thread.join().unwrap();
}
