//! One reader per topic: tabs that show the same share what is read for them.
//!
//! A topic is a stream of values that a key names. The first tab starts its reader; further tabs with the
//! same key follow it; with the last tab the reader ends. A slow tab misses values in between, never the
//! newest one. The key has to name the visitor wherever what is read depends on the visitor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The newest value of each open topic, by its key. A topic has none before its reader reports the first.
type Readers<T> = HashMap<String, Arc<watch::Sender<Option<Arc<T>>>>>;

/// The readers of one kind of value.
pub(crate) struct Topics<T> {
    open: Arc<Mutex<Readers<T>>>,
    stop: CancellationToken,
}

impl<T> Clone for Topics<T> {
    fn clone(&self) -> Self {
        Self {
            open: self.open.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<T: Send + Sync + 'static> Topics<T> {
    /// Readers that end with `stop`.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            open: Arc::default(),
            stop,
        }
    }

    /// Follows a topic; `read` starts its reader if the topic has none. The stream ends with the
    /// reader.
    pub(crate) fn follow(
        &self,
        key: String,
        read: impl FnOnce() -> BoxStream<'static, T>,
    ) -> BoxStream<'static, Arc<T>> {
        let receiver = {
            let mut open = locked(&self.open);
            match open.get(&key) {
                Some(sender) => sender.subscribe(),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    let sender = Arc::new(sender);
                    open.insert(key.clone(), sender.clone());
                    // The task ends with its last follower, or with the gateway.
                    tokio::spawn(self.clone().run(key, sender, read()));
                    receiver
                }
            }
        };
        values(receiver).boxed()
    }

    /// The number of readers.
    #[cfg(test)]
    fn len(&self) -> usize {
        locked(&self.open).len()
    }

    async fn run(
        self,
        key: String,
        sender: Arc<watch::Sender<Option<Arc<T>>>>,
        mut reader: BoxStream<'static, T>,
    ) {
        loop {
            tokio::select! {
                next = reader.next() => match next {
                    Some(value) => drop(sender.send_replace(Some(Arc::new(value)))),
                    None => break,
                },
                () = sender.closed() => {
                    let mut open = locked(&self.open);
                    // Somebody may have come since the last one left.
                    if sender.receiver_count() == 0 {
                        open.remove(&key);
                        return;
                    }
                }
                () = self.stop.cancelled() => break,
            }
        }
        locked(&self.open).remove(&key);
    }
}

fn values<T: Send + Sync + 'static>(
    receiver: watch::Receiver<Option<Arc<T>>>,
) -> impl Stream<Item = Arc<T>> + Send {
    let first = true;
    let values = stream::unfold((receiver, first), |(mut receiver, first)| async move {
        if !first {
            receiver.changed().await.ok()?;
        }
        let value = receiver.borrow_and_update().clone();
        Some((value, (receiver, false)))
    });
    values.filter_map(std::future::ready)
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    fn reader(
        started: &Arc<AtomicUsize>,
    ) -> (
        mpsc::UnboundedSender<u32>,
        impl FnOnce() -> BoxStream<'static, u32>,
    ) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let started = started.clone();
        let read = move || {
            started.fetch_add(1, Ordering::Relaxed);
            stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
        };
        (sender, read)
    }

    #[tokio::test]
    async fn many_tabs_have_one_reader() {
        let topics = Topics::new(CancellationToken::new());
        let started = Arc::new(AtomicUsize::new(0));
        let (sender, read) = reader(&started);
        let mut first = Box::pin(topics.follow("a".into(), read));
        sender.send(1).unwrap();
        assert_eq!(*first.next().await.unwrap(), 1);
        // A tab that comes later gets the newest value immediately.
        let (_, unused) = reader(&started);
        let mut second = Box::pin(topics.follow("a".into(), unused));
        assert_eq!(*second.next().await.unwrap(), 1);
        sender.send(2).unwrap();
        assert_eq!(*first.next().await.unwrap(), 2);
        assert_eq!(*second.next().await.unwrap(), 2);
        assert_eq!((started.load(Ordering::Relaxed), topics.len()), (1, 1));
        let (_other, read) = reader(&started);
        let _third = topics.follow("b".into(), read);
        assert_eq!(topics.len(), 2);
    }

    #[tokio::test]
    async fn the_last_tab_ends_the_reader() {
        let topics = Topics::new(CancellationToken::new());
        let started = Arc::new(AtomicUsize::new(0));
        let (sender, read) = reader(&started);
        let tab = topics.follow("a".into(), read);
        drop(tab);
        sender.closed().await;
        let ended = async {
            while topics.len() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        ended.expect("the reader ends with its last tab");
        let (sender, read) = reader(&started);
        let mut tab = Box::pin(topics.follow("a".into(), read));
        sender.send(7).unwrap();
        assert_eq!(*tab.next().await.unwrap(), 7);
        assert_eq!(started.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_reader_that_ends_ends_its_tabs() {
        let topics = Topics::new(CancellationToken::new());
        let started = Arc::default();
        let (sender, read) = reader(&started);
        let mut tab = Box::pin(topics.follow("a".into(), read));
        sender.send(1).unwrap();
        drop(sender);
        assert_eq!(*tab.next().await.unwrap(), 1);
        assert!(tab.next().await.is_none());
        assert_eq!(topics.len(), 0);
    }
}
