//! Watching the approvals: the engine pushes the executions that wait for a person, and what is pending
//! in each of them is compared with what was reported of it.
//!
//! An execution whose pending approvals are the same as before costs nothing. Its log is read when an
//! approval has ended, to say how, and when a policy rule asks, to name the request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use stateway_engine::{Change, Changes, Engine, ListQuery, View};
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Approval, ApprovalState, ApprovalStream, Call, ErrorKind, Result, Verb, Version,
    WatchedApproval,
};

use super::read;
use crate::BuiltinProvider;
use crate::line::Line;
use stateway_hosted::inbox::{Case, Kind, approval, pending};
use stateway_hosted::version;

/// Executions per page while the current set is read.
const PAGE: usize = 50;
/// How long reading one page or one log may take.
const PATIENCE: Duration = Duration::from_secs(10);
const VERB: Verb = Verb::WatchApprovals;

/// Follows the pending approvals; those of now come first.
pub(super) async fn watch(provider: &BuiltinProvider, call: &Call) -> Result<ApprovalStream> {
    let line = provider.line.clone();
    line.carry(call, VERB, async { Ok(()) }).await?;
    let watcher = Watcher {
        // Subscribed before anything is read, so that no change falls between the two.
        changes: provider.engine.watch_inbox(),
        engine: provider.engine.clone(),
        line,
        page: Page::From(None),
        meanwhile: BTreeMap::new(),
        reported: HashMap::new(),
        ready: VecDeque::new(),
    };
    let items = stream::unfold(Some(watcher), |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(item) => Some((Ok(item?), Some(watcher))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(items.boxed())
}

struct Watcher {
    engine: Engine,
    line: Line,
    changes: Changes,
    page: Page,
    /// The newest of the changes that came while the current set was read, by execution.
    meanwhile: BTreeMap<i64, Change>,
    /// What was reported of each execution that waits for a person.
    reported: HashMap<i64, Reported>,
    ready: VecDeque<WatchedApproval>,
}

/// How far the current set has been read.
enum Page {
    From(Option<i64>),
    Done,
}

/// What was reported of one execution.
#[derive(Default)]
struct Reported {
    version: Option<Version>,
    /// What was pending, as the execution shows it without its log.
    pending: Vec<Approval>,
    /// What was reported of it.
    approvals: Vec<Approval>,
}

impl Watcher {
    /// The next item; none when so much was missed that everything has to be read again.
    async fn next(&mut self) -> Result<Option<WatchedApproval>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            match self.page {
                Page::From(before) => {
                    if !self.read_page(before).await? {
                        return Ok(None);
                    }
                }
                Page::Done => match self.changes.next().await {
                    Ok(change) => self.take(&change).await?,
                    Err(_missed) => return Ok(None),
                },
            }
        }
    }

    /// Reads the next page of the current set; false if changes were missed.
    async fn read_page(&mut self, before: Option<i64>) -> Result<bool> {
        let query = ListQuery {
            inbox: true,
            before,
            limit: PAGE,
            ..ListQuery::default()
        };
        let call = Call::within(PATIENCE);
        let page = self.engine.list(query);
        let page = self.line.carry(&call, VERB, page).await?;
        for view in &page.items {
            self.compare(view).await?;
        }
        while let Some(change) = self.changes.next().now_or_never() {
            let Ok(change) = change else {
                return Ok(false);
            };
            self.meanwhile.insert(number_of(&change), change);
        }
        if let Some(next) = page.next {
            self.page = Page::From(Some(next));
            return Ok(true);
        }
        self.page = Page::Done;
        for change in std::mem::take(&mut self.meanwhile).into_values() {
            self.take(&change).await?;
        }
        self.ready.push_back(WatchedApproval::InSync);
        Ok(true)
    }

    async fn take(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Seen(view) => self.compare(view).await,
            Change::Removed(removed) => {
                let reported = self.reported.remove(&removed.number);
                let gone = reported.unwrap_or_default().approvals.into_iter();
                self.ready
                    .extend(gone.map(|approval| WatchedApproval::Gone(approval.id)));
                Ok(())
            }
        }
    }

    /// Reports the difference between an execution and what was reported of it.
    async fn compare(&mut self, view: &View) -> Result<()> {
        let Ok(execution) = ExecutionId::new(&*view.id) else {
            return Ok(());
        };
        let mut cases = pending(view);
        cases.retain(|case| case.kind() == Kind::Approval);
        let shown_of = |case: &Case| approval(&execution, view, case);
        let pending: Vec<Approval> = cases.iter().map(shown_of).collect();
        let before = self.reported.get(&view.number);
        let is_older = before.is_some_and(|before| Some(version(view)) < before.version);
        if is_older || before.map_or(&[][..], |before| &before.pending) == pending {
            return Ok(());
        }
        let before = self.reported.remove(&view.number).unwrap_or_default();
        let ended = |approval: &Approval| !pending.iter().any(|one| one.id == approval.id);
        let approvals =
            if cases.iter().any(Case::is_of_a_rule) || before.approvals.iter().any(ended) {
                let logged = self.logged(&view.id).await?;
                let logged = logged.map(|cases| cases.iter().map(shown_of).collect::<Vec<_>>());
                self.report_ended(&before.approvals, logged.as_deref());
                let logged = logged.unwrap_or_default().into_iter();
                logged.filter(is_pending).collect()
            } else {
                pending.clone()
            };
        let is_news = |approval: &&Approval| !before.approvals.contains(approval);
        let news = approvals.iter().filter(is_news).cloned();
        self.ready
            .extend(news.map(|approval| WatchedApproval::Seen(Box::new(approval))));
        if !pending.is_empty() || !approvals.is_empty() {
            let reported = Reported {
                version: Some(version(view)),
                pending,
                approvals,
            };
            self.reported.insert(view.number, reported);
        }
        Ok(())
    }

    /// Every approval of an execution; none where the log is gone or damaged.
    async fn logged(&self, id: &Arc<str>) -> Result<Option<Vec<Case>>> {
        let call = Call::within(PATIENCE);
        match read::cases_of((&self.engine, &self.line), &call, VERB, id).await {
            Ok(mut cases) => {
                cases.retain(|case| case.kind() == Kind::Approval);
                Ok(Some(cases))
            }
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::DataLoss) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports how approvals ended that are not pending any more.
    fn report_ended(&mut self, before: &[Approval], logged: Option<&[Approval]>) {
        for approval in before {
            let last = logged.and_then(|logged| logged.iter().find(|one| one.id == approval.id));
            match last {
                Some(last) if is_pending(last) => {}
                Some(last) => {
                    let last = Box::new(last.clone());
                    self.ready.push_back(WatchedApproval::Seen(last));
                }
                None => {
                    let gone = WatchedApproval::Gone(approval.id.clone());
                    self.ready.push_back(gone);
                }
            }
        }
    }
}

fn is_pending(approval: &Approval) -> bool {
    approval.state == ApprovalState::Pending
}

fn number_of(change: &Change) -> i64 {
    match change {
        Change::Seen(seen) => seen.number,
        Change::Removed(removed) => removed.number,
    }
}
