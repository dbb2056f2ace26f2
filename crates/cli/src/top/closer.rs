//! A closer look at one execution: all of it, again and again, for as long as it is shown alone.

use std::time::Duration;

use stateway_client::{Client, Get};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::outline::{Beside, Outline};
use crate::view::Execution;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A closer look at one execution.
pub struct Closer {
    /// Whose.
    pub name: String,
    seen: watch::Receiver<Option<Execution>>,
    beside: Beside,
    task: JoinHandle<()>,
}

impl Closer {
    /// Looks at this one. Needs a runtime.
    #[must_use]
    pub fn new(client: &Client, name: &str) -> Self {
        let (tell, seen) = watch::channel(None);
        let task = tokio::spawn(look(client.clone(), name.to_owned(), tell));
        Self {
            name: name.to_owned(),
            seen,
            beside: Beside::new(client.clone()),
            task,
        }
    }

    /// The tree of it; from what the list knows as long as there was no closer look.
    #[must_use]
    pub fn outline(&mut self, listed: Option<&Execution>) -> Option<Outline> {
        let news = self.seen.has_changed().unwrap_or(false);
        let seen = self.seen.borrow_and_update().clone();
        let execution = seen.or_else(|| listed.cloned())?;
        if news {
            self.beside.about(&execution);
        }
        Some(Outline::of(execution, &self.beside.known()))
    }
}

/// Nobody looks any more.
impl Drop for Closer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(client: Client, name: String, tell: watch::Sender<Option<Execution>>) {
    loop {
        let get = Get::new(&name).timeout(PATIENCE);
        // One that cannot be had any more stays as it was seen last.
        if let Ok(execution) = client.get(get).await {
            tell.send_replace(Some(Execution::from(&execution)));
        }
        tokio::time::sleep(LOOK).await;
    }
}
