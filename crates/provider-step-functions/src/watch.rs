//! Watching every execution of the account. The service pushes nothing, so this stream lists and
//! reads, within the quotas, and never lists what is known to have finished a second time.
//!
//! - The current set is one list of everything, newest first.
//! - Then each round lists the newest executions of each state machine, down to the newest one that
//!   is known, and the open ones. An open execution that is missing from the second list is
//!   described: it has ended, or the list lags behind.
//! - In between, open executions are read in turn, as often as [`Cache`](crate::cache::Cache) and the
//!   quota of histories allow.

mod followed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, ErrorKind, Observation, Result, Verb, View, WatchStream, Watched,
};

use crate::client::{Ask, ExecutionsQuery};
use crate::machines::Machines;
use crate::quota::Api;
use crate::reader::{RESERVE, Reader};
use crate::request::LARGEST_PAGE;
use crate::response::{Basics, Page, RUNNING};
use followed::Followed;

/// Rows asked for first where only new ones are looked for; where they are all new, more follow.
const NEW_ROWS: u32 = 100;
/// The shortest and the longest time between two rounds.
const FASTEST: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_secs(5);
/// The part of the quota of lists that rounds use in the long run.
const SHARE: f64 = 0.5;
/// The open executions are listed at least this often, to find those that were redriven.
const OPEN_LISTED: Duration = Duration::from_secs(60);
/// How often some of the open executions are read, and how many.
const READ_EVERY: Duration = Duration::from_secs(1);
const READ_AT_ONCE: usize = 100;
/// The most executions that are described in one round because they seem to have ended.
const MOST_ENDED: usize = 50;
/// No call of a round may take longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of rounds in a row that may fail before the stream fails.
const MOST_FAILURES: u32 = 3;
/// The stream ends after this, so that the gateway opens it again and notices what the service has
/// forgotten.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How often a wait checks the clock, which tests move.
const TICK: Duration = Duration::from_millis(100);

/// Follows every execution.
pub(crate) async fn all(
    reader: Arc<Reader>,
    machines: Arc<Machines>,
    call: &Call,
) -> Result<WatchStream> {
    let verb = Verb::WatchAll;
    let listed = machines.listed(Ask { call, verb }, None).await?;
    let now = reader.clock.now();
    let follower = Follower {
        unread: listed.into_iter().map(|machine| (machine, None)).collect(),
        reader,
        machines,
        followed: BTreeMap::new(),
        ready: VecDeque::new(),
        in_sync: false,
        began: now,
        round_due: now,
        read_due: now,
        read_after: None,
        pause: FASTEST,
        failures: 0,
        lists: 0,
    };
    Ok(stream::unfold(Some(follower), Follower::next).boxed())
}

struct Follower {
    reader: Arc<Reader>,
    machines: Arc<Machines>,
    followed: BTreeMap<String, Followed>,
    ready: VecDeque<Watched>,
    /// The state machines whose executions are still to be listed for the current set, with the
    /// service's token of the next page.
    unread: VecDeque<(String, Option<String>)>,
    in_sync: bool,
    began: Instant,
    round_due: Instant,
    read_due: Instant,
    /// The open execution that was read last.
    read_after: Option<String>,
    pause: Duration,
    failures: u32,
    /// Calls of ListExecutions since the round began.
    lists: u32,
}

impl Follower {
    async fn next(follower: Option<Self>) -> Option<(Result<Watched>, Option<Self>)> {
        let mut follower = follower?;
        loop {
            if let Some(item) = follower.ready.pop_front() {
                return Some((Ok(item), Some(follower)));
            }
            if follower.now().saturating_duration_since(follower.began) > LIFETIME {
                return None;
            }
            if let Err(error) = follower.advance().await {
                return Some((Err(error), None));
            }
        }
    }

    fn now(&self) -> Instant {
        self.reader.clock.now()
    }

