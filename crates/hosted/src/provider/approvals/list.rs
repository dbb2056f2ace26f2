//! Lists of approvals and escalations, a page at a time.
//!
//! The newest execution is first; of one execution the requests of the newest branch are first, then by
//! step, then the newest attempt. Nothing in this order changes with a decision, so a page can end between
//! two requests of one execution. What is pending is known from the views. Every other state is known from
//! the logs alone, so a page reads a bounded number of logs and may be short or empty without being the
//! last one.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use stateway_driver::View;
use stateway_model::{ErrorKind, ExecutionId};
use stateway_provider_api::adapter::cursor;
use stateway_provider_api::{Call, Error, InboxHints, InboxRequest, Result, Verb};

use super::super::{HostPort, HostedProvider, ViewQuery, stored};
use super::read;
use crate::inbox::{Case, CaseId, Kind, Stage, pending, roles};

/// How many executions are read at a time.
const EXECUTIONS_PER_READ: usize = 50;
/// The most executions with something pending that are read for one page, where the hints admit little.
const MOST_PENDING: usize = 400;
/// The most executions whose logs are read for one page.
const MOST_LOGS: usize = 200;

/// An execution and its cases that pass the hints.
pub(super) struct ExecutionCases {
    pub(super) execution: ExecutionId,
    pub(super) view: View,
    pub(super) cases: Vec<Case>,
}

/// Where a page begins: after this execution, or inside it after this request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    created: i64,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// One list.
pub(super) struct Inbox<'p, P> {
    provider: &'p HostedProvider<P>,
    call: &'p Call,
    verb: Verb,
    kind: Kind,
}

impl<'p, P: HostPort> Inbox<'p, P> {
    pub(super) const fn new(
        provider: &'p HostedProvider<P>,
        call: &'p Call,
        verb: Verb,
        kind: Kind,
    ) -> Self {
        Self {
            provider,
            call,
            verb,
            kind,
        }
    }

    /// The executions of one page, and the cursor of the next one.
    pub(super) async fn page(
        &self,
        request: &InboxRequest,
    ) -> Result<(Vec<ExecutionCases>, Option<String>)> {
        let at: Option<Position> = cursor::read(CURSOR, request.cursor.as_deref(), self.verb)?;
        let most = request.page_size.max(1);
        if let Some(id) = &request.hints.execution {
            let mut found = self.of_execution(id, &request.hints).await?;
            let next = self.take(at.as_ref(), &mut found, most)?;
            return Ok((vec![found], next.map(|next| cursor::write(CURSOR, &next))));
        }
        let (found, next) = self.older(request, at).await?;
        Ok((found, next.map(|next| cursor::write(CURSOR, &next))))
    }

    async fn older(
        &self,
        request: &InboxRequest,
        mut at: Option<Position>,
    ) -> Result<(Vec<ExecutionCases>, Option<Position>)> {
        let hints = &request.hints;
        let most = if hints.pending_only {
            MOST_PENDING
        } else {
            MOST_LOGS
        };
        let (mut found, mut left, mut read) = (Vec::new(), request.page_size.max(1), 0);
        while read < most {
            let query = ViewQuery {
                before: at.as_ref().map(Position::before),
                limit: EXECUTIONS_PER_READ,
                open_only: false,
                awaits_person: hints.pending_only,
                forked_from: None,
                definition: hints.definition.clone(),
            };
            let port = &self.provider.host.port;
            let page = port.views(self.call, self.verb, &query).await?;
            read += page.len();
            let is_last = page.len() < EXECUTIONS_PER_READ;
            for value in &page {
                if left == 0 {
                    return Ok((found, at));
                }
                let (created, id) = super::super::place(self.verb, value)?;
                // One view that cannot be read does not hide the others.
                if let Ok(seen) = stored(self.verb, value)
                    && let Some(mut one) = self.of_view(seen.view, hints).await?
                {
                    if let Some(inside) = self.take(at.as_ref(), &mut one, left)? {
                        found.push(one);
                        return Ok((found, Some(inside)));
                    }
                    left -= one.cases.len();
                    found.push(one);
                }
                let after = None;
                at = Some(Position { created, id, after });
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, at))
    }

    /// Every case of one execution, of every branch.
    async fn of_execution(&self, id: &ExecutionId, hints: &InboxHints) -> Result<ExecutionCases> {
        let log = self.provider.log(self.call, self.verb, id).await?;
        let wanted = hints.definition.as_deref();
        let cases = if wanted.is_none_or(|wanted| *wanted == *log.seen.view.definition) {
            read::cases(&log, self.verb)?
        } else {
            Vec::new()
        };
        Ok(ExecutionCases {
            execution: id.clone(),
            cases: self.admitted(hints, cases),
            view: log.seen.view,
        })
    }

    /// The cases of an execution that pass; nothing where none does.
    async fn of_view(&self, view: View, hints: &InboxHints) -> Result<Option<ExecutionCases>> {
        let Ok(execution) = ExecutionId::new(&*view.id) else {
            return Ok(None);
        };
        let wanted = hints.definition.as_deref();
        if wanted.is_some_and(|wanted| *wanted != *view.definition) {
            return Ok(None);
        }
        let cases = if hints.pending_only {
            pending(&view)
        } else {
            match self.provider.log(self.call, self.verb, &execution).await {
                Ok(log) => read::cases(&log, self.verb).unwrap_or_default(),
                // It was purged meanwhile, or is damaged; the others are listed all the same.
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::DataLoss) => {
                    Vec::new()
                }
                Err(error) => return Err(error),
            }
        };
        let cases = self.admitted(hints, cases);
        Ok((!cases.is_empty()).then_some(ExecutionCases {
            execution,
            view,
            cases,
        }))
    }

    fn admitted(&self, hints: &InboxHints, mut cases: Vec<Case>) -> Vec<Case> {
        let configured = &self.provider.escalation_roles;
        let (role, step) = (hints.role.as_ref(), hints.step.as_ref());
        cases.retain(|case| {
            case.kind() == self.kind
                && (!hints.pending_only || case.stage() == Stage::Pending)
                && step.is_none_or(|step| **step == *case.step)
                && role.is_none_or(|role| roles(case, configured).contains(role))
        });
        cases.sort_by(Case::in_list);
        cases
    }

    /// Leaves the requests of an execution that belong to this page: those from the position on, and at
    /// most so many. The position of the rest, if there is a rest.
    fn take(
        &self,
        at: Option<&Position>,
        found: &mut ExecutionCases,
        most: usize,
    ) -> Result<Option<Position>> {
        if let Some(at) = at.filter(|at| at.id == found.execution.as_str())
            && let Some(after) = &at.after
        {
            let last = CaseId::read(after).ok_or_else(|| Error::foreign_cursor(self.verb))?;
            let follows = |case: &Case| last.in_list(&case.id()) == Ordering::Less;
            found.cases.retain(follows);
        }
        if found.cases.len() <= most {
            return Ok(None);
        }
        found.cases.truncate(most);
        let last = found.cases.last().map(|last| last.id().to_string());
        Ok(Some(Position {
            created: found.view.number,
            id: found.execution.to_string(),
            after: last,
        }))
    }
}

impl Position {
    /// Executions that come after this place in the list. A place inside an execution includes it.
    fn before(&self) -> (i64, String) {
        let mut id = self.id.clone();
        if self.after.is_some() {
            // No id has a space: the execution itself is read again, and no other one.
            id.push(' ');
        }
        (self.created, id)
    }
}

/// Lists of executions have cursors of another name.
const CURSOR: &str = "inbox";
