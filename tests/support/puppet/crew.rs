//! The workers of a puppet, and the executions that it verifies.

use async_trait::async_trait;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Error, Finding, RecoverRequest, Recovered, Recovery, Remedy, Result, Verb, Verification,
    Verified, VerifiedPage, WorkQueue, WorkerConnection, WorkerOffer, WorkerStatus, Workers,
};

use super::Puppet;

impl Puppet {
    /// A provider whose engine has these workers connected.
    pub(crate) fn with_workers(workers: &[&str]) -> Self {
        let puppet = Self {
            has_crew: true,
            ..Self::new()
        };
        puppet.lock().workers = workers.iter().map(ToString::to_string).collect();
        puppet
    }

    /// A provider with so many executions, every one of them with a finding.
    pub(crate) fn with_faulty_executions(count: usize) -> Self {
        let puppet = Self::with_workers(&[]);
        puppet.lock().faulty = count;
        puppet
    }
}

#[async_trait]
impl Workers for Puppet {
    async fn connect(&self, _: &Call, _: WorkerOffer) -> Result<WorkerConnection> {
        Err(Error::unsupported(Verb::Work))
    }

    async fn queue(&self, call: &Call) -> Result<WorkQueue> {
        self.come_in(call, Verb::Queue).await?;
        let workers = self.lock().workers.clone().into_iter();
        let connected = |id: String| WorkerStatus {
            offer: WorkerOffer {
                worker: id.into(),
                ..WorkerOffer::default()
            },
            connected: true,
            ..WorkerStatus::default()
        };
        Ok(WorkQueue {
            workers: workers.map(connected).collect(),
            ..WorkQueue::default()
        })
    }
}

#[async_trait]
impl Recovery for Puppet {
    async fn verify(&self, _: &Call, _: &ExecutionId) -> Result<Verification> {
        Err(Error::unsupported(Verb::Verify))
    }

    /// The cursor is the number of executions before the page.
    async fn verify_page(
        &self,
        call: &Call,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<VerifiedPage> {
        self.come_in(call, Verb::Verify).await?;
        let begin: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let total = self.lock().faulty;
        let end = total.min(begin + limit);
        Ok(VerifiedPage {
            verified: Verified {
                executions: (end - begin) as u64,
                events: (end - begin) as u64,
            },
            wrong: (begin..end).map(faulty).collect(),
            next: (end < total).then(|| end.to_string()),
        })
    }

    async fn total(&self, call: &Call) -> Result<u64> {
        self.come_in(call, Verb::Verify).await?;
        Ok(self.lock().faulty as u64)
    }

    async fn recover(&self, _: &Call, _: RecoverRequest) -> Result<Recovered> {
        Err(Error::unsupported(Verb::Recover))
    }
}

fn faulty(number: usize) -> Verification {
    Verification {
        id: format!("e-{number}"),
        branch: 0,
        sequence: 1,
        events: 1,
        head_hash: String::new(),
        findings: vec![Finding {
            code: "A1".into(),
            summary: "the test says so".into(),
            evidence: Vec::new(),
        }],
        remedy: Remedy::Repair,
    }
}
