//! Comparing what is kept with the log: of one execution, or of all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, stream};
use stateway_model::{ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::remedy::Kind;
use stateway_provider_api::{Call, Finding, Remedy, Verb, Verification};
use tonic::Status;

use super::super::validate;
use super::Recovery;
use crate::branch::branch_name;
use crate::convert;
use crate::upstream::{Topic, Upstream};

/// Executions looked at between two messages: others read between two of them.
const PAGE: usize = 1_000;
/// The most time for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// The most verdicts in one message; what is beyond that is counted, and found again by
/// `VerifyExecution`.
const MOST_VERDICTS: usize = 500;

impl Recovery {
    pub(super) async fn verify(
        &self,
        call: Call,
        request: v1::VerifyExecutionRequest,
    ) -> Result<v1::VerifyExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self.directory.of(&name.provider, Topic::RECOVERY)?;
        let guarded = upstream.until_deadline(&call);
        let found = guarded.recovery(Verb::Verify, |recovery, call| {
            recovery.verify(call, &name.id)
        });
        Ok(v1::VerifyExecutionResponse {
            verdict: Some(verdict(&upstream.id, found.await?)),
        })
    }

    pub(super) async fn verify_all(
        &self,
        call: Call,
        request: v1::VerifyExecutionsRequest,
    ) -> Result<Scan, Status> {
        let parent = validate::parent(&request.parent)?;
        let mut scan = Scan {
            upstreams: Vec::new(),
            cursor: None,
            call: call.clone(),
            began: Instant::now(),
            told: v1::VerifyExecutionsResponse::default(),
        };
        for upstream in self.directory.under(&parent, Topic::RECOVERY)? {
            let guarded = upstream.within(&call);
            let total = guarded.recovery(Verb::Verify, |recovery, call| recovery.total(call));
            scan.told.total_count += convert::int64(total.await?);
            scan.upstreams.push(Arc::clone(upstream));
        }
        // The last one is taken first.
        scan.upstreams.reverse();
        Ok(scan)
    }
}

/// A verification of every execution, as fast as its reader.
pub(super) struct Scan {
    upstreams: Vec<Arc<Upstream>>,
    cursor: Option<String>,
    /// Its caller; the stream itself has no deadline.
    call: Call,
    began: Instant,
    told: v1::VerifyExecutionsResponse,
}

impl Scan {
    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<v1::VerifyExecutionsResponse, Status>> {
        stream::unfold(Some(self), |scan| async {
            let mut scan = scan?;
            match scan.page().await {
                Ok(told) => {
                    let next = (!told.done).then_some(scan);
                    Some((Ok(told), next))
                }
                Err(status) => Some((Err(status), None)),
            }
        })
    }

    async fn page(&mut self) -> Result<v1::VerifyExecutionsResponse, Status> {
        self.told.verdicts.clear();
        if let Some(upstream) = self.upstreams.last() {
            let call = Call {
                deadline: Instant::now() + PAGE_TIMEOUT,
                ..self.call.clone()
            };
            let guarded = upstream.until_deadline(&call);
            let page = guarded.recovery(Verb::Verify, |recovery, call| {
                recovery.verify_page(call, self.cursor.as_deref(), PAGE)
            });
            let page = page.await?;
            self.told.checked_count += convert::int64(page.verified.executions);
            self.told.event_count += convert::int64(page.verified.events);
            self.told.faulty_count += convert::int64(page.wrong.len());
            let wrong = page.wrong.into_iter().take(MOST_VERDICTS);
            self.told.verdicts = wrong.map(|found| verdict(&upstream.id, found)).collect();
            self.cursor = page.next;
            if self.cursor.is_none() {
                self.upstreams.pop();
            }
        }
        self.told.elapsed_duration = Some(convert::duration(self.began.elapsed()));
        self.told.done = self.upstreams.is_empty();
        Ok(self.told.clone())
    }
}

fn verdict(provider: &ProviderId, from: Verification) -> v1::Verdict {
    let id = ExecutionId::new(&from.id);
    let name = id.map(|id| ExecutionName::new(provider.clone(), id));
    let branch = name.as_ref().map(|name| branch_name(name, from.branch));
    v1::Verdict {
        branch: branch.unwrap_or_default(),
        name: name.map_or(from.id, |name| name.to_string()),
        findings: from.findings.into_iter().map(finding).collect(),
        remedy: Some(remedy(from.remedy)),
        sequence: convert::int64(from.sequence),
        event_count: convert::int64(from.events),
        head_hash: from.head_hash,
    }
}

pub(super) fn finding(from: Finding) -> v1::Finding {
    v1::Finding {
        code: from.code,
        summary: from.summary,
        evidence: from.evidence,
    }
}

fn remedy(from: Remedy) -> v1::Remedy {
    let of = |kind: Kind| v1::Remedy {
        kind: kind.into(),
        ..v1::Remedy::default()
    };
    match from {
        Remedy::Nothing => of(Kind::Nothing),
        Remedy::Repair => of(Kind::Repair),
        Remedy::Branch {
            cutoff,
            repeated_steps,
        } => v1::Remedy {
            cutoff_sequence: convert::int64(cutoff),
            repeated_steps,
            ..of(Kind::Branch)
        },
        Remedy::Refused { why, hint } => v1::Remedy {
            why,
            hint,
            ..of(Kind::Refused)
        },
    }
}
