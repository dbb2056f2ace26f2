//! A store in memory, for simulations and tests: the same contract as the file, without a disk.
//!
//! A [`MemoryDisk`] outlives the processes that open it. Dropping the writer models the end of a process: the
//! tables contain what was committed and nothing else. A process that loses the disk to another one
//! ([`MemoryDisk::revoke`]) can no longer write.

mod read;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Backend, Commit, Epoch, FileStore, Reading, Result, Store, StoreError, Turn};
use tables::Tables;

/// The storage that processes open one after the other. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Readers clone the `Arc`, so a read sees the tables of one moment.
    tables: Arc<Tables>,
    /// Which writer may write. Zero: none.
    writer: u64,
    /// The writers so far.
    writers: u64,
}

/// An open connection to the disk.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    disk: MemoryDisk,
    /// The number of this writer; zero for a reader.
    writer: u64,
    /// Set while several reads see the same tables.
    moment: Option<Arc<Tables>>,
}

impl MemoryDisk {
    /// Takes the disk away from the process that writes to it. Another process can open the disk, and
    /// every later write of the first process fails.
    pub(crate) fn revoke(&self) {
        self.lock().writer = 0;
    }

    /// A disk with the same content that is independent from now on.
    #[cfg(feature = "simulation")]
    pub(crate) fn copy(&self) -> Self {
        let shared = Shared {
            tables: self.tables(),
            ..Shared::default()
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    pub(crate) fn last_position(&self) -> i64 {
        self.lock().tables.last_position
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic of another thread cannot leave the tables half written: a turn is checked first.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.lock().tables)
    }
}

impl Backend for MemoryDisk {
    fn open(&self) -> Result<Box<dyn Store>> {
        let mut shared = self.lock();
        if shared.writer != 0 {
            return Err(in_use());
        }
        shared.writers += 1;
        shared.writer = shared.writers;
        Ok(Box::new(MemoryStore {
            disk: self.clone(),
            writer: shared.writer,
            moment: None,
        }))
    }

    fn reader(&self) -> Result<Box<dyn Reading + Send>> {
        Ok(Box::new(MemoryStore {
            disk: self.clone(),
            writer: 0,
            moment: None,
        }))
    }

    fn file(&self) -> Option<&dyn FileStore> {
        None
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        let mut shared = self.disk.lock();
        if self.writer != 0 && shared.writer == self.writer {
            shared.writer = 0;
        }
    }
}

impl MemoryStore {
    fn tables(&self) -> Arc<Tables> {
        match &self.moment {
            Some(moment) => Arc::clone(moment),
            None => self.disk.tables(),
        }
    }

    /// Changes the tables, if this process may still write to them.
    fn write<T>(&self, work: impl FnOnce(&mut Tables) -> Result<T>) -> Result<T> {
        let mut shared = self.disk.lock();
        if self.writer == 0 || shared.writer != self.writer {
            return Err(in_use());
        }
        work(Arc::make_mut(&mut shared.tables))
    }
}

impl Store for MemoryStore {
    fn own(&mut self) -> Result<Epoch> {
        self.write(|_| Ok(self.writer))
    }

    fn check(&self) -> Result<()> {
        // A process learns that it has lost the disk when it writes.
        Ok(())
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        let written = self.write(|tables| {
            tables.check(turn)?;
            tables.apply(turn);
            Ok(())
        });
        written.into()
    }

    fn last_position(&self) -> i64 {
        self.tables().last_position
    }
}

fn in_use() -> StoreError {
    StoreError::InUse {
        store: "memory".to_owned(),
        holder: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lost_the_disk_writes_nothing() {
        let disk = MemoryDisk::default();
        let mut first = disk.open().unwrap();
        disk.revoke();
        let mut second = disk.open().unwrap();
        let sinks = |position| Turn {
            sinks: vec![("s".into(), position)],
            ..Turn::default()
        };
        second.commit(&sinks(1)).result().unwrap();
        assert!(matches!(first.commit(&sinks(2)), Commit::Fenced(_)));
        assert_eq!(first.own().unwrap_err().reason(), "STORE_IN_USE");
        // The end of the first process does not release the disk of the second.
        drop(first);
        assert_eq!(disk.open().unwrap_err().reason(), "STORE_IN_USE");
        assert_eq!(second.sink_position("s").unwrap(), Some(1));
    }

    #[test]
    fn several_reads_see_one_moment() {
        let disk = MemoryDisk::default();
        let mut store = disk.open().unwrap();
        let reader = disk.reader().unwrap();
        let mut seen = Vec::new();
        let mut read_while_writing = |moment: &dyn Reading| {
            let turn = Turn {
                sinks: vec![("s".into(), 1)],
                ..Turn::default()
            };
            store.commit(&turn).result().unwrap();
            seen.push(moment.sink_position("s").unwrap());
        };
        reader.at_once(&mut read_while_writing).unwrap();
        assert_eq!(seen, [None]);
        assert_eq!(reader.sink_position("s").unwrap(), Some(1));
    }
}
