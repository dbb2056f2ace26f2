//! Reads child executions in the background while a tree is drawn. A slow answer does not delay the
//! drawing; without an answer the tree shows the last known data.

use std::time::Duration;

use stateway_client::{Client, Get, v1};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{ChildExecutions, DEEPEST};
use crate::view::Execution;

/// How often open children are read.
const LOOK: Duration = Duration::from_millis(500);

/// The maximum number of children that are read.
const MOST_CHILDREN: usize = 50;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the child executions of an execution.
pub struct ChildLoader {
    wanted: watch::Sender<Wanted>,
    loaded: watch::Receiver<Loaded>,
    task: JoinHandle<()>,
}

/// The drawn execution, and how often it was set.
type Wanted = (u64, Option<Execution>);

/// The known children, and for which setting of the execution they were read.
type Loaded = (u64, ChildExecutions);

impl ChildLoader {
    /// Reads from this gateway. Needs a runtime.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (wanted, asked) = watch::channel(Wanted::default());
        let (tell, loaded) = watch::channel(Loaded::default());
        let task = tokio::spawn(ask(client, asked, tell));
        Self {
            wanted,
            loaded,
            task,
        }
    }

    /// Sets the drawn execution.
    pub fn load(&self, execution: &Execution) {
        self.wanted.send_modify(|(times, about)| {
            *times += 1;
            *about = Some(execution.clone());
        });
    }

    /// The children that are known so far.
    #[must_use]
    pub fn loaded(&self) -> ChildExecutions {
        self.loaded.borrow().1.clone()
    }

    /// The children after the answers about the execution that was set last, or after a
    /// timeout.
    pub async fn settled(mut self) -> ChildExecutions {
        let last = self.wanted.borrow().0;
        let answered = self.loaded.wait_for(|(times, _)| *times >= last);
        // Without an answer the tree shows the known data.
        let _ = tokio::time::timeout(PATIENCE, answered).await;
        self.loaded()
    }
}

/// Stops reading: the answers are not needed any more.
impl Drop for ChildLoader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask(client: Client, mut asked: watch::Receiver<Wanted>, tell: watch::Sender<Loaded>) {
    let mut known = ChildExecutions::default();
    loop {
        let (times, about) = asked.borrow_and_update().clone();
        if let Some(execution) = about {
            let mut left = MOST_CHILDREN;
            look(&client, &execution, &mut known, DEEPEST, &mut left).await;
            tell.send_replace((times, known.clone()));
        }
        // Children change even if the parent does not.
        if let Ok(Err(_)) = tokio::time::timeout(LOOK, asked.changed()).await {
            return;
        }
    }
}

/// Reads the children of an execution and all their descendants.
async fn look(
    client: &Client,
    execution: &Execution,
    known: &mut ChildExecutions,
    deep: usize,
    left: &mut usize,
) {
    if deep == 0 {
        return;
    }
    let children = execution
        .steps
        .iter()
        .filter_map(|step| step.child.as_ref());
    for name in children.map(|child| child.raw().to_owned()) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let before = known.by_name.get(&name);
        if before.is_none_or(|child| child.end_time.is_none()) {
            let get = Get::new(&name)
                .view(v1::ExecutionView::Basic)
                .timeout(PATIENCE);
            // The child does not exist yet, or was removed after it was shown.
            if let Ok(child) = client.get(get).await {
                known.by_name.insert(name.clone(), Execution::from(&child));
            }
        }
        if let Some(child) = known.by_name.get(&name).cloned() {
            Box::pin(look(client, &child, known, deep - 1, left)).await;
        }
    }
}
