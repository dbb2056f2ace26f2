//! Comparing what is kept with the log: of one execution, or of all of them.

use std::sync::Arc;
use std::time::Instant;

use futures::{Stream, stream};
use stateway_engine::Engine;
use stateway_engine::recovery::{self, Remedy};
use stateway_model::{ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::remedy::Kind;
use stateway_provider_api::Call;
use tonic::Status;

use super::super::validate;
use super::{RECOVERY, Recovery};
use crate::convert;
use crate::engines::Chosen;

/// Executions looked at between two messages: others read between two of them.
const PAGE: usize = 1_000;
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
        let chosen = self.directory.of(&name.provider, RECOVERY)?;
        let found = chosen.engine.verify(name.id.as_str().into());
        let found = chosen.answer(&call, found).await?;
        Ok(v1::VerifyExecutionResponse {
            verdict: Some(verdict(chosen.id, found)),
        })
    }

    pub(super) async fn verify_all(
        &self,
        call: Call,
        request: v1::VerifyExecutionsRequest,
    ) -> Result<Scan, Status> {
        let parent = validate::parent(&request.parent)?;
        let mut scan = Scan {
            engines: Vec::new(),
            after: 0,
            began: Instant::now(),
            told: v1::VerifyExecutionsResponse::default(),
        };
        for chosen in self.directory.under(&parent, RECOVERY)? {
            scan.told.total += chosen.answer(&call, chosen.engine.count()).await?;
            scan.engines
                .push((chosen.id.clone(), chosen.engine.clone()));
        }
        // The last one is taken first.
        scan.engines.reverse();
        Ok(scan)
    }
}

/// A look at every execution that goes on only as fast as its reader.
pub(super) struct Scan {
    engines: Vec<(ProviderId, Engine)>,
    after: i64,
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
        if let Some((id, engine)) = self.engines.last() {
            let page = engine.verify_batch(self.after, PAGE).await;
            let page = page.map_err(|error| refused(id, engine, &error))?;
            self.told.checked += page.executions;
            self.told.event_count += page.events;
            self.told.wrong += page.wrong.len() as u64;
            let wrong = page.wrong.into_iter().take(MOST_VERDICTS);
            self.told.verdicts = wrong.map(|found| verdict(id, found)).collect();
            match page.next {
                Some(next) => self.after = next,
                None => {
                    self.engines.pop();
                    self.after = 0;
                }
            }
        }
        self.told.elapsed = Some(convert::duration(self.began.elapsed()));
        self.told.done = self.engines.is_empty();
        Ok(self.told.clone())
    }
}

fn refused(id: &ProviderId, engine: &Engine, error: &stateway_engine::EngineError) -> Status {
    let chosen = Chosen {
        id,
        engine,
        backups: None,
    };
    chosen.refused(error)
}

fn verdict(provider: &ProviderId, from: recovery::Verdict) -> v1::Verdict {
    let id = ExecutionId::new(&*from.id);
    let name = id.map(|id| ExecutionName::new(provider.clone(), id).to_string());
    v1::Verdict {
        name: name.unwrap_or_else(|_| from.id.to_string()),
        findings: from.findings.into_iter().map(finding).collect(),
        remedy: Some(remedy(from.remedy)),
        branch: from.branch.to_string(),
        sequence: from.sequence,
        event_count: from.events,
        head_hash: from.head,
    }
}

pub(super) fn finding(from: recovery::Finding) -> v1::Finding {
    v1::Finding {
        code: from.code.to_string(),
        summary: from.summary,
        evidence: from.evidence,
    }
}

fn remedy(from: Remedy) -> v1::Remedy {
    let of = |kind: Kind| v1::Remedy {
        kind: kind.into(),
        ..v1::Remedy::default()
    };
    let words = |steps: &[Arc<str>]| steps.iter().map(ToString::to_string).collect();
    match from {
        Remedy::Nothing => of(Kind::Nothing),
        Remedy::Repair => of(Kind::Repair),
        Remedy::Branch { cutoff, again } => v1::Remedy {
            cutoff_sequence: cutoff,
            repeated_steps: words(&again),
            ..of(Kind::Branch)
        },
        Remedy::Refused { why, hint } => v1::Remedy {
            why,
            hint,
            ..of(Kind::Refused)
        },
    }
}
