//! Tasks of activities that people answer through this gateway.
//!
//! `GetActivityTask` hands out the next task of whichever execution. A task that was taken for one
//! signal and belongs to another execution is kept here for that one's own signal, alive by
//! heartbeats, and until then no other worker has it. So an activity is only asked for tasks when the
//! operator says that it is answered here, when someone waits for a task that is not here yet, and
//! no longer than that.

mod activity_tasks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use crate::Clock;
use crate::client::{Ask, Client};
use activity_tasks::{ActivityTasks, HeldTask, MOST_HELD};

pub(crate) use activity_tasks::Address;

/// The service holds a poll for a minute. Who hangs up before that may lose a task.
const LONGEST_POLL: Duration = Duration::from_secs(75);
/// How long a heartbeat may take.
const LONGEST_BEAT: Duration = Duration::from_secs(10);
/// How many heartbeats are sent at the same time: a thousand tasks are kept alive in time even if each
/// heartbeat takes half a second.
const BEATS_AT_ONCE: usize = 32;
/// How often the clock, which tests move, is read while waiting.
const TICK: Duration = Duration::from_millis(50);
/// What is left of a call's time to send the answer once its task has come.
const TO_ANSWER: Duration = Duration::from_millis(500);

/// What was taken, and who takes. Ends its tasks when it is dropped.
pub(crate) struct Inbox {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<AbortHandle>>,
}

struct Shared {
    client: Arc<Client>,
    clock: Clock,
    beat: Duration,
    activities: Mutex<BTreeMap<String, ActivityTasks>>,
    /// Why polling an activity ended, for those who wait.
    broken: Mutex<BTreeMap<String, Error>>,
    beats: Mutex<bool>,
    news: Notify,
}

/// Someone who waits for a task.
struct Waiter<'i> {
    shared: &'i Shared,
    activity: &'i str,
    ticket: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let (ticket, activity) = (self.ticket, self.activity);
        self.shared.with(activity, |tasks| tasks.give_up(ticket));
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        lock(&self.tasks).iter().for_each(AbortHandle::abort);
    }
}

impl Inbox {
    pub(crate) fn new(client: Arc<Client>, clock: Clock, beat: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                clock,
                beat,
                activities: Mutex::default(),
                broken: Mutex::default(),
                beats: Mutex::default(),
                news: Notify::new(),
            }),
            tasks: Mutex::default(),
        }
    }

    /// The token of a task that is here.
    pub(crate) fn held(&self, activity: &str, wanted: &Address) -> Option<String> {
        self.shared.with(activity, |tasks| tasks.find(wanted))
    }

    /// A task was answered or is over.
    pub(crate) fn forget(&self, activity: &str, token: &str) {
        self.shared.with(activity, |tasks| tasks.drop_token(token));
    }

    /// Takes tasks until the one that is wanted is here; its token.
    pub(crate) async fn fetch(
        &self,
        ask: Ask<'_>,
        activity: &str,
        wanted: &Address,
    ) -> Result<String> {
        // An error that earlier callers got is not reported again.
        lock(&self.shared.broken).remove(activity);
        let ticket = self
            .shared
            .with(activity, |tasks| tasks.want(wanted.clone()));
        let shared = &*self.shared;
        let _waiter = Waiter {
            shared,
            activity,
            ticket,
        };
        let patience = ask.call.remaining().saturating_sub(TO_ANSWER);
        let waited = tokio::time::timeout(patience, self.await_task(activity, wanted)).await;
        waited.unwrap_or_else(|_| Err(not_come(ask.verb)))
    }

    async fn await_task(&self, activity: &str, wanted: &Address) -> Result<String> {
        loop {
            let news = self.shared.news.notified();
            if let Some(token) = self.held(activity, wanted) {
                return Ok(token);
            }
            if let Some(error) = lock(&self.shared.broken).remove(activity) {
                return Err(error);
            }
            self.see_to_it(activity);
            news.await;
        }
    }

    /// Makes sure that the activity is polled, and that heartbeats are sent for the tasks that were taken.
    fn see_to_it(&self, activity: &str) {
        let polled = self.shared.with(activity, |tasks| {
            std::mem::replace(&mut tasks.is_polled, true)
        });
        if !polled {
            let (shared, activity) = (self.shared.clone(), activity.to_owned());
            self.own(&tokio::spawn(async move { shared.poll(&activity).await }));
        }
        if !std::mem::replace(&mut *lock(&self.shared.beats), true) {
            let shared = self.shared.clone();
            self.own(&tokio::spawn(async move { shared.keep_alive().await }));
        }
    }

    fn own(&self, task: &JoinHandle<()>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    }
}