    /// Does what is next: a page of the current set, a round, or reading some that are open.
    async fn advance(&mut self) -> Result<()> {
        if let Some((machine, token)) = self.unread.pop_front() {
            return self.read_present(machine, token).await;
        }
        if !self.in_sync {
            self.in_sync = true;
            self.ready.push_back(Watched::InSync);
            self.round_due = self.now() + FASTEST;
            return Ok(());
        }
        self.wait().await;
        let done = if self.now() >= self.round_due {
            self.round().await
        } else {
            self.read_open().await
        };
        match done {
            Ok(()) => self.failures = 0,
            Err(error) if self.failures < MOST_FAILURES && error.kind.is_retryable() => {
                self.failures += 1;
                let pause = error.retry_after.unwrap_or(SLOWEST).max(SLOWEST);
                self.round_due = self.now() + pause;
                self.read_due = self.round_due;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for the next round or until open executions are to be read.
    async fn wait(&self) {
        let any_open = self.followed.values().any(|it| !it.open.is_empty());
        let due = if any_open {
            self.round_due.min(self.read_due)
        } else {
            self.round_due
        };
        loop {
            let left = due.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    /// Reads a page of the current set of one state machine.
    async fn read_present(&mut self, machine: String, token: Option<String>) -> Result<()> {
        let page = self.page(&machine, None, (LARGEST_PAGE, token)).await?;
        let followed = self.followed.entry(machine.clone()).or_default();
        let fresh = followed.take(page.rows, None);
        self.report(fresh).await;
        if let Some(next) = page.next {
            self.unread.push_front((machine, Some(next)));
        }
        Ok(())
    }

    /// Looks for what is new and what has ended.
    async fn round(&mut self) -> Result<()> {
        self.lists = 0;
        let call = Call::within(PATIENCE);
        let verb = Verb::WatchAll;
        let machines = self
            .machines
            .listed(Ask { call: &call, verb }, None)
            .await?;
        self.followed
            .retain(|machine, _| machines.contains(machine));
        let before = self.ready.len();
        for machine in machines {
            self.list_newest(&machine).await?;
            self.list_open(&machine).await?;
        }
        let news = self.ready.len() > before;
        self.plan(news).await;
        Ok(())
    }

    async fn plan(&mut self, news: bool) {
        let rate = self.reader.client.rate(Api::ListExecutions).await * SHARE;
        let share = Duration::try_from_secs_f64(f64::from(self.lists) / rate.max(f64::EPSILON));
        let shortest = FASTEST.max(share.unwrap_or(SLOWEST));
        self.pause = if news {
            shortest
        } else {
            (self.pause * 2).min(SLOWEST).max(shortest)
        };
        self.round_due = self.now() + self.pause;
    }

    /// Lists the newest executions of a state machine, down to what is known.
    async fn list_newest(&mut self, machine: &str) -> Result<()> {
        let followed = self.followed.entry(machine.to_owned()).or_default();
        let known_before = followed.known_before();
        let (mut size, mut token) = (NEW_ROWS, None);
        loop {
            let page = self.page(machine, None, (size, token)).await?;
            size = LARGEST_PAGE;
            let last = page.rows.last().map(|row| row.started);
            let reached = last.is_some_and(|started| started < known_before);
            let followed = self.followed.entry(machine.to_owned()).or_default();
            let fresh = followed.take(page.rows, known_before);
            self.report(fresh).await;
            token = page.next;
            if reached || token.is_none() {
                break;
            }
        }
        if let Some(followed) = self.followed.get_mut(machine) {
            followed.forget_old_endings();
        }
        Ok(())
    }

    /// Lists the open executions of a state machine, and describes those that are open no more.
    async fn list_open(&mut self, machine: &str) -> Result<()> {
        let now = self.now();
        let followed = self.followed.entry(machine.to_owned()).or_default();
        let listed = followed.open_listed;
        let is_old = listed.is_none_or(|at| now.saturating_duration_since(at) >= OPEN_LISTED);
        if followed.open.is_empty() && !is_old {
            return Ok(());
        }
        let (mut running, mut token) = (Vec::new(), None);
        loop {
            let page = self
                .page(machine, Some(RUNNING), (LARGEST_PAGE, token))
                .await?;
            running.extend(page.rows);
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        let listed: BTreeSet<String> = running.iter().map(|row| row.arn.clone()).collect();
        let followed = self.followed.entry(machine.to_owned()).or_default();
        followed.open_listed = Some(now);
        running.retain(|row| !followed.open.contains(&row.arn));
        let ended: Vec<String> = followed
            .open
            .iter()
            .filter(|arn| !listed.contains(*arn))
            .take(MOST_ENDED)
            .cloned()
            .collect();
        let fresh = followed.take(running, None);
        self.report(fresh).await;
        for arn in ended {
            if !self
                .reader
                .client
                .spare(Api::DescribeExecution, RESERVE)
                .await
            {
                break;
            }
            self.describe(arn).await?;
        }
        Ok(())
    }

    /// Reads some of the open executions, one after the other over time.
    async fn read_open(&mut self) -> Result<()> {
        self.read_due = self.now() + READ_EVERY;
        let after = self.read_after.take();
        let open: BTreeSet<&String> = self.followed.values().flat_map(|it| &it.open).collect();
        let later = open
            .iter()
            .filter(|arn| after.as_ref().is_none_or(|after| **arn > after));
        let ids: Vec<ExecutionId> = later
            .take(READ_AT_ONCE)
            .filter_map(|arn| ExecutionId::new(arn.as_str()).ok())
            .collect();
        // After the last execution `ids` is empty, so the next turn begins with the first one.
        self.read_after = ids.last().map(ToString::to_string);
        let call = Call::within(PATIENCE);
        let verb = Verb::WatchAll;
        let answers = self.reader.observe(Ask { call: &call, verb }, &ids).await;
        for (id, answer) in ids.into_iter().zip(answers) {
            self.take_answer(id, answer)?;
        }
        Ok(())
    }

    /// Describes an execution that seems to have ended.
    async fn describe(&mut self, arn: String) -> Result<()> {
        let Ok(id) = ExecutionId::new(arn.as_str()) else {
            return Ok(());
        };
        self.reader.cache.forget(&arn);
        let call = Call::within(PATIENCE);
        let verb = Verb::WatchAll;
        let ask = Ask { call: &call, verb };
        let answer = self.reader.get(ask, &arn, View::Basic).await;
        self.take_answer(id, answer)
    }

    fn take_answer(&mut self, id: ExecutionId, answer: Result<Observation>) -> Result<()> {
        match answer {
            Ok(seen) => {
                if seen.end_time.is_some() {
                    self.ended(id.as_str(), &seen);
                }
                self.ready.push_back(Watched::seen(seen));
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.ended(
                    id.as_str(),
                    &Observation::new(id.clone(), Default::default()),
                );
                self.ready.push_back(Watched::Gone(id));
            }
            Err(error) if error.kind.is_outage() => return Err(error),
            // What is wrong with one is not wrong with the others; it is read again later.
            Err(error) => tracing::debug!(%error, execution = %id, "not read"),
        }
        Ok(())
    }

    fn ended(&mut self, arn: &str, seen: &Observation) {
        for followed in self.followed.values_mut() {
            if followed.open.contains(arn) {
                followed.ended(arn, seen.start_time);
            }
        }
    }

    /// Reports rows of a list. Open ones are read as far as the quota allows.
    async fn report(&mut self, rows: Vec<Basics>) {
        let arns: Vec<_> = rows.iter().map(|row| row.arn.clone()).collect();
        let call = Call::within(PATIENCE);
        let verb = Verb::WatchAll;
        let shown = self.reader.refine(Ask { call: &call, verb }, rows).await;
        for (arn, seen) in arns.iter().zip(shown) {
            match seen {
                Ok(seen) => self.ready.push_back(Watched::seen(seen)),
                Err(error) => tracing::debug!(%error, execution = arn, "not read"),
            }
        }
    }

    /// A page of a list, once the quota has a turn to spare.
    async fn page(
        &mut self,
        machine: &str,
        status: Option<&str>,
        (size, token): (u32, Option<String>),
    ) -> Result<Page<Basics>> {
        while !self.reader.client.spare(Api::ListExecutions, RESERVE).await {
            tokio::time::sleep(TICK).await;
        }
        self.lists += 1;
        let call = Call::within(PATIENCE);
        let ask = Ask {
            call: &call,
            verb: Verb::WatchAll,
        };
        let query = ExecutionsQuery {
            machine,
            status,
            size,
            token: token.as_deref(),
            turn_taken: true,
        };
        let page = self.reader.client.executions(ask, query).await;
        // A state machine that was deleted has no executions.
        match page {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Page {
                rows: Vec::new(),
                next: None,
            }),
            page => page,
        }
    }
}
