//! Before a task is handed out: the policy rules decide, and their decision is recorded.

use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_machine::{PolicyDecision, Task, Verb, later, seeking, task_request, usage};

use super::{Keeper, Live};
use crate::cause;
use crate::policy::{PolicyQuestion, PolicyVerdict, Ruling};

impl Keeper {
    /// Whether the rules let a task be handed out. A decision that does not leaves the attempt
    /// failed, or waiting for a person.
    pub(super) fn is_permitted(&mut self, number: i64, task: &Task) -> bool {
        if task.undo {
            return true;
        }
        let Some(policy) = self.config.policy.clone() else {
            return true;
        };
        let Some(live) = self.executions.get(number) else {
            return false;
        };
        let mut rulings = Vec::new();
        for role in roles(live, task) {
            let ruling = question(live, task, &role, |question| policy.decide(question));
            rulings.extend(ruling.filter(|ruling| !rulings.contains(ruling)));
        }
        rulings
            .into_iter()
            .all(|ruling| self.is_permitted_by(number, task, ruling))
    }

    /// Records a ruling. False: the task is not ready to be handed out any more.
    fn is_permitted_by(&mut self, number: i64, task: &Task, ruling: Ruling) -> bool {
        let Some(live) = self.executions.get(number) else {
            return false;
        };
        let Ruling { rule, verdict } = ruling;
        let decision = match verdict {
            PolicyVerdict::Allow => PolicyDecision::Allow,
            PolicyVerdict::Deny { message } => PolicyDecision::Deny { message },
            PolicyVerdict::RequireApproval {
                role,
                expires_after,
            } => PolicyDecision::RequireApproval {
                role,
                due: expires_after.map(|after| later(live.time(self.now.wall), after)),
            },
        };
        let verb = Verb::DecidePolicy {
            task: task.clone(),
            rule,
            decision,
        };
        let cause: Arc<str> = cause::POLICY.into();
        if let Err(error) = self.command(number, &cause, verb) {
            tracing::warn!(number, step = %task.step, "a policy decision was rejected: {error}");
            return false;
        }
        let ready = self.executions.get(number).is_some_and(|live| {
            let mut ready = seeking(&live.state).into_iter();
            ready.any(|ready| ready.step == task.step)
        });
        // Deciding put the task up again; the caller hands it out.
        self.dispatch.remove(number, &task.step);
        ready
    }
}

/// The roles that the rules are checked with: the definition's, and that of the workers if a person
/// reassigned the step. Reassigning a step never evades a rule.
fn roles(live: &Live, task: &Task) -> Vec<Arc<str>> {
    let define = live.state.plan().step_definition(&task.step);
    let own = define.map_or("", |define| match &define.kind {
        StepKind::Task { agent, .. } => agent.as_str(),
        _ => "",
    });
    let mut roles = vec![Arc::from(own)];
    let seeks = seeking(&live.state);
    let seeks = seeks.into_iter().find(|seeks| seeks.step == task.step);
    roles.extend(seeks.map(|seeks| seeks.role).filter(|role| **role != *own));
    roles
}

/// Asks about a task for workers of a role.
fn question<T>(
    live: &Live,
    task: &Task,
    role: &str,
    ask: impl FnOnce(&PolicyQuestion<'_>) -> Option<T>,
) -> Option<T> {
    let state = &live.state;
    let define = state.plan().step_definition(&task.step)?;
    let seeks = seeking(state);
    let seeks = seeks.iter().find(|seeks| seeks.step == task.step)?;
    let action = match &define.kind {
        StepKind::Task { action, .. } => action.clone(),
        StepKind::Http { .. } => task_request(state, &task.step)
            .ok()
            .flatten()
            .map(|request| format!("{} {}", request.method, request.url))
            .unwrap_or_default(),
        _ => String::new(),
    };
    ask(&PolicyQuestion {
        execution: &live.origin.id,
        definition: &live.origin.definition,
        step: &task.step,
        kind: define.kind.as_str(),
        role,
        skill: &seeks.skill,
        action,
        labels: &live.origin.labels,
        tenant: live.origin.tenant(),
        initiator: state.initiator(),
        attempt: task.attempt,
        usage: usage(state),
    })
}
