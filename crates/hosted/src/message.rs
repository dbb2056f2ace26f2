//! Requests to the objects, their answers, and the stored view.
//!
//! Everything is JSON. Requests have a version, and a host refuses a version that it does not know.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_driver::View;
use stateway_driver::refusal_of;
use stateway_machine::{Awaited, Data, Failure, HttpRequest, Rejection, Task, Verb};
use stateway_model::{ErrorKind, Labels, SubState, Usage};

/// The version of requests, answers and views that this build writes and reads.
pub const VERSION: u32 = 1;

/// The name of the objects of executions, on engines whose objects have names.
pub const EXECUTION_OBJECT: &str = "stateway.Execution";
/// The name of the objects of definitions.
pub const DEFINITION_OBJECT: &str = "stateway.Definition";

/// One request to the object of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectRequest {
    /// [`VERSION`].
    pub v: u32,
    /// Becomes the causation of the events. With a `body` also the idempotency key.
    pub id: Arc<str>,
    /// The time of the sender. The events are never earlier than the events before them.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// The digest of the request, for requests that the object remembers: the same id with the same
    /// digest has no further effect, with another digest it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Arc<str>>,
    /// What is wanted.
    pub work: Work,
    /// The worker that takes tasks when the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

/// What is wanted of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Start the execution.
    Start(Box<StartWork>),
    /// A command of the machine.
    Verb(Box<Verb>),
    /// A person's decision about an approval or an escalation of this branch. On another branch the same
    /// step and attempt is another request.
    Decide {
        /// The branch of the log.
        branch: u32,
        /// The decision.
        verb: Box<Verb>,
    },
    /// A child has ended, or could not be started.
    FinishChild {
        /// Which step of this execution the child does.
        child: ChildOf,
        /// The output, or why the step fails.
        outcome: Result<Data, Failure>,
        /// The usage of the child, including its own children.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
    },
    /// The parent does not wait for this execution any more, or ends.
    EndChild {
        /// Whether the parent was killed.
        kill: bool,
    },
    /// Nothing; refused with `NOT_ASKED` unless the object remembers the request.
    Asked,
    /// Leave the log at an earlier point and continue on a new branch.
    Redo(Box<RedoWork>),
    /// Start as the copy of another execution, up to a point of its log.
    Fork(Box<ForkWork>),
    /// The result of a hand-out. It counts only while this hand-out has the attempt.
    Settle {
        /// The hand-out.
        hand_out: HandOut,
        /// The result: complete, fail, release or a heartbeat.
        verb: Box<Verb>,
    },
    /// Continue under another revision, if that is possible.
    Adopt {
        /// The source of the revision.
        source: Arc<str>,
        /// Who asks for it.
        by: Arc<str>,
    },
    /// Fire the timers that are due.
    Alarm {
        /// The time for which the alarm was armed.
        #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
        armed: Timestamp,
    },
    /// Nothing but the claim.
    Claim,
    /// A worker is alive: the leases of its tasks begin again.
    Renew {
        /// The worker.
        worker: Arc<str>,
        /// How long the leases last from now on.
        lease: Duration,
    },
    /// Remove everything that is stored of a finished execution.
    Purge,
}

/// Start an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartWork {
    /// The name of the definition.
    pub definition: Arc<str>,
    /// Its source. The execution keeps it.
    pub source: Arc<str>,
    /// What the caller attached.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// When the execution begins; none: now.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub not_before: Option<Timestamp>,
    /// The input.
    pub input: Data,
    /// Who starts it.
    pub by: Arc<str>,
    /// Only of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildStart>,
}

/// Continue from an earlier point of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedoWork {
    /// The branch and the last event of the log that was read. If something has happened since, the request
    /// is refused with `LOG_CHANGED`.
    pub head: (u32, u64),
    /// The source of the revision by which the execution ran where the log is left.
    pub source: Arc<str>,
    /// A snapshot of the state where the log is left.
    pub before: String,
    /// The command that opens the branch.
    pub verb: Box<Verb>,
}

/// Start as the copy of another execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkWork {
    /// The name of the definition.
    pub definition: Arc<str>,
    /// The source of the revision by which the execution runs.
    pub source: Arc<str>,
    /// What the caller attached to the other execution.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// A snapshot of the state after the copied events.
    pub before: String,
    /// The copied events, a line each.
    pub log: String,
    /// The command that continues the copy.
    pub verb: Box<Verb>,
}

/// Which step of which execution a child does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildOf {
    /// The id of the parent.
    pub parent: Arc<str>,
    /// The branch of the parent's log.
    pub branch: u32,
    /// The step.
    pub step: Arc<str>,
    /// Its attempt.
    pub attempt: u32,
}

/// What a child inherits from its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildStart {
    /// The step that it does.
    pub of: ChildOf,
    /// The depth of nesting: 1 for the child of an execution without a parent.
    pub depth: u32,
    /// The correlation of the parent.
    pub correlation: Arc<str>,
    /// People who had a part of the parent run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redone_by: Vec<Arc<str>>,
}

/// The order to start a child, which the parent sends to the object of the definition. That object adds
/// the source and sends the start to the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// [`VERSION`].
    pub v: u32,
    /// The time of the parent.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// The id of the child.
    pub id: Arc<str>,
    /// The start, without a source.
    pub start: StartWork,
}

