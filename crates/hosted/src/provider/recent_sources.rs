//! The sources of the definitions that executions were started by in the last second.
//!
//! A start needs the current revision of its definition, which is stored in the engine. Starts that come close
//! together share one read. A change through this gateway is seen by the next start; a change through another
//! gateway after a second at the latest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stateway_provider_api::Result;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a source is used after it was read.
const FRESH: Duration = Duration::from_secs(1);
/// The most sources in memory. A source has at most some hundred KiB.
const MOST_SOURCES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct RecentSources {
    by_name: Mutex<HashMap<Arc<str>, Recent>>,
}

/// One read, perhaps still under way.
#[derive(Debug)]
struct Recent {
    began: Instant,
    source: Arc<OnceCell<Arc<str>>>,
}

impl RecentSources {
    /// The source of a definition: the one that was read recently, or the result of `read`. A read that fails is
    /// repeated by the next start.
    pub(super) async fn get(
        &self,
        name: &Arc<str>,
        read: impl Future<Output = Result<Arc<str>>>,
    ) -> Result<Arc<str>> {
        let source = self.recent(name);
        source.get_or_try_init(|| read).await.map(Arc::clone)
    }

    /// Forgets a definition that was changed. A read that is under way is not used by later starts.
    pub(super) fn forget(&self, name: &str) {
        self.by_name().remove(name);
    }

    fn recent(&self, name: &Arc<str>) -> Arc<OnceCell<Arc<str>>> {
        let mut by_name = self.by_name();
        if let Some(recent) = by_name.get(name)
            && recent.began.elapsed() < FRESH
        {
            return Arc::clone(&recent.source);
        }
        if by_name.len() >= MOST_SOURCES {
            by_name.retain(|_, recent| recent.began.elapsed() < FRESH);
        }
        let source = Arc::default();
        if by_name.len() < MOST_SOURCES {
            let recent = Recent {
                began: Instant::now(),
                source: Arc::clone(&source),
            };
            by_name.insert(Arc::clone(name), recent);
        }
        source
    }

    fn by_name(&self) -> MutexGuard<'_, HashMap<Arc<str>, Recent>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use stateway_provider_api::{Error, ErrorKind, Verb};

    use super::*;

    /// Reads the source `revision N`, where N counts the reads.
    async fn read(reads: &AtomicUsize) -> Result<Arc<str>> {
        tokio::task::yield_now().await;
        Ok(format!("revision {}", reads.fetch_add(1, Ordering::Relaxed)).into())
    }

    #[tokio::test(start_paused = true)]
    async fn starts_that_come_close_together_share_one_read() {
        let (recent, reads) = (RecentSources::default(), AtomicUsize::new(0));
        let name = Arc::from("order");
        let first = futures::future::join_all((0..64).map(|_| recent.get(&name, read(&reads))));
        for source in first.await {
            assert_eq!(&*source.expect("read"), "revision 0");
        }
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        let again = recent.get(&name, read(&reads)).await.expect("read");
        assert_eq!(&*again, "revision 0");
        tokio::time::advance(Duration::from_millis(1)).await;
        let later = recent.get(&name, read(&reads)).await.expect("read");
        assert_eq!(&*later, "revision 1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_definition_is_read_again_also_while_a_read_is_under_way() {
        let (recent, reads) = (RecentSources::default(), AtomicUsize::new(0));
        let name = Arc::from("order");
        let slow = async {
            recent.forget("order");
            read(&reads).await
        };
        let before = recent.get(&name, slow).await.expect("read");
        assert_eq!(&*before, "revision 0");
        let after = recent.get(&name, read(&reads)).await.expect("read");
        assert_eq!(&*after, "revision 1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_is_repeated() {
        let (recent, reads) = (RecentSources::default(), AtomicUsize::new(0));
        let name = Arc::from("order");
        let down = async { Err(Error::new(ErrorKind::Unavailable, Verb::Start, "down")) };
        let failed = recent.get(&name, down).await;
        assert_eq!(failed.expect_err("down").kind, ErrorKind::Unavailable);
        let again = recent.get(&name, read(&reads)).await.expect("read");
        assert_eq!(&*again, "revision 0");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_sources_in_memory_is_bounded() {
        let (recent, reads) = (RecentSources::default(), AtomicUsize::new(0));
        for number in 0..2 * MOST_SOURCES {
            let name = Arc::from(format!("definition-{number}"));
            recent.get(&name, read(&reads)).await.expect("read");
        }
        assert_eq!(recent.by_name().len(), MOST_SOURCES);
        tokio::time::advance(FRESH).await;
        recent
            .get(&Arc::from("new"), read(&reads))
            .await
            .expect("read");
        assert_eq!(recent.by_name().len(), 1);
    }
}