impl Shared {
    fn with<T>(&self, activity: &str, look: impl FnOnce(&mut ActivityTasks) -> T) -> T {
        let mut activities = lock(&self.activities);
        if !activities.contains_key(activity) {
            activities.insert(activity.to_owned(), ActivityTasks::default());
        }
        let tasks = activities.get_mut(activity).expect("it was just put there");
        look(tasks)
    }

    /// Takes one task after the other, for as long as someone waits for one that has not come.
    async fn poll(&self, activity: &str) {
        loop {
            let goes_on = self.with(activity, |tasks| {
                tasks.is_polled = tasks.is_short();
                tasks.is_polled
            });
            if !goes_on {
                return;
            }
            let taken = self.take_one(activity).await;
            if let Err(error) = taken {
                self.with(activity, |tasks| tasks.is_polled = false);
                lock(&self.broken).insert(activity.to_owned(), error);
                self.news.notify_waiters();
                return;
            }
            self.news.notify_waiters();
        }
    }

    async fn take_one(&self, activity: &str) -> Result<()> {
        let held: usize = lock(&self.activities)
            .values()
            .map(ActivityTasks::len)
            .sum();
        if held >= MOST_HELD {
            return Err(full());
        }
        let call = Call::within(LONGEST_POLL);
        let ask = Ask {
            call: &call,
            verb: Verb::Signal,
        };
        let Some((token, input)) = self.client.next_task(ask, activity).await? else {
            return Ok(());
        };
        let Some(address) = Address::read(&input) else {
            // There is no way to give it back. Not kept alive, it ends by its own timeout.
            tracing::warn!(
                activity,
                "a task names no execution, so it cannot be answered"
            );
            return Err(nameless(activity));
        };
        self.with(activity, |tasks| tasks.keep(HeldTask { address, token }));
        Ok(())
    }

    /// Sends heartbeats while any task is taken or awaited, and forgets tasks that are over.
    async fn keep_alive(&self) {
        let mut due = self.clock.now();
        loop {
            due += self.beat;
            self.wait_until(due).await;
            let held = futures::stream::iter(self.all_held());
            held.for_each_concurrent(BEATS_AT_ONCE, |(activity, token)| async move {
                self.heartbeat(&activity, &token).await;
            })
            .await;
            let mut beats = lock(&self.beats);
            let activities = lock(&self.activities);
            if activities
                .values()
                .all(|tasks| tasks.len() == 0 && !tasks.is_polled)
            {
                *beats = false;
                return;
            }
        }
    }

    async fn heartbeat(&self, activity: &str, token: &str) {
        let call = Call::within(LONGEST_BEAT);
        let ask = Ask {
            call: &call,
            verb: Verb::Signal,
        };
        let beat = self.client.heartbeat(ask, token).await;
        if beat.is_err_and(|error| is_over(&error)) {
            self.with(activity, |tasks| tasks.drop_token(token));
        }
    }

    async fn wait_until(&self, due: Instant) {
        loop {
            let left = due.saturating_duration_since(self.clock.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    fn all_held(&self) -> Vec<(String, String)> {
        let activities = lock(&self.activities);
        let of_one = |(activity, tasks): (&String, &ActivityTasks)| {
            let named = |token| (activity.clone(), token);
            tasks.tokens().map(named).collect::<Vec<_>>()
        };
        activities.iter().flat_map(of_one).collect()
    }
}

/// Whether the service says that a token answers nothing any more.
pub(crate) fn is_over(error: &Error) -> bool {
    let words = ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"];
    words.contains(&error.native_code.as_str())
}

fn not_come(verb: Verb) -> Error {
    let message = "the activity did not hand out the task in time";
    Error::new(ErrorKind::Timeout, verb, message)
        .with_hint("Send the signal again. A task that the activity hands out meanwhile is kept for this execution.")
}

fn full() -> Error {
    let message = format!("{MOST_HELD} tasks are kept for executions that have received no signal");
    Error::new(ErrorKind::Throttled, Verb::Signal, message)
        .with_reason("INBOX_FULL")
        .with_retry_after(Duration::from_secs(60))
        .with_hint("Signal or cancel the executions that wait, or give each kind of step its own activity.")
}

fn nameless(activity: &str) -> Error {
    let message = format!("a task of `{activity}` does not name its execution");
    Error::new(ErrorKind::FailedPrecondition, Verb::Signal, message)
        .with_reason("ACTIVITY_NOT_ADDRESSABLE")
        .with_hint(
            "Every state that uses this activity must have `stateway` in its parameters (docs/providers/step-functions.md).",
        )
}
