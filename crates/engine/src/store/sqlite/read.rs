//! Reading: one file for each subject of the contract, and the rest here.

mod definitions;
mod list;
mod log;
mod requests;
mod rows;

#[cfg(test)]
pub(super) use log::WALK;

use rusqlite::OptionalExtension as _;

use super::Sqlite;
use crate::store::{Reading, StoreError};

impl Reading for Sqlite {
    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<(), StoreError> {
        let moment = self.connection.unchecked_transaction()?;
        work(self);
        moment.finish()?;
        Ok(())
    }

    fn sink_position(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT position FROM sinks WHERE name = ?1")?;
        Ok(query.query_row([name], |row| row.get(0)).optional()?)
    }
}
