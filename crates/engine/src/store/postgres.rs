//! The store in a PostgreSQL database, which several gateways share.
//!
//! One process owns the store and writes; the others stand by. `owner` has the lease and the turns, by the protocol of
//! the crate `lease`. Reads use connections of their own. `session` is one connection: the contract of a store is
//! synchronous, so that a connection runs on a small runtime of its own and the caller's thread waits for the answer.

mod config;
mod error;
mod fated;
mod owner;
mod read;
mod row;
mod schema;
mod session;
mod tls;
mod turn;

pub use config::{Password, PostgresConfig};
#[cfg(test)]
pub(super) use read::start_queries;

use std::sync::Arc;

use super::{Backend, FileStore, Reading, Result, Store};
use crate::Faults;
use owner::{OwnedStore, Owner};
use read::PostgresReader;
use session::Server;

/// A PostgreSQL database as the place of a store.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    server: Arc<Server>,
    faults: Faults,
}

impl PostgresStore {
    pub(crate) fn new(config: PostgresConfig, faults: &Faults) -> Result<Self> {
        Ok(Self {
            server: Arc::new(Server::new(config)?),
            faults: faults.clone(),
        })
    }
}

impl Backend for PostgresStore {
    fn open(&self) -> Result<Box<dyn Store>> {
        let owner = Owner::start(Arc::clone(&self.server), self.faults.clone())?;
        let reader = PostgresReader::new(Arc::clone(&self.server));
        Ok(Box::new(OwnedStore::new(Box::new(reader), owner)))
    }

    fn reader(&self) -> Result<Box<dyn Reading + Send>> {
        Ok(Box::new(PostgresReader::new(Arc::clone(&self.server))))
    }

    fn file(&self) -> Option<&dyn FileStore> {
        None
    }
}
