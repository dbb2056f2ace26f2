//! Looking at executions: what is asked of the service for one answer, and what is spared.
//!
//! One execution is described, and its history is read only if it is open. Many executions are read
//! according to their known state ([`many`]).

mod many;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use stateway_provider_api::{Observation, Result, StepObservation, Verb, View};

use crate::cache::{Cache, Read};
use crate::client::{Ask, Client, HistoryQuery};
use crate::pages::FIRST_PAGE;
use crate::quota::Api;
use crate::response::{
    Basics, ItemCounts, Page, RUNNING, basics, observation, with_history, with_payloads,
};
use crate::steps::{map_runs, with_items};
use crate::{Clock, Definition, Event, Fold, HistoryPages};

/// What watches and lists leave of each bucket to those who ask for one execution.
pub(crate) const RESERVE: f64 = 0.25;
/// Of how many distributed Maps of one execution the items are counted.
const MOST_MAP_RUNS: usize = 3;

/// The service and what is remembered of it.
pub(crate) struct Reader {
    pub(crate) client: Arc<Client>,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    pub(crate) most_pages: usize,
    /// The activities that people answer: whether a step waits for one is in the definition.
    pub(crate) people: Vec<String>,
}

impl Reader {
    /// One execution, as it is now.
    pub(crate) async fn get(&self, ask: Ask<'_>, arn: &str, view: View) -> Result<Observation> {
        if let Some(seen) = self.look_again(ask, arn, view).await? {
            return Ok(seen);
        }
        let told = self.client.describe(ask, arn).await?;
        let seen = self.show(ask, basics(&told), told.input.as_ref()).await?;
        Ok(with_payloads(seen, (&told.input, &told.output), view))
    }

    /// The look after a glimpse: what was described then still holds, so that the definition can
    /// be asked for instead. `None` where it has to be described after all.
    async fn look_again(&self, ask: Ask<'_>, arn: &str, view: View) -> Result<Option<Observation>> {
        let Some(seen) = self.cache.get(arn) else {
            return Ok(None);
        };
        let Some(glimpsed) = &seen.glimpsed else {
            return Ok(None);
        };
        if view == View::Full && glimpsed.input.is_none() {
            return Ok(None);
        }
        let definition = self.definition(ask, &seen.basics).await?;
        let basics = seen.basics.clone();
        let (shown, ended) = self.read(ask, basics, definition, false).await?;
        let payloads = (&glimpsed.input, &None);
        Ok((!ended).then(|| with_payloads(shown, payloads, view)))
    }

    /// What is shown of an execution that was just described or listed.
    async fn show(
        &self,
        ask: Ask<'_>,
        basics: Basics,
        input: Option<&String>,
    ) -> Result<Observation> {
        if basics.status != RUNNING {
            self.cache.forget(&basics.arn);
            return observation(&basics, ask.verb);
        }
        if let Some(definition) = self.known_definition(&basics) {
            let (seen, _) = self.read(ask, basics, definition, false).await?;
            return Ok(seen);
        }
        let page = self.newest_page(ask, &basics.arn).await?;
        let glimpsed_before = self
            .cache
            .get(&basics.arn)
            .is_some_and(|seen| seen.glimpsed.is_some());
        let glimpse = glimpse(&page).filter(|fold| !fold.is_at(&self.people));
        if let (Some(fold), false) = (glimpse, glimpsed_before) {
            let seen = observation(&basics, ask.verb)?;
            let seen = with_history(seen, &fold, &Definition::default(), Timestamp::now());
            self.cache.glimpse(basics, input, self.clock.now());
            return Ok(seen);
        }
        let definition = self.definition(ask, &basics).await?;
        let fold = self
            .fold_from(ask, &basics.arn, &definition, Start::After(page))
            .await?;
        Ok(self.keep(ask, basics, definition, fold).await?.0)
    }

    async fn newest_page(&self, ask: Ask<'_>, arn: &str) -> Result<Page<Event>> {
        let query = HistoryQuery {
            arn,
            size: FIRST_PAGE,
            newest_first: true,
            with_data: false,
            token: None,
            turn_taken: false,
        };
        self.client.history(ask, query).await
    }

    /// Reads the history as far as it takes, remembers that, and shows the outcome.
    async fn read(
        &self,
        ask: Ask<'_>,
        basics: Basics,
        definition: Arc<Definition>,
        turn_taken: bool,
    ) -> Result<(Observation, bool)> {
        let fold = self.fold(ask, &basics.arn, &definition, turn_taken).await?;
        self.keep(ask, basics, definition, fold).await
    }

