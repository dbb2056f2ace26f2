//! One execution in detail, read again while it is shown alone.

use std::time::Duration;

use stateway_client::{Client, Get};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::outline::{ChildLoader, Outline};
use crate::view::Execution;

/// How often the execution is read.
const LOOK: Duration = Duration::from_millis(500);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads one execution while it is shown alone.
pub struct DetailPoller {
    /// The name of the execution.
    pub name: String,
    seen: watch::Receiver<Option<Execution>>,
    children: ChildLoader,
    task: JoinHandle<()>,
}

impl DetailPoller {
    /// Starts to read this execution. Needs a runtime.
    #[must_use]
    pub fn new(client: &Client, name: &str) -> Self {
        let (tell, seen) = watch::channel(None);
        let task = tokio::spawn(look(client.clone(), name.to_owned(), tell));
        Self {
            name: name.to_owned(),
            seen,
            children: ChildLoader::new(client.clone()),
            task,
        }
    }

    /// The tree of the execution; from the data of the list until the first answer.
    #[must_use]
    pub fn outline(&mut self, listed: Option<&Execution>) -> Option<Outline> {
        let news = self.seen.has_changed().unwrap_or(false);
        let seen = self.seen.borrow_and_update().clone();
        let execution = seen.or_else(|| listed.cloned())?;
        if news {
            self.children.load(&execution);
        }
        Some(Outline::of(execution, &self.children.loaded()))
    }
}

/// Stops reading: the view was closed.
impl Drop for DetailPoller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(client: Client, name: String, tell: watch::Sender<Option<Execution>>) {
    loop {
        let get = Get::new(&name).timeout(PATIENCE);
        // If the execution cannot be read any more, the last data stays.
        if let Ok(execution) = client.get(get).await {
            tell.send_replace(Some(Execution::from(&execution)));
        }
        tokio::time::sleep(LOOK).await;
    }
}
