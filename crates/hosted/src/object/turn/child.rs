//! Children of an execution: objects of their own, reached by messages.
//!
//! A message is delivered once, but two messages to one object may change places when they take
//! different ways: a start goes through the object of the definition, an end goes to the child directly. A
//! child that is ended before it is started finds a note about it.

use std::sync::Arc;

use stateway_driver::{Outcome, Step, open_keys};
use stateway_machine::{
    ChildOrder, Data, Failure, Verb, cancel_child, check_child_depth, child_id, child_not_started,
    create_child,
};
use stateway_model::Usage;

use super::{Execution, Message};
use crate::message::{
    ChildOf, ChildRequest, ChildStart, ObjectRequest, Refusal, StartWork, VERSION, Work,
};

/// The cause of the events of a parent whose child has ended.
const CHILD: &str = "child";
/// The cause of the events of a child whose parent ends.
const PARENT: &str = "parent";

impl Execution {
    /// Sends what a step of the driver wants of children, and to the parent when the execution has ended.
    pub(super) fn carry_out_children(&mut self, request: &ObjectRequest, step: &Step) {
        for ended in &step.end_children {
            self.send_end(request, &ended.id, ended.kill);
        }
        for order in &step.cancel_children {
            self.send_end(request, &child_id(&order.key), false);
        }
        for order in &step.start_children {
            self.start_child(request, order);
        }
        if let Some(outcome) = &step.ended {
            self.tell_parent(request, outcome);
        }
    }

    /// Takes the end of a child, if the execution waits for it.
    pub(super) fn finish_child(
        &mut self,
        request: &ObjectRequest,
        child: ChildOf,
        outcome: Result<Data, Failure>,
        usage: Usage,
    ) {
        // A parent whose work is done again waits for another child.
        if child.branch != self.state.branch() {
            return;
        }
        let finish = Verb::FinishChild {
            step: child.step,
            attempt: child.attempt,
            outcome,
            usage,
        };
        // A parent that has ended or continued does not wait any more.
        let _ = self.command(request, finish);
    }

    /// Ends this execution because its parent ends.
    pub(in crate::object) fn end_child(
        &mut self,
        request: &ObjectRequest,
        kill: bool,
    ) -> Result<(), Refusal> {
        self.command(request, cancel_child(kill))
    }

    /// Forgets the children that nothing waits for.
    pub(super) fn drop_ended_children(&mut self) {
        if self.kept.children.is_empty() {
            return;
        }
        let open = open_keys(&self.state);
        let open: Vec<_> = open.iter().map(child_id).collect();
        self.kept.children.retain(|id| open.contains(id));
    }

    /// Orders a child once: a step of the driver may name a child that runs already.
    fn start_child(&mut self, request: &ObjectRequest, order: &ChildOrder) {
        let id = child_id(&order.key);
        if self.kept.children.contains(&id) {
            return;
        }
        let depth = self.kept.child.as_ref().map_or(0, |child| child.depth) + 1;
        if let Err(failure) = check_child_depth(depth) {
            let _ = self.command(request, child_not_started(&order.key, failure));
            return;
        }
        let Verb::Create {
            correlation,
            initiator,
            input,
            redone_by,
            ..
        } = create_child(&self.state, order)
        else {
            return;
        };
        let task = &order.key.task;
        let child = ChildStart {
            of: ChildOf {
                parent: Arc::clone(&self.kept.id),
                branch: order.key.branch,
                step: Arc::clone(&task.step),
                attempt: task.attempt,
            },
            depth,
            correlation,
            redone_by,
        };
        let start = StartWork {
            definition: Arc::clone(&order.definition),
            source: "".into(),
            labels: self.kept.labels.clone(),
            not_before: None,
            input,
            by: initiator,
            child: Some(child),
        };
        let order_child = ChildRequest {
            v: VERSION,
            at: self.now(request),
            id: Arc::clone(&id),
            start,
        };
        self.kept.children.push(id);
        let definition = Arc::clone(&order.definition);
        self.messages
            .push(Message::Definition(definition, Box::new(order_child)));
    }

    pub(super) fn send_end(&mut self, request: &ObjectRequest, child: &Arc<str>, kill: bool) {
        self.send(request, (child, PARENT), Work::EndChild { kill });
    }

    fn tell_parent(&mut self, request: &ObjectRequest, outcome: &Outcome) {
        let Some(child) = self.kept.child.clone() else {
            return;
        };
        let parent = Arc::clone(&child.of.parent);
        let finish = Work::FinishChild {
            child: child.of,
            outcome: outcome.result.clone(),
            usage: outcome.usage,
        };
        self.send(request, (&parent, CHILD), finish);
    }

    fn send(&mut self, request: &ObjectRequest, (to, cause): (&Arc<str>, &str), work: Work) {
        let message = ObjectRequest {
            v: VERSION,
            id: cause.into(),
            at: self.now(request),
            body: None,
            work,
            claim: None,
        };
        let message = Message::Execution(Arc::clone(to), Box::new(message));
        // What one request leads to twice is sent once.
        if !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }
}
