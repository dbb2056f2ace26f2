//! Recovery: compares the stored data of an execution with its log, and repairs it.

use async_trait::async_trait;
use stateway_model::ExecutionId;

use super::Precondition;
use crate::{Call, RequestId, Result};

/// An engine that can verify and repair its executions. Requires
/// [`Capabilities::recovery`](crate::Capabilities::recovery).
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Compares the stored data of an execution with its log.
    async fn verify(&self, call: &Call, id: &ExecutionId) -> Result<Verification>;

    /// Verifies executions in the order of their creation: at most `limit`, from a cursor on.
    async fn verify_page(
        &self,
        call: &Call,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<VerifiedPage>;

    /// The number of executions that a verification of everything reads.
    async fn total(&self, call: &Call) -> Result<u64>;

    /// Repairs stored data that contradicts the log. If the log is damaged, the execution continues
    /// on a new branch from the last event that can be trusted.
    ///
    /// - Nothing is removed, and each repair is a separate event.
    async fn recover(&self, call: &Call, request: RecoverRequest) -> Result<Recovered>;
}

/// One contradiction between an execution and its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable code.
    pub code: String,
    /// In words.
    pub summary: String,
    /// The evidence, one line each.
    pub evidence: Vec<String>,
}

/// What a recovery would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Nothing is wrong.
    #[default]
    Nothing,
    /// The derived data is repaired; no step runs again.
    Repair,
    /// The execution continues on a new branch.
    Branch {
        /// The last event that can be trusted.
        cutoff: u64,
        /// The steps that run again.
        repeated_steps: Vec<String>,
    },
    /// The execution cannot be recovered.
    Refused {
        /// Why not.
        why: String,
        /// What would help.
        hint: String,
    },
}

/// What a verification of one execution found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The id of the execution, as it is stored.
    pub id: String,
    /// The current branch, by the log.
    pub branch: u32,
    /// The last event of that branch that can be trusted.
    pub sequence: u64,
    /// The number of events that were read, those of all branches.
    pub events: u64,
    /// The last link of the chain of hashes, in hexadecimal.
    pub head_hash: String,
    /// What is wrong; empty where nothing is.
    pub findings: Vec<Finding>,
    /// What a recovery would do.
    pub remedy: Remedy,
}

/// The figures of executions that were verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// The number of executions.
    pub executions: u64,
    /// The number of their events.
    pub events: u64,
}

/// A page of executions that were verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifiedPage {
    /// How much was read.
    pub verified: Verified,
    /// The executions with findings.
    pub wrong: Vec<Verification>,
    /// Where to continue; none at the end.
    pub next: Option<String>,
}

/// Repair an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverRequest {
    /// Which one.
    pub id: ExecutionId,
    /// Only what can be repaired without running a step again.
    pub repair_only: bool,
    /// The branch and last event that a verification showed; a recovery of anything else is refused.
    pub expected: Option<(u32, u64)>,
    /// The result of the check of the request's etag.
    pub precondition: Precondition,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// What a recovery did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What was found and repaired; empty where nothing was wrong.
    pub repaired: Vec<Finding>,
    /// The branch that was current before.
    pub previous_branch: u32,
    /// The new branch, where the execution continues on one.
    pub new_branch: Option<u32>,
    /// The last event that counts of the log before.
    pub cutoff: u64,
    /// The steps that run again.
    pub repeated_steps: Vec<String>,
}
