//! Many executions at once, for watches and lists: the most urgent first, within what the quota has
//! to spare; the others are shown as they were last seen.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{Observation, Result, View};

use super::{Looker, RESERVE};
use crate::arn::ExecutionArn;
use crate::client::{Ask, ExecutionsQuery};
use crate::quota::Api;
use crate::request::{LARGEST_PAGE, arn};
use crate::response::{Basics, RUNNING, observation, with_history};
use crate::steps::with_items;

/// From so many unknown executions of one state machine on, one page of a list is cheaper than
/// describing each.
const SWEEP_FROM: usize = 5;
/// How many executions are looked at at the same time.
const AT_ONCE: usize = 16;

impl Looker {
    /// Many executions, in as few calls as it takes.
    pub(crate) async fn observe(
        &self,
        ask: Ask<'_>,
        ids: &[ExecutionId],
    ) -> Vec<Result<Observation>> {
        self.sweep(ask, ids).await;
        let seen = ids.iter().filter_map(|id| self.book.get(id.as_str()));
        let unread = seen
            .filter(|seen| seen.read.is_none())
            .map(|seen| seen.basics);
        self.learn_definitions(ask, unread.collect()).await;
        let bar = self.bar(ids.iter().map(ExecutionId::as_str)).await;
        let mut looks = Vec::with_capacity(ids.len());
        for id in ids {
            looks.push(self.glance_at(ask, id, bar));
        }
        futures::stream::iter(looks)
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    async fn glance_at(
        &self,
        ask: Ask<'_>,
        id: &ExecutionId,
        bar: Duration,
    ) -> Result<Observation> {
        self.glance(ask, arn(id, ask.verb)?, bar).await
    }

    /// How urgent something must be to be looked at with what the quota has to spare.
    async fn bar(&self, asked: impl Iterator<Item = &str>) -> Duration {
        let looks = self.client.turns(Api::GetExecutionHistory, RESERVE).await;
        self.book.bar(asked, (looks, self.clock.now()))
    }

    /// Rows of a list, in their order.
    pub(crate) async fn refine(&self, ask: Ask<'_>, rows: Vec<Basics>) -> Vec<Result<Observation>> {
        let (now, open) = (self.clock.now(), |row: &&Basics| row.status == RUNNING);
        let news: Vec<Basics> = rows.iter().filter(open).cloned().collect();
        for row in &news {
            self.book.note(row.clone(), now);
        }
        let bar = self.bar(news.iter().map(|row| row.arn.as_str())).await;
        self.learn_definitions(ask, news).await;
        let mut looks = Vec::with_capacity(rows.len());
        for row in rows {
            looks.push(self.refine_one(ask, row, bar));
        }
        futures::stream::iter(looks)
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    async fn refine_one(&self, ask: Ask<'_>, row: Basics, bar: Duration) -> Result<Observation> {
        match row.status == RUNNING {
            true => self.glance(ask, &row.arn, bar).await,
            false => self.show(ask, row, None).await,
        }
    }

    /// One of many: looked at if it is due, urgent enough, and the quota has something to spare, else
    /// shown as it was last seen.
    async fn glance(&self, ask: Ask<'_>, arn: &str, bar: Duration) -> Result<Observation> {
        let Some(seen) = self.book.get(arn) else {
            return self.get(ask, arn, View::Basic).await;
        };
        let definition = self.known_definition(&seen.basics);
        let now = self.clock.now();
        let wanted = seen.is_due(now) && seen.urgency(now) >= bar;
        if let (true, Some(definition)) = (wanted, definition)
            && self.client.spare(Api::GetExecutionHistory, RESERVE).await
        {
            let (shown, ended) = self.read(ask, seen.basics, definition, true).await?;
            return match ended {
                true => self.get(ask, arn, View::Basic).await,
                false => Ok(shown),
            };
        }
        let shown = observation(&seen.basics, ask.verb)?;
        let shown = match &seen.read {
            Some(read) => {
                let now = Timestamp::now();
                let mut shown = with_history(shown, &read.fold, &read.definition, now);
                for (step, items) in &read.items {
                    with_items(&mut shown.steps, step, items);
                }
                shown
            }
            None => {
                let mut shown = shown;
                shown.native = shown.native.with("history", "unread");
                shown
            }
        };
        Ok(self.shown(shown))
    }

    /// Learns of many unknown executions of one state machine by one page of a list. A list that
    /// cannot be had is no failure: then each execution is described.
    async fn sweep(&self, ask: Ask<'_>, ids: &[ExecutionId]) {
        let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
        for id in ids.iter().map(ExecutionId::as_str) {
            if let (Some(parsed), None) = (ExecutionArn::parse(id), self.book.get(id)) {
                *unknown.entry(parsed.machine_arn()).or_default() += 1;
            }
        }
        let many = unknown
            .into_iter()
            .filter(|(_, count)| *count >= SWEEP_FROM);
        for (machine, _) in many {
            let query = ExecutionsQuery {
                machine: &machine,
                status: Some(RUNNING),
                size: LARGEST_PAGE,
                token: None,
                turn_taken: false,
            };
            let Ok(page) = self.client.executions(ask, query).await else {
                continue;
            };
            let open = page.rows.into_iter().filter(|row| row.status == RUNNING);
            open.for_each(|row| self.book.note(row, self.clock.now()));
        }
    }

    /// Asks for definitions, the newest execution first: whatever started between it and the last
    /// update runs the same one.
    async fn learn_definitions(&self, ask: Ask<'_>, mut of: Vec<Basics>) {
        of.sort_by_key(|basics| std::cmp::Reverse(basics.started));
        for basics in of {
            let known = self
                .book
                .get(&basics.arn)
                .is_some_and(|seen| seen.read.is_some())
                || self.book.definition(&basics).is_some();
            if known {
                continue;
            }
            if !self
                .client
                .spare(Api::DescribeStateMachineForExecution, RESERVE)
                .await
            {
                return;
            }
            match self.client.definition_in_turn(ask, &basics.arn).await {
                Ok(told) => drop(self.book.keep_definition(&basics, told)),
                Err(error) => {
                    tracing::debug!(%error, "definition not read, its executions are shown without steps");
                    return;
                }
            }
        }
    }
}
