//! Where the stores of the tests are: in one PostgreSQL server, each with tables of its own.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use stateway_engine::{Config, PostgresConfig};
use stateway_postgres_peer::{PostgresPeer, VARIABLE, programs};

static SERVER: LazyLock<PostgresPeer> = LazyLock::new(|| {
    let programs = programs(VARIABLE).unwrap_or_else(|error| panic!("{error}"));
    PostgresPeer::start(&programs)
});

/// The settings of an engine with tables of its own. The folder is not used.
pub(crate) fn config(_: &Path) -> Config {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let schema = format!("engine_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    on(&SERVER, &schema)
}

/// The settings of an engine on a server.
pub(crate) fn on(server: &PostgresPeer, schema: &str) -> Config {
    at(&server.url(), schema)
}

/// The settings of an engine at an address.
pub(crate) fn at(url: &str, schema: &str) -> Config {
    let mut config = Config::new("unused");
    let postgres = PostgresConfig::new(url).unwrap().with_schema(schema);
    config.postgres = Some(postgres.unwrap());
    config
}

/// Tests on PostgreSQL copy no files.
pub(crate) fn copy(_: &Path, _: &Path) {
    unreachable!("a process that is killed is tested with a process");
}
