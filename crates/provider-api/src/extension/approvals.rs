//! Approvals and escalations: what waits for the decision of a person.

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;
use stateway_model::{ExecutionError, ExecutionId, Labels, Payload, Reason, content_etag};

use super::StepAttempt;
use crate::{Call, CompensationChoice, Error, RequestId, Result, Verb};

/// An engine that asks people to decide. Requires
/// [`Capabilities::approvals`](crate::Capabilities::approvals).
///
/// Every decision carries the caller's name and roles in its [`Call`]; the engine decides who may decide.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// Lists approvals.
    ///
    /// - The newest execution first; of one execution the newest branch first, then by step, then the
    ///   newest attempt.
    /// - A page has at most `page_size` rows; the rows of one execution may be on several pages.
    /// - Hints may only narrow the result: an approval that matches the hints is never left out.
    /// - A page may be empty and not be the last.
    async fn list_approvals(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Approval>>;

    /// Follows the pending approvals. Requires
    /// [`Capabilities::watch_approvals`](crate::Capabilities::watch_approvals).
    ///
    /// - The stream begins with every pending approval, then [`WatchedApproval::InSync`], then reports
    ///   changes.
    /// - An approval that was reported and is decided, expires or is withdrawn is reported in its last
    ///   state; states in between may be left out.
    /// - An approval that was reported and that the engine no longer has, or of which it cannot tell how
    ///   it ended, is reported as [`WatchedApproval::Gone`].
    /// - The stream ends with an error, or without one when the provider has lost track of changes. The
    ///   gateway opens it again and takes the new pending approvals.
    /// - The call's deadline bounds opening the stream, not the stream.
    async fn watch_approvals(&self, call: &Call) -> Result<ApprovalStream> {
        let _ = call;
        Err(Error::unsupported(Verb::WatchApprovals))
    }

    /// Reads an approval with everything that is needed to decide, its input included.
    async fn get_approval(&self, call: &Call, id: &InboxId) -> Result<Approval>;

    /// Decides about an approval.
    ///
    /// - The same decision by the same person is a success again; any other decision about an approval
    ///   that has ended is refused with `FailedPrecondition`.
    /// - A request whose etag is not current is refused with `Conflict`, unless it is a repetition.
    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval>;

    /// Lists escalations. As `list_approvals`.
    async fn list_escalations(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Escalation>>;

    /// Reads an escalation with every attempt that led to it.
    async fn get_escalation(&self, call: &Call, id: &InboxId) -> Result<Escalation>;

    /// Decides about an escalated step. As `decide`.
    async fn resolve(&self, call: &Call, request: ResolveRequest) -> Result<Escalation>;
}

/// What a provider reports to a watch of its approvals. See [`Approvals::watch_approvals`].
pub type ApprovalStream = BoxStream<'static, Result<WatchedApproval>>;

/// One item of an [`ApprovalStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedApproval {
    /// An approval as it is now, without its input.
    Seen(Box<Approval>),
    /// The engine no longer has this approval, or cannot tell how it ended.
    Gone(InboxId),
    /// Everything that was pending when the stream was opened has been reported. Sent once.
    InSync,
}

/// Names an approval or an escalation of an execution. The provider chooses the id; it has no `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId {
    /// The execution.
    pub execution: ExecutionId,
    /// Unique among the execution's approvals, or its escalations.
    pub id: String,
}

/// List approvals or escalations, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxRequest {
    /// What the answer may be narrowed to.
    pub hints: InboxHints,
    /// The most rows of a page, at least 1.
    pub page_size: usize,
    /// The provider's cursor at the end of the previous page.
    pub cursor: Option<String>,
}

/// What a list is narrowed to; an absent field admits everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxHints {
    /// Only what is pending.
    pub pending_only: bool,
    /// Only of this execution; then every state is listed, of every branch.
    pub execution: Option<ExecutionId>,
    /// Only of this portable definition.
    pub definition: Option<String>,
    /// Only what this role may decide.
    pub role: Option<String>,
    /// Only of this step.
    pub step: Option<String>,
    /// Only of executions with all of these labels.
    pub labels: Vec<(String, String)>,
}

/// A page of approvals or escalations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxPage<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` only after the last page.
    pub next: Option<String>,
}

impl<T> Default for InboxPage<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            next: None,
        }
    }
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Its name.
    pub id: InboxId,
    /// How far it is.
    pub state: ApprovalState,
    /// The step that waits for it.
    pub step: String,
    /// The attempt of the step.
    pub attempt: u32,
    /// The branch of the log.
    pub branch: u32,
    /// The role that may decide.
    pub role: String,
    /// The policy rule that asks for it; empty for an approval step.
    pub policy_rule: String,
    /// When it was asked for.
    pub create_time: Timestamp,
    /// When it expires.
    pub expire_time: Option<Timestamp>,
    /// Who decided, once someone has.
    pub decision: Option<PersonDecision>,
    /// The id of the execution's portable definition.
    pub definition: String,
    /// Its revision.
    pub revision: String,
    /// Who started the execution.
    pub initiator: String,
    /// The labels of the execution.
    pub labels: Labels,
    /// The input of the step. Not in lists.
    pub input: Option<Payload>,
}

