//! Lists of approvals and escalations, a page at a time.
//!
//! A page is made of executions, so that a cursor is one number: an execution with three requests gives
//! three rows, and a page may be a few rows longer than asked for. What is pending is known without
//! reading a log. Every other state is known from the logs alone, so a page reads at most a bounded
//! number of them, may be short or empty, and is the last one only when it has no cursor.

use stateway_engine::{ListQuery, View};
use stateway_machine::ExecutionState;
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Error, ErrorKind, InboxHints, InboxRequest, Result, Verb};

use super::case::{Case, Stage, pending};
use super::id::Kind;
use super::{read, roles};
use crate::BuiltinProvider;

/// Executions that the engine is asked for at once.
const EXECUTIONS_PER_READ: usize = 50;
/// The most executions with something pending that are read for one page, where the hints admit little.
const MOST_PENDING: usize = 400;
/// The most executions whose logs are read for one page.
const MOST_LOGS: usize = 200;

/// An execution and its cases that pass the hints.
pub(super) struct Found {
    pub(super) execution: ExecutionId,
    pub(super) view: View,
    pub(super) cases: Vec<Case>,
}

/// One list.
#[derive(Clone, Copy)]
pub(super) struct Inbox<'p> {
    pub(super) provider: &'p BuiltinProvider,
    pub(super) call: &'p Call,
    pub(super) verb: Verb,
    pub(super) kind: Kind,
}

impl Inbox<'_> {
    /// The executions of one page, and the cursor of the next one.
    pub(super) async fn page(self, request: &InboxRequest) -> Result<(Vec<Found>, Option<String>)> {
        let hints = &request.hints;
        if let Some(id) = &hints.execution {
            let found = self.of_execution(id, hints).await?;
            return Ok((vec![found], None));
        }
        let mut before: Option<i64> = match request.cursor.as_deref() {
            None => None,
            Some(cursor) => Some(
                cursor
                    .parse()
                    .map_err(|_| Error::foreign_cursor(self.verb))?,
            ),
        };
        let most = if hints.pending_only {
            MOST_PENDING
        } else {
            MOST_LOGS
        };
        let (mut found, mut rows, mut read) = (Vec::new(), 0, 0);
        while rows < request.page_size && read < most {
            let limit = EXECUTIONS_PER_READ.min(request.page_size - rows);
            let page = self.provider.engine.list(self.query(hints, before, limit));
            let page = self.provider.line.carry(self.call, self.verb, page).await?;
            read += page.items.len();
            for view in page.items {
                if let Some(one) = self.of_view(view, hints).await? {
                    rows += one.cases.len();
                    found.push(one);
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        Ok((found, before.map(|before| before.to_string())))
    }

    /// Every case of one execution, of every branch.
    async fn of_execution(self, id: &ExecutionId, hints: &InboxHints) -> Result<Found> {
        let view = self.provider.engine.get(id.as_str().into());
        let view = self.provider.line.carry(self.call, self.verb, view).await?;
        let wanted = hints.definition.as_deref();
        let cases = if wanted.is_none_or(|wanted| *wanted == *view.definition) {
            read::cases(self.provider, self.call, self.verb, &view.id).await?
        } else {
            Vec::new()
        };
        Ok(Found {
            execution: id.clone(),
            cases: self.admitted(hints, cases),
            view,
        })
    }

    fn query(self, hints: &InboxHints, before: Option<i64>, limit: usize) -> ListQuery {
        let inbox = hints.pending_only;
        // A step may wait for an approval beside others that run, so only an escalation has a state.
        let states = match self.kind {
            Kind::Escalation if inbox => vec![ExecutionState::Escalated],
            Kind::Escalation | Kind::Approval => Vec::new(),
        };
        ListQuery {
            states,
            inbox,
            definition: hints.definition.clone(),
            before,
            limit,
            ..ListQuery::default()
        }
    }

    /// The cases of an execution that pass; nothing where none does.
    async fn of_view(self, view: View, hints: &InboxHints) -> Result<Option<Found>> {
        let Ok(execution) = ExecutionId::new(&*view.id) else {
            return Ok(None);
        };
        let pending = pending(&view);
        let known = !pending.iter().any(Case::is_of_a_rule);
        let cases = if hints.pending_only && known {
            pending
        } else {
            match read::cases(self.provider, self.call, self.verb, &view.id).await {
                Ok(mut cases) => {
                    cases.reverse();
                    cases
                }
                // It was purged meanwhile, or is damaged; the others are listed all the same.
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::DataLoss) => {
                    Vec::new()
                }
                Err(error) => return Err(error),
            }
        };
        let cases = self.admitted(hints, cases);
        Ok((!cases.is_empty()).then_some(Found {
            execution,
            view,
            cases,
        }))
    }

    fn admitted(self, hints: &InboxHints, mut cases: Vec<Case>) -> Vec<Case> {
        let configured = self.provider.engine.escalation_roles();
        let (role, step) = (hints.role.as_ref(), hints.step.as_ref());
        cases.retain(|case| {
            case.kind() == self.kind
                && (!hints.pending_only || case.stage() == Stage::Pending)
                && step.is_none_or(|step| **step == *case.step)
                && role.is_none_or(|role| roles(case, configured).contains(role))
        });
        cases
    }
}