/// One hand-out of one attempt: the fencing token. A worker that had the attempt before has another
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOut {
    /// The branch of the log.
    pub branch: u32,
    /// Step, attempt, and whether it is a compensation.
    pub task: Task,
    /// The number of the hand-out.
    pub number: u32,
    /// The worker.
    pub worker: Arc<str>,
}

/// A worker that takes tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its id.
    pub worker: Arc<str>,
    /// In whose name it works; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub identity: Arc<str>,
    /// Its roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Arc<str>>,
    /// Its skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Arc<str>>,
    /// Whether it makes the calls of HTTP steps; then it takes no other tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http: bool,
    /// Whose tasks it does; empty: everyone's.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub tenant: Arc<str>,
    /// The most tasks it takes.
    pub most: u32,
    /// How long the worker may be silent until its tasks go to another one. The object keeps the lease,
    /// so a task is released also when the gateway of the worker is gone.
    pub lease: Duration,
    /// Whether the answer also has the tasks that the worker has already: it may have lost them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Tasks of the worker that are not to be sent again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub has: Vec<HandOut>,
    /// The most bytes of inputs in the answer, for an engine whose answers have less room than
    /// [`MAX_CLAIM_BYTES`](crate::object::MAX_CLAIM_BYTES). The first input always fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bytes: Option<usize>,
}

impl Claim {
    /// Whether the worker can do a task.
    #[must_use]
    pub fn takes(&self, task: &OpenTask, tenant: &str) -> bool {
        task.http == self.http
            && (task.role.is_empty() || self.roles.contains(&task.role))
            && (task.skill.is_empty() || self.skills.contains(&task.skill))
            && (self.tenant.is_empty() || *self.tenant == *tenant)
    }
}

/// The answer of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectAnswer {
    /// The request was carried out, or had been before.
    Done(Box<Done>),
    /// The request was refused; nothing has changed.
    Refused(Refusal),
}

/// What became of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The execution now.
    pub seen: StoredView,
    /// The tasks that the claiming worker got, with what it needs to do them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<ClaimedTask>,
    /// The tasks that were taken from workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<WithdrawnTask>,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The word of the kind of error.
    pub kind: String,
    /// A stable word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// What to do; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Refusal {
    pub(crate) fn new(kind: ErrorKind, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            hint: String::new(),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl From<&Rejection> for Refusal {
    fn from(rejection: &Rejection) -> Self {
        let (kind, reason) = refusal_of(rejection);
        Self::new(kind, reason, rejection.to_string()).hint(rejection.hint())
    }
}

/// What is stored of an execution for reads. The first three fields come first in the text: queries order
/// and select by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredView {
    /// The milliseconds of its creation: 13 digits until the year 2286. The order of lists.
    pub n: i64,
    /// Whether tasks are open: 0 none, 1 some wait for a worker, 2 all are with workers.
    pub o: u8,
    /// The sub-state, for counts. Missing in views of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s: Option<SubState>,
    /// The open tasks.
    pub tasks: Vec<OpenTask>,
    /// The id of the execution of which it does a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// The execution.
    pub view: View,
}

impl StoredView {
    /// Whether the execution waits for the decision of a person.
    #[must_use]
    pub fn awaits_person(&self) -> bool {
        let mut awaited = self.view.awaited.iter();
        awaited.any(|it| matches!(it, Awaited::Approval { .. } | Awaited::Person { .. }))
    }
}

/// An open task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTask {
    /// The branch of the log.
    pub branch: u32,
    /// Step, attempt, and whether it is a compensation.
    pub task: Task,
    /// The role a worker must have; empty: any worker.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub role: Arc<str>,
    /// The skill a worker must have; empty: none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub skill: Arc<str>,
    /// Whether it is the call of an HTTP step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http: bool,
    /// The worker that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Arc<str>>,
    /// In whose name that worker took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Arc<str>>,
    /// The number of its hand-out.
    pub hand_out: u32,
    /// The worker is asked to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
}

impl OpenTask {
    /// The hand-out of the worker that has it.
    #[must_use]
    pub fn hand_out(&self) -> Option<HandOut> {
        Some(HandOut {
            branch: self.branch,
            task: self.task.clone(),
            number: self.hand_out,
            worker: Arc::clone(self.worker.as_ref()?),
        })
    }
}

/// A task in the hands of a worker, with what the worker needs to do it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// The task.
    pub open: OpenTask,
    /// What to do, in the worker's terms.
    pub action: Arc<str>,
    /// The input.
    pub input: Data,
    /// The call of an HTTP step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRequest>,
    /// A validator's feedback on the attempt before, or a person's on the work before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Arc<str>>,
    /// When the attempt times out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub due: Option<Timestamp>,
    /// A compensation of a step whose outcome is unknown: the step may have completed or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// How long the worker may be silent about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Duration>,
    /// The policy by which the worker picks its model.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub model_policy: Arc<str>,
}

/// A task that was taken from a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawnTask {
    /// The branch of the log.
    pub branch: u32,
    /// The task.
    pub task: Task,
    /// The worker that had it.
    pub worker: Arc<str>,
    /// Why, as a stable word.
    pub why: stateway_machine::Withdrawal,
}
