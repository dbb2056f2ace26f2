//! Lists of approvals and escalations, a page at a time.
//!
//! The newest execution is first; of one execution the requests of the newest branch are first, then by
//! step, then the newest attempt. Nothing in this order changes with a decision, so a page can end between
//! two requests of one execution. What is pending is known without reading a log. Every other state is
//! known from the logs alone, so a page reads at most a bounded number of logs, may be short or empty, and
//! is the last one only when it has no cursor.

use stateway_engine::{ListQuery, View};
use stateway_machine::ExecutionState;
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, ErrorKind, InboxHints, InboxRequest, Result, Verb};

use super::position::Position;
use super::read;
use crate::BuiltinProvider;
use stateway_hosted::inbox::{Case, Kind, Stage, pending, roles};

/// The number of executions that the engine is asked for in one call.
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
        let position = Position::parse(self.verb, request.cursor.as_deref())?;
        if let Some(id) = &hints.execution {
            let mut found = self.of_execution(id, hints).await?;
            let next = position.take(&mut found, request.page_size.max(1));
            return Ok((vec![found], next.map(|next| next.to_string())));
        }
        let (found, next) = self.older(request, position).await?;
        Ok((found, next.map(|next| next.to_string())))
    }

    /// The executions of one page from a position on, and the position of the next page.
    async fn older(
        self,
        request: &InboxRequest,
        mut position: Position,
    ) -> Result<(Vec<Found>, Option<Position>)> {
        let hints = &request.hints;
        let most = if hints.pending_only {
            MOST_PENDING
        } else {
            MOST_LOGS
        };
        let (mut found, mut left, mut read) = (Vec::new(), request.page_size.max(1), 0);
        while left > 0 && read < most {
            let limit = EXECUTIONS_PER_READ.min(left);
            let query = self.query(hints, position.before(), limit);
            let page = self.provider.engine.list(query);
            let page = self.provider.line.carry(self.call, self.verb, page).await?;
            read += page.items.len();
            for view in page.items {
                if left == 0 {
                    return Ok((found, Some(position)));
                }
                let number = view.number;
                if let Some(mut one) = self.of_view(view, hints).await? {
                    if let Some(inside) = position.take(&mut one, left) {
                        found.push(one);
                        return Ok((found, Some(inside)));
                    }
                    left -= one.cases.len();
                    found.push(one);
                }
                position = Position::Older(number);
            }
            if page.next.is_none() {
                return Ok((found, None));
            }
        }
        Ok((found, Some(position)))
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
            labels: hints.labels.clone(),
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
                Ok(cases) => cases,
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
        cases.sort_by(Case::in_list);
        cases
    }
}
