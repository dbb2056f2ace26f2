//! Verifying and repairing executions.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_engine::recovery::{self, Recover};
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Error, Finding, RecoverRequest, Recovered, Recovery, Remedy, Result, Verb, Verification,
    Verified, VerifiedPage,
};

use crate::BuiltinProvider;
use crate::request::key;

#[async_trait]
impl Recovery for BuiltinProvider {
    async fn verify(&self, call: &Call, id: &ExecutionId) -> Result<Verification> {
        let found = self.engine.verify(id.as_str().into());
        Ok(verification(
            self.line.carry(call, Verb::Verify, found).await?,
        ))
    }

    async fn verify_page(
        &self,
        call: &Call,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<VerifiedPage> {
        let after = match cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .map_err(|_| Error::foreign_cursor(Verb::Verify))?,
        };
        let page = self.engine.verify_batch(after, limit);
        let page = self.line.carry(call, Verb::Verify, page).await?;
        Ok(VerifiedPage {
            verified: Verified {
                executions: page.executions,
                events: page.events,
            },
            wrong: page.wrong.into_iter().map(verification).collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }

    async fn total(&self, call: &Call) -> Result<u64> {
        self.line
            .carry(call, Verb::Verify, self.engine.total())
            .await
    }

    async fn recover(&self, call: &Call, request: RecoverRequest) -> Result<Recovered> {
        let only = if request.repair_only {
            "repair only"
        } else {
            ""
        };
        let texts = [request.id.as_str(), only];
        let verb = Verb::Recover;
        let request_key = key(call, verb, &texts, None, &request.request_id);
        self.check_precondition(call, verb, request.precondition, &request_key)
            .await?;
        let ask = Recover {
            expected: request.expected,
            repair_only: request.repair_only,
        };
        let id = request.id.as_str().into();
        let recovered = self
            .engine
            .recover(id, ask, Arc::clone(&call.actor), request_key);
        let recovered = self.line.carry(call, verb, recovered).await?;
        let branch = recovered.view.branch;
        Ok(Recovered {
            repaired: recovered.repaired.into_iter().map(finding).collect(),
            previous_branch: recovered.from,
            new_branch: recovered.branched.then_some(branch),
            cutoff: recovered.cutoff,
            repeated_steps: words(&recovered.again),
        })
    }
}

fn verification(from: recovery::Verdict) -> Verification {
    Verification {
        id: from.id.to_string(),
        branch: from.branch,
        sequence: from.sequence,
        events: from.events,
        head_hash: from.head,
        findings: from.findings.into_iter().map(finding).collect(),
        remedy: remedy(from.remedy),
    }
}

fn finding(from: recovery::Finding) -> Finding {
    Finding {
        code: from.code.to_string(),
        summary: from.summary,
        evidence: from.evidence,
    }
}

fn remedy(from: recovery::Remedy) -> Remedy {
    match from {
        recovery::Remedy::Nothing => Remedy::Nothing,
        recovery::Remedy::Repair => Remedy::Repair,
        recovery::Remedy::Branch { cutoff, again } => Remedy::Branch {
            cutoff,
            repeated_steps: words(&again),
        },
        recovery::Remedy::Refused { why, hint } => Remedy::Refused { why, hint },
    }
}

fn words(steps: &[Arc<str>]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}
