//! The in-memory table of all that run or back off, as a whole: one cheap query shows which of
//! hundreds of watched invocations have changed.
//!
//! What it cannot show: that a back-off was paused manually, and the state of an invocation that is not in
//! memory. So [`Cache`](crate::cache::Cache) bounds how long it is relied upon.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::row::{Invocation, RunningRow};

/// The maximum number of rows that are read together; a server with more is read row by row.
pub(crate) const MOST_RUNNING: usize = 10_000;
/// How long a server with too many is left alone.
const TOO_MANY_FOR: Duration = Duration::from_secs(60);
/// How long one read waits for the query of another. Then it makes its own query.
const PATIENCE: Duration = Duration::from_millis(250);

/// The newest read of the table.
#[derive(Default)]
pub(crate) struct RunningTable {
    newest: Mutex<Option<Look>>,
}

struct Look {
    began: Instant,
    /// `None` when there were too many.
    rows: Option<Arc<RunningRows>>,
}

/// Every invocation in memory, by its id.
pub(crate) struct RunningRows(HashMap<String, RunningRow>);

impl RunningRows {
    /// Whether nothing speaks against the row.
    pub(crate) fn confirm(&self, row: &Invocation) -> bool {
        match self.0.get(&row.id) {
            Some(running) => running.confirms(row),
            None => !row.is_in_memory(),
        }
    }
}

impl RunningTable {
    /// A read that began after this call, shared with concurrent callers. `None`
    /// when the table is of no use now.
    pub(crate) async fn look<E>(
        &self,
        read: impl AsyncFnOnce() -> Result<Vec<RunningRow>, E>,
    ) -> Result<Option<Arc<RunningRows>>, E> {
        let asked = Instant::now();
        // All looks of one tick get here before the first of them reads.
        tokio::task::yield_now().await;
        let Ok(mut newest) = tokio::time::timeout(PATIENCE, self.newest.lock()).await else {
            return Ok(None);
        };
        if let Some(look) = &*newest {
            let too_many = look.rows.is_none() && look.began.elapsed() < TOO_MANY_FOR;
            if look.began >= asked || too_many {
                return Ok(look.rows.clone());
            }
        }
        let began = Instant::now();
        let rows = read().await?;
        let rows = (rows.len() <= MOST_RUNNING).then(|| {
            let by_id = rows
                .into_iter()
                .map(|running| (running.id.clone(), running));
            Arc::new(RunningRows(by_id.collect()))
        });
        *newest = Some(Look {
            began,
            rows: rows.clone(),
        });
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn looks_of_the_same_moment_are_one_query() {
        let (table, asked) = (RunningTable::default(), Cell::new(0));
        let look = || {
            table.look(async || {
                asked.set(asked.get() + 1);
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(vec![RunningRow::default()])
            })
        };
        futures::future::join_all((0..10).map(|_| look())).await;
        assert_eq!(asked.get(), 1);
        look().await.unwrap();
        assert_eq!(asked.get(), 2);
    }

    #[tokio::test]
    async fn a_table_with_too_many_rows_is_not_read_again_at_once() {
        let (table, asked) = (RunningTable::default(), Cell::new(0));
        for _ in 0..3 {
            let look = table.look(async || {
                asked.set(asked.get() + 1);
                Ok::<_, Infallible>(vec![RunningRow::default(); MOST_RUNNING + 1])
            });
            assert!(look.await.unwrap().is_none());
        }
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn what_left_the_memory_or_came_into_it_has_moved() {
        let row = |status: &str, retry_count| Invocation {
            id: "a".into(),
            status: status.into(),
            retry_count,
            ..Invocation::default()
        };
        let rows = |rows: Vec<RunningRow>| {
            let by_id = rows
                .into_iter()
                .map(|running| (running.id.clone(), running));
            RunningRows(by_id.collect())
        };
        let running = |in_flight, retry_count| RunningRow {
            id: "a".into(),
            in_flight,
            retry_count: Some(retry_count),
            ..RunningRow::default()
        };
        let none = rows(Vec::new());
        assert!(none.confirm(&row("suspended", None)));
        assert!(!none.confirm(&row("running", Some(1))));
        assert!(!none.confirm(&row("backing-off", Some(1))));
        let flies = rows(vec![running(true, 2)]);
        assert!(flies.confirm(&row("running", Some(2))));
        assert!(!flies.confirm(&row("running", Some(1))));
        assert!(!flies.confirm(&row("suspended", None)));
        let rests = rows(vec![running(false, 2)]);
        assert!(rests.confirm(&row("backing-off", Some(2))));
        assert!(!rests.confirm(&row("running", Some(2))));
        // The stale trace of a back-off that was paused manually.
        assert!(rests.confirm(&row("paused", Some(2))));
    }
}
