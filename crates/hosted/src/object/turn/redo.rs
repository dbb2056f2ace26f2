//! Leaving the log at an earlier point: on a new branch, or as a copy.

use std::sync::Arc;

use stateway_driver::leave;
use stateway_machine::{Verb, decode_row, restore};
use stateway_model::ErrorKind;

use super::{Execution, ObjectRecord, check_id, invalid, orders};
use crate::Plans;
use crate::message::{ForkWork, ObjectRequest, RedoWork, Refusal};

impl Execution {
    /// Continues on a new branch. Tasks and children of the part that is left end.
    pub(super) fn redo(
        &mut self,
        request: &ObjectRequest,
        redo: RedoWork,
        plans: &Plans,
    ) -> Result<(), Refusal> {
        if redo.head != (self.state.branch(), self.state.sequence()) {
            let message = "something has happened since the log was read";
            return Err(Refusal::new(ErrorKind::Conflict, "LOG_CHANGED", message)
                .hint("Repeat the request."));
        }
        let plan = plans.of_source(&redo.source, &self.kept.definition);
        let plan = plan.map_err(|why| invalid("INVALID_DEFINITION", why))?;
        let before = restore(plan, redo.before.as_bytes());
        let before = before.map_err(|error| invalid("INVALID_REQUEST", error.to_string()))?;
        let left = leave(&self.state);
        self.withdraw(left.withdraw);
        for child in &left.end_children {
            self.send_end(request, &child.id, child.kill);
        }
        self.kept.children.clear();
        self.kept.leases.clear();
        self.state = before;
        self.source = Some(redo.source);
        self.command(request, *redo.verb)?;
        self.take_back(request)
    }

    /// A copy of another execution.
    pub(in crate::object) fn fork(
        object: &str,
        request: &ObjectRequest,
        fork: ForkWork,
        plans: &Plans,
    ) -> Result<Self, Refusal> {
        check_id(object, false)?;
        let plan = plans.of_source(&fork.source, &fork.definition);
        let plan = plan.map_err(|why| invalid("INVALID_DEFINITION", why))?;
        let state = restore(plan, fork.before.as_bytes());
        let state = state.map_err(|error| invalid("INVALID_REQUEST", error.to_string()))?;
        let events = decode_row(fork.log.as_bytes());
        let events = events.map_err(|(_, error)| invalid("INVALID_REQUEST", error.to_string()))?;
        let body = request.body.clone().unwrap_or_default();
        let kept = ObjectRecord::new(
            (object.into(), fork.definition),
            (Arc::clone(&request.id), body),
            fork.labels,
            (request.at, None),
        );
        let mut execution = Self::of(kept, state);
        execution.events = events;
        execution.source = Some(fork.source);
        execution.command(request, *fork.verb)?;
        execution.take_back(request)?;
        Ok(execution)
    }

    /// Attempts that were with workers on the log that was left wait for a worker again.
    fn take_back(&mut self, request: &ObjectRequest) -> Result<(), Refusal> {
        let open = orders(&self.state).into_iter();
        let held: Vec<_> = open.filter(|order| order.worker.is_some()).collect();
        for order in held {
            let task = order.key.task;
            self.command(request, Verb::ReleaseTask { task, lost: false })?;
        }
        Ok(())
    }
}