/// How far an approval is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    /// No decision yet.
    Pending,
    /// Granted.
    Granted,
    /// Rejected.
    Rejected,
    /// No decision in time.
    Expired,
    /// It is not needed any more.
    Withdrawn,
}

impl ApprovalState {
    /// The state in one word. The word is part of the [etag](Approval::etag).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Granted => "granted",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// Who decided, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonDecision {
    /// Who.
    pub by: String,
    /// When.
    pub time: Timestamp,
    /// Why; may be empty.
    pub comment: String,
}

/// One escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// Its name.
    pub id: InboxId,
    /// How far it is.
    pub state: EscalationState,
    /// The step that was escalated.
    pub step: String,
    /// The attempt that led to it.
    pub attempt: u32,
    /// The branch of the log.
    pub branch: u32,
    /// The roles that may decide.
    pub roles: Vec<String>,
    /// Why it was escalated. Not in lists.
    pub reason: Option<Reason>,
    /// The failure that led to it.
    pub error: Option<ExecutionError>,
    /// The policy rule that stopped the attempt; empty without one. Not in lists.
    pub policy_rule: String,
    /// When it was escalated.
    pub create_time: Timestamp,
    /// How it was resolved, once it was.
    pub resolution: Option<Resolution>,
    /// The id of the execution's portable definition.
    pub definition: String,
    /// Who started the execution.
    pub initiator: String,
    /// The labels of the execution.
    pub labels: Labels,
    /// Every attempt of the step until then. Not in lists.
    pub history: Vec<StepAttempt>,
}

/// How far an escalation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscalationState {
    /// No decision yet.
    Pending,
    /// Someone has decided.
    Resolved,
    /// It is not needed any more.
    Withdrawn,
}

impl EscalationState {
    /// The state in one word. The word is part of the [etag](Escalation::etag).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// How an escalation was resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// What is done.
    pub action: ResolutionAction,
    /// Who decided.
    pub decision: PersonDecision,
}

/// What is done about an escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolutionAction {
    /// The step runs again.
    Resume,
    /// The step runs again, for another role.
    Reassign {
        /// The role.
        role: String,
    },
    /// The execution is cancelled.
    Cancel,
}

/// Decide about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecideRequest {
    /// Which one.
    pub id: InboxId,
    /// True grants it, false rejects it.
    pub grant: bool,
    /// Why; may be empty.
    pub comment: String,
    /// The [etag](Approval::etag) the caller has seen; may be empty.
    pub etag: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Decide about an escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRequest {
    /// Which one.
    pub id: InboxId,
    /// What is to be done.
    pub action: ResolutionAction,
    /// Whether a cancellation compensates.
    pub compensation: CompensationChoice,
    /// Why; may be empty.
    pub comment: String,
    /// The [etag](Escalation::etag) the caller has seen; may be empty.
    pub etag: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

impl Approval {
    /// A tag that changes with everything that a decision depends on: the name, the state and the role.
    /// The same in every process.
    #[must_use]
    pub fn etag(&self) -> String {
        let state = self.state.as_str();
        content_etag(&[self.id.execution.as_str(), &self.id.id, state, &self.role])
    }
}

impl Escalation {
    /// A tag that changes with everything that a decision depends on: the name, the state and the roles.
    /// The same in every process.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut texts = vec![self.id.execution.as_str(), &self.id.id, self.state.as_str()];
        texts.extend(self.roles.iter().map(String::as_str));
        content_etag(&texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> InboxId {
        InboxId {
            execution: ExecutionId::new("a").unwrap(),
            id: "charge~1".into(),
        }
    }

    fn approval(state: ApprovalState) -> Approval {
        Approval {
            id: id(),
            state,
            step: "charge".into(),
            attempt: 1,
            branch: 0,
            role: "ops".into(),
            policy_rule: String::new(),
            create_time: Timestamp::UNIX_EPOCH,
            expire_time: None,
            decision: None,
            definition: "order".into(),
            revision: String::new(),
            initiator: String::new(),
            labels: Labels::new(),
            input: None,
        }
    }

    fn escalation(roles: &[&str]) -> Escalation {
        Escalation {
            id: id(),
            state: EscalationState::Pending,
            step: "charge".into(),
            attempt: 1,
            branch: 0,
            roles: roles.iter().map(ToString::to_string).collect(),
            reason: None,
            error: None,
            policy_rule: String::new(),
            create_time: Timestamp::UNIX_EPOCH,
            resolution: None,
            definition: "order".into(),
            initiator: String::new(),
            labels: Labels::new(),
            history: Vec::new(),
        }
    }

    #[test]
    fn etags_are_the_same_in_every_build() {
        let pending = approval(ApprovalState::Pending).etag();
        assert_eq!(pending, "W/\"a1690d2836c2af4d\"");
        assert_eq!(
            escalation(&["ops", "lead"]).etag(),
            "W/\"fc41d76d8d8b7f3b\""
        );
    }

    #[test]
    fn etags_change_with_the_state_and_the_roles() {
        let pending = approval(ApprovalState::Pending).etag();
        assert_ne!(approval(ApprovalState::Granted).etag(), pending);
        assert_ne!(
            escalation(&["ops,lead"]).etag(),
            escalation(&["ops", "lead"]).etag()
        );
    }
}
