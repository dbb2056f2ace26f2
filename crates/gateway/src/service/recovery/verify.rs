//! Comparing what is kept with the log: of one execution, or of all of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{Stream, stream};
use stateway_access::{Object, Permission};
use stateway_model::{ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::remedy::Kind;
use stateway_provider_api::{Finding, Remedy, Verb, Verification};
use tonic::Status;

use super::super::validate;
use super::Recovery;
use crate::access::ApiCall;
use crate::branch::branch_name;
use crate::convert;
use crate::parent::Parent;
use crate::upstream::{CallError, Topic, Upstream};

/// Executions in one call to the provider. Other requests are served between two calls.
const PAGE: usize = 1_000;
/// The most time for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// The most verdicts in one message; the next message has the rest.
const MOST_VERDICTS: usize = 500;

impl Recovery {
    pub(super) async fn verify(
        &self,
        call: ApiCall,
        request: v1::VerifyExecutionRequest,
    ) -> Result<v1::VerifyExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::RECOVERY)?;
        let authorized = self.executions.authorize(&call, &name, Permission::Read);
        authorized.await?;
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
        call: ApiCall,
        request: v1::VerifyExecutionsRequest,
    ) -> Result<Scan, Status> {
        let parent = validate::parent(&request.parent)?;
        let mut upstreams = self
            .directory
            .under(&call.access, &parent, Topic::RECOVERY)?;
        match &parent {
            Parent::One(id) => call.require_all(Permission::Operate, id)?,
            Parent::All => {
                // Others are left out, as if they were not configured.
                upstreams.retain(|upstream| call.has_all(Permission::Operate, &upstream.id));
                if upstreams.is_empty() {
                    call.require(Permission::Operate, &Object::default(), "every provider")?;
                }
            }
        }
        let totals = upstreams.iter().map(|upstream| async {
            let guarded = match parent {
                Parent::All => upstream.merged(&call),
                Parent::One(_) => upstream.within(&call),
            };
            let total = guarded.recovery(Verb::Verify, |recovery, call| recovery.total(call));
            total.await
        });
        let totals = join_all(totals).await;
        let mut scan = Scan {
            upstreams: Vec::new(),
            cursor: None,
            fails_with_one: matches!(parent, Parent::One(_)),
            call: call.clone(),
            began: Instant::now(),
            verdicts: VecDeque::new(),
            progress: v1::VerifyExecutionsResponse::default(),
        };
        // The last one is verified first.
        for (upstream, total) in upstreams.into_iter().zip(totals).rev() {
            match total {
                Ok(total) => {
                    scan.progress.total_count += convert::int64(total);
                    scan.upstreams.push(Arc::clone(upstream));
                }
                Err(error) => scan.left_out(&upstream.id, error)?,
            }
        }
        Ok(scan)
    }
}

/// A verification of every execution, as fast as its reader.
pub(super) struct Scan {
    /// The providers that are not verified completely; the last one is next.
    upstreams: Vec<Arc<Upstream>>,
    cursor: Option<String>,
    /// Whether the failure of a provider ends the verification.
    fails_with_one: bool,
    /// Its caller; the stream itself has no deadline.
    call: ApiCall,
    began: Instant,
    /// Verdicts that were not sent yet.
    verdicts: VecDeque<v1::Verdict>,
    progress: v1::VerifyExecutionsResponse,
}

impl Scan {
    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<v1::VerifyExecutionsResponse, Status>> {
        stream::unfold(Some(self), |scan| async {
            let mut scan = scan?;
            match scan.message().await {
                Ok(message) => {
                    let next = (!message.done).then_some(scan);
                    Some((Ok(message), next))
                }
                Err(status) => Some((Err(status), None)),
            }
        })
    }

    /// The next message: verdicts that are left, or a further page.
    async fn message(&mut self) -> Result<v1::VerifyExecutionsResponse, Status> {
        if self.verdicts.is_empty()
            && let Some(upstream) = self.upstreams.last().map(Arc::clone)
            && let Err(error) = self.page(&upstream).await
        {
            self.upstreams.pop();
            self.cursor = None;
            self.left_out(&upstream.id, error)?;
        }
        let most = self.verdicts.len().min(MOST_VERDICTS);
        self.progress.verdicts = self.verdicts.drain(..most).collect();
        self.progress.elapsed_duration = Some(convert::duration(self.began.elapsed()));
        self.progress.done = self.upstreams.is_empty() && self.verdicts.is_empty();
        Ok(self.progress.clone())
    }

    /// Verifies the next page of a provider.
    async fn page(&mut self, upstream: &Upstream) -> Result<(), CallError> {
        let call = self.call.until(Instant::now() + PAGE_TIMEOUT);
        let guarded = upstream.until_deadline(&call);
        let page = guarded.recovery(Verb::Verify, |recovery, call| {
            recovery.verify_page(call, self.cursor.as_deref(), PAGE)
        });
        let page = page.await?;
        self.progress.checked_count += convert::int64(page.verified.executions);
        self.progress.event_count += convert::int64(page.verified.events);
        self.progress.faulty_count += convert::int64(page.wrong.len());
        let wrong = page.wrong.into_iter();
        self.verdicts
            .extend(wrong.map(|found| verdict(&upstream.id, found)));
        self.cursor = page.next;
        if self.cursor.is_none() {
            self.upstreams.pop();
        }
        Ok(())
    }

    /// Continues without a provider that failed, where others are verified too.
    fn left_out(&mut self, provider: &ProviderId, error: CallError) -> Result<(), Status> {
        if self.fails_with_one {
            return Err(error.into());
        }
        tracing::info!("left out of a verification: {error}");
        self.progress.unreachable.push(provider.resource_name());
        Ok(())
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
