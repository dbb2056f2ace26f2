//! Reading past the keeper: connections of their own, which see exactly what is on disk.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use stateway_model::SubState;
use tokio::sync::Semaphore;

use crate::View;
use crate::catalogue::Catalogue;
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::{DefinitionRecord, EventRecord, ListQuery, Page, Purged};
use crate::store::{Backend, Kept, Reading, StoreError, load};

/// How many reads are under way at once.
const AT_ONCE: usize = 4;

/// Connections for reading.
#[derive(Debug)]
pub(crate) struct Readers {
    backend: Arc<dyn Backend>,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Reader>>>,
}

/// One connection for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Box<dyn Reading + Send>,
}

impl Readers {
    pub(crate) fn open(backend: Arc<dyn Backend>) -> Result<Self, StoreError> {
        let first = Reader {
            store: backend.reader()?,
        };
        Ok(Self {
            backend,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            idle: Arc::new(Mutex::new(vec![first])),
        })
    }

    /// Does something with a connection, on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::stopped())?;
        let (backend, idle) = (Arc::clone(&self.backend), Arc::clone(&self.idle));
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut reader = match free {
                Some(reader) => reader,
                None => Reader {
                    store: backend.reader()?,
                },
            };
            let outcome = work(&mut reader);
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reader);
            outcome
        });
        done.await.unwrap_or_else(|_| Err(EngineError::stopped()))
    }
}

impl Reader {
    /// Everything a read looks at, it looks at as of one moment.
    fn at_once<T>(&self, work: impl FnOnce(&dyn Reading) -> Result<T>) -> Result<T> {
        let (mut work, mut outcome) = (Some(work), None);
        self.store.at_once(&mut |store| {
            outcome = work.take().map(|work| work(store));
        })?;
        outcome.unwrap_or_else(|| Err(EngineError::stopped()))
    }

    pub(crate) fn get(&mut self, id: &str, catalogue: &Catalogue) -> Result<Option<View>> {
        self.at_once(|store| {
            let Some(number) = store.number_of(id)? else {
                return Ok(None);
            };
            let kept = store.kept(number)?;
            kept.map(|kept| view(store, kept, catalogue)).transpose()
        })
    }

    pub(crate) fn list(&mut self, query: &ListQuery, catalogue: &Catalogue) -> Result<Page<View>> {
        self.at_once(|store| {
            let rows = store.list(query)?;
            let full = rows.len() == query.limit;
            let next = rows.last().filter(|_| full).map(|last| last.origin.number);
            let views = rows.into_iter().map(|kept| view(store, kept, catalogue));
            Ok(Page {
                items: views.collect::<Result<_>>()?,
                next,
            })
        })
    }

    pub(crate) fn count(&mut self, most: u32) -> Result<Vec<(SubState, u64)>> {
        self.at_once(|store| {
            let counts = SubState::ALL.iter().map(|sub_state| {
                let count = store.count(*sub_state, most)?;
                Ok((*sub_state, count))
            });
            counts.collect()
        })
    }

    pub(crate) fn history(
        &mut self,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.at_once(|store| {
            let number = store.number_of(id)?;
            let number = number.ok_or_else(|| EngineError::no_execution(id))?;
            let kept = store.kept(number)?;
            let kept = kept.ok_or_else(|| EngineError::no_execution(id))?;
            let mut found = Vec::new();
            // A row begins at or before the event that is wanted, so rows are taken from a little
            // earlier and what is not wanted is left out.
            let from = store.row_start(number, kept.status.branch, after)?;
            store.walk(number, kept.status.branch, from, &mut |row| {
                for event in row.events(number)? {
                    if event.sequence > after && found.len() < limit {
                        found.push(EventRecord {
                            position: row.position,
                            execution: Arc::clone(&kept.origin.id),
                            branch: row.branch,
                            event,
                        });
                    }
                }
                Ok(found.len() < limit)
            })?;
            Ok(found)
        })
    }

    pub(crate) fn chronicle(
        &mut self,
        id: &str,
        after: (u32, u64),
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.at_once(|store| {
            let number = store.number_of(id)?;
            let number = number.ok_or_else(|| EngineError::no_execution(id))?;
            let mut found = Vec::new();
            store.chronicle(number, after, &mut |row| {
                for event in row.events(number)? {
                    if (row.branch, event.sequence) > after && found.len() < limit {
                        found.push(EventRecord {
                            position: row.position,
                            execution: id.into(),
                            branch: row.branch,
                            event,
                        });
                    }
                }
                Ok(found.len() < limit)
            })?;
            Ok(found)
        })
    }

    pub(crate) fn log(&mut self, after: i64, limit: usize) -> Result<Vec<EventRecord>> {
        self.at_once(|store| Ok(store.log(after, limit)?))
    }

    pub(crate) fn definition(
        &mut self,
        name: &str,
        revision: Option<&str>,
    ) -> Result<Option<DefinitionRecord>> {
        Ok(self.store.definition(name, revision)?)
    }

    pub(crate) fn revisions(&mut self, name: &str) -> Result<Vec<DefinitionRecord>> {
        Ok(self.store.revisions(name)?)
    }

    pub(crate) fn definitions(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DefinitionRecord>> {
        Ok(self.store.definitions(after.unwrap_or(""), limit)?)
    }

    /// How many executions ended before this time, up to a limit. What webhooks hold back is known
    /// to the keeper alone and not told apart.
    pub(crate) fn count_ended(&mut self, before: Timestamp, limit: usize) -> Result<Purged> {
        let found = self
            .store
            .ended(before, None, limit.saturating_add(1))?
            .len();
        Ok(Purged {
            executions: found.min(limit) as u64,
            more: found > limit,
            held_back: 0,
        })
    }

    /// Copies the store to another file; the size of the copy.
    pub(crate) fn backup(&mut self, to: &Path) -> Result<u64> {
        let refused = |why: String| {
            EngineError::new(ErrorKind::FailedPrecondition, "BACKUP_NOT_WRITTEN", why)
        };
        if to.exists() {
            return Err(refused(format!("{} exists already", to.display()))
                .hint("Choose another name; a backup never replaces a file."));
        }
        if let Err(error) = self.store.backup(to) {
            // What was written so far is no backup.
            let _ = std::fs::remove_file(to);
            return Err(error.into());
        }
        let size = std::fs::metadata(to).map_err(|error| refused(error.to_string()))?;
        Ok(size.len())
    }
}

fn view(store: &dyn Reading, kept: Kept, catalogue: &Catalogue) -> Result<View> {
    let loaded = load(store, kept, catalogue)?;
    Ok(View::of(&loaded.kept.origin, &loaded.state))
}
