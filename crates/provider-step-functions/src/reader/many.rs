//! Many executions in one call, for watches and lists: the most urgent first, within what the quota has
//! to spare; the others are shown as they were last seen.

use std::collections::BTreeMap;

use futures::StreamExt;
use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::Round;
use stateway_provider_api::{Observation, Result, View};

use super::{RESERVE, Reader};
use crate::client::{Ask, ExecutionsQuery};
use crate::id::ExecutionArn;
use crate::qualifier;
use crate::quota::Api;
use crate::request::{LARGEST_PAGE, arn};
use crate::response::{Basics, RUNNING, observation, with_history};
use crate::steps::with_items;

/// From so many unknown executions of one state machine on, one page of a list is cheaper than
/// describing each.
const SWEEP_FROM: usize = 5;
/// The maximum number of concurrent reads of executions.
const AT_ONCE: usize = 16;

impl Reader {
    /// Many executions, in as few calls as it takes.
    pub(crate) async fn observe(
        &self,
        ask: Ask<'_>,
        ids: &[ExecutionId],
    ) -> Vec<Result<Observation>> {
        self.sweep(ask, ids).await;
        let seen = ids.iter().filter_map(|id| self.cache.get(id.as_str()));
        let unread = seen
            .filter(|seen| seen.read.is_none())
            .map(|seen| seen.basics.clone());
        self.learn_definitions(ask, unread.collect()).await;
        let round = self.round(ids.iter().map(ExecutionId::as_str)).await;
        let mut looks = Vec::with_capacity(ids.len());
        for id in ids {
            looks.push(self.glance_at(ask, id, round));
        }
        futures::stream::iter(looks)
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    async fn glance_at(&self, ask: Ask<'_>, id: &ExecutionId, round: Round) -> Result<Observation> {
        self.glance(ask, arn(id, ask.verb)?, round).await
    }

    /// Which of these are read with what the quota has to spare.
    async fn round(&self, requested: impl Iterator<Item = &str>) -> Round {
        let reads = self.client.turns(Api::GetExecutionHistory, RESERVE).await;
        self.cache.round(requested, (reads, self.clock.now()))
    }

    /// Rows of a list, in their order.
    pub(crate) async fn refine(&self, ask: Ask<'_>, rows: Vec<Basics>) -> Vec<Result<Observation>> {
        let (now, open) = (self.clock.now(), |row: &&Basics| row.status == RUNNING);
        let news: Vec<Basics> = rows.iter().filter(open).cloned().collect();
        for row in &news {
            self.cache.note(row.clone(), now);
        }
        let round = self.round(news.iter().map(|row| row.arn.as_str())).await;
        self.learn_definitions(ask, news).await;
        let mut looks = Vec::with_capacity(rows.len());
        for row in rows {
            looks.push(self.refine_one(ask, row, round));
        }
        futures::stream::iter(looks)
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    async fn refine_one(&self, ask: Ask<'_>, row: Basics, round: Round) -> Result<Observation> {
        if row.status == RUNNING {
            self.glance(ask, &row.arn, round).await
        } else {
            self.show(ask, row, None).await
        }
    }

    /// One of many executions: read if it is due, urgent enough, and the quota allows it; else
    /// shown in its last known state.
    async fn glance(&self, ask: Ask<'_>, arn: &str, round: Round) -> Result<Observation> {
        let Some(known) = self.cache.scheduled(arn) else {
            return self.get(ask, arn, View::Basic).await;
        };
        let seen = &known.value;
        let definition = self.known_definition(&seen.basics);
        if let (true, Some(definition)) = (round.admits(&known), definition)
            && self.client.spare(Api::GetExecutionHistory, RESERVE).await
        {
            let basics = seen.basics.clone();
            let (shown, ended) = self.read(ask, basics, definition, true).await?;
            return if ended {
                self.get(ask, arn, View::Basic).await
            } else {
                Ok(shown)
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
                shown.native = shown.native.with(qualifier::HISTORY, "unread");
                shown.is_partial = true;
                shown
            }
        };
        Ok(shown)
    }

    /// Learns of many unknown executions of one state machine by one page of a list. If the list
    /// cannot be read, each execution is described instead.
    async fn sweep(&self, ask: Ask<'_>, ids: &[ExecutionId]) {
        let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
        for id in ids.iter().map(ExecutionId::as_str) {
            if let (Some(parsed), None) = (ExecutionArn::parse(id), self.cache.get(id)) {
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
            open.for_each(|row| self.cache.note(row, self.clock.now()));
        }
    }

    /// Asks for definitions, the newest execution first: whatever started between it and the last
    /// update runs the same one.
    async fn learn_definitions(&self, ask: Ask<'_>, mut of: Vec<Basics>) {
        of.sort_by_key(|basics| std::cmp::Reverse(basics.started));
        for basics in of {
            let known =
                self.cache.read(&basics.arn).is_some() || self.cache.definition(&basics).is_some();
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
                Ok(told) => drop(self.cache.keep_definition(&basics, told)),
                Err(error) => {
                    tracing::debug!(%error, "definition not read, its executions are shown without steps");
                    return;
                }
            }
        }
    }
}