    /// Remembers how far a history was read, and shows the outcome.
    async fn keep(
        &self,
        ask: Ask<'_>,
        basics: Basics,
        definition: Arc<Definition>,
        fold: Fold,
    ) -> Result<(Observation, bool)> {
        let now = Timestamp::now();
        let mut seen = with_history(observation(&basics, ask.verb)?, &fold, &definition, now);
        let items = self.items(ask, &basics.arn, (&fold, &definition, now));
        let items = Box::pin(items).await;
        for (step, items) in &items {
            with_items(&mut seen.steps, step, items);
        }
        let ended = fold.ending().is_some();
        if ended {
            self.cache.forget(&basics.arn);
        } else {
            let next = next_attempt(&seen.steps, now);
            let read = Read {
                fold,
                definition,
                items,
            };
            self.cache.keep(basics, read, next, self.clock.now());
        }
        Ok((seen, ended))
    }

    /// The items of the distributed Maps that are open: counted again if the quota has a call to
    /// spare, else as they were counted last. To be without them is no failure.
    async fn items(
        &self,
        ask: Ask<'_>,
        arn: &str,
        (fold, definition, now): (&Fold, &Definition, Timestamp),
    ) -> BTreeMap<String, ItemCounts> {
        let runs = map_runs(fold, definition, now);
        if runs.is_empty() {
            return BTreeMap::new();
        }
        let known = self.cache.read(arn);
        let mut items = BTreeMap::new();
        for (step, run) in runs.into_iter().take(MOST_MAP_RUNS) {
            let before = known
                .as_ref()
                .and_then(|read| read.items.get(&step).copied());
            let reserve = if ask.verb == Verb::Get { 0.0 } else { RESERVE };
            let counted = if self.client.spare(Api::DescribeMapRun, reserve).await {
                self.client.items_in_turn(ask, &run).await
            } else {
                Ok(before)
            };
            let counted = counted.unwrap_or_else(|error| {
                tracing::debug!(%error, "map run not read, its items are not counted");
                before
            });
            items.extend(counted.map(|counted| (step, counted)));
        }
        items
    }

    pub(crate) async fn fold(
        &self,
        ask: Ask<'_>,
        arn: &str,
        definition: &Arc<Definition>,
        turn_taken: bool,
    ) -> Result<Fold> {
        let start = Start::Newest { turn_taken };
        self.fold_from(ask, arn, definition, start).await
    }

    async fn fold_from(
        &self,
        ask: Ask<'_>,
        arn: &str,
        definition: &Arc<Definition>,
        start: Start,
    ) -> Result<Fold> {
        let known = self.cache.read(arn);
        let known = known.filter(|read| read.definition == *definition && !read.fold.is_partial());
        let mut pages = HistoryPages::new(
            definition,
            known.map(|read| read.fold.clone()),
            self.most_pages,
        );
        let (mut token, mut turn_taken) = (None, false);
        match start {
            Start::Newest { turn_taken: taken } => turn_taken = taken,
            Start::After(page) => {
                pages.take(page.rows, page.next.is_some());
                token = page.next;
            }
        }
        while let Some(size) = pages.wants() {
            let query = HistoryQuery {
                arn,
                size,
                newest_first: true,
                with_data: false,
                token: token.as_deref(),
                turn_taken,
            };
            let page = self.client.history(ask, query).await?;
            turn_taken = false;
            pages.take(page.rows, page.next.is_some());
            token = page.next;
        }
        Ok(pages.finish())
    }

    /// The definition that an execution runs: known, or asked for.
    pub(crate) async fn definition(&self, ask: Ask<'_>, of: &Basics) -> Result<Arc<Definition>> {
        if let Some(known) = self.known_definition(of) {
            return Ok(known);
        }
        let told = self.client.definition(ask, &of.arn).await?;
        Ok(self.cache.keep_definition(of, told))
    }

    fn known_definition(&self, of: &Basics) -> Option<Arc<Definition>> {
        let read = self.cache.read(&of.arn);
        read.map(|read| Arc::clone(&read.definition))
            .or_else(|| self.cache.definition(of))
    }
}

/// Where reading begins.
enum Start {
    /// At the newest event. `turn_taken` when a turn of the quota was taken before.
    Newest { turn_taken: bool },
    /// After the newest page, which was read.
    After(Page<Event>),
}

/// What the newest page of a long history shows without the definition: the one step that runs, if
/// that is what it shows. Whatever else may be open, an execution with a step that runs is running,
/// so the sub-state is certain; that there may be more is marked as partial.
fn glimpse(page: &Page<Event>) -> Option<Fold> {
    page.next.as_ref()?;
    let unknown = Definition::default();
    let mut pages = HistoryPages::new(&unknown, None, 1);
    pages.take(page.rows.clone(), true);
    let fold = pages.finish();
    fold.runs_in_sequence().then_some(fold)
}

/// How long until the first attempt that is scheduled.
fn next_attempt(steps: &[StepObservation], now: Timestamp) -> Option<Duration> {
    let times = steps
        .iter()
        .filter_map(|step| step.retry.as_ref()?.next_attempt_time);
    let next = times.min()?;
    Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
}
