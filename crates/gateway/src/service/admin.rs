//! `stateway.v1.Admin`: the store of an engine that keeps its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use stateway_access::Permission;
use stateway_proto::v1;
use stateway_proto::v1::admin_server::Admin as Service;
use stateway_provider_api::filter::{Comparison, Filter, Term, TimeField};
use stateway_provider_api::{PurgeAge, PurgeExecutionsRequest, Verb};
use tonic::{Request, Response, Status};

use super::{Shell, validate};
use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;
use crate::upstream::{Directory, Topic};

/// Executions removed in one transaction: others write between two of them.
const CHUNK: usize = 200;
/// The most executions one call removes.
const MOST_PER_CALL: i64 = 10_000;
/// A purge stops this long before its deadline, so that it can report how far it came.
const MARGIN: Duration = Duration::from_millis(500);

/// The service over every provider that has a store.
pub(crate) struct Admin {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
}

#[tonic::async_trait]
impl Service for Admin {
    async fn purge_executions(
        &self,
        request: Request<v1::PurgeExecutionsRequest>,
    ) -> Result<Response<v1::PurgeExecutionsResponse>, Status> {
        self.shell
            .run("PurgeExecutions", request, |call, message| {
                self.purge(call, message)
            })
            .await
    }

    async fn backup_store(
        &self,
        request: Request<v1::BackupStoreRequest>,
    ) -> Result<Response<v1::BackupStoreResponse>, Status> {
        self.shell
            .run("BackupStore", request, |call, message| {
                self.backup(call, message)
            })
            .await
    }
}

impl Admin {
    async fn purge(
        &self,
        call: ApiCall,
        request: v1::PurgeExecutionsRequest,
    ) -> Result<v1::PurgeExecutionsResponse, Status> {
        let parent = validate::required("parent", &request.parent)?;
        let upstream = self
            .directory
            .one(&call.access, "parent", parent, Topic::STORE)?;
        call.require_all(Permission::Operate, &upstream.id)?;
        let purge = PurgeExecutionsRequest {
            age: PurgeAge::EndedBefore(ended_before(&request.filter)?),
            limit: if request.force {
                CHUNK
            } else {
                usize::try_from(MOST_PER_CALL).unwrap_or(usize::MAX)
            },
            dry_run: !request.force,
        };
        let mut answer = v1::PurgeExecutionsResponse::default();
        loop {
            let guarded = upstream.within(&call);
            let chunk = guarded.store(Verb::PurgeExecutions, |store, call| {
                store.purge_executions(call, purge)
            });
            let chunk = chunk.await?;
            answer.purge_count += convert::int64(chunk.executions);
            answer.more = chunk.more;
            answer.held_back_count = convert::int64(chunk.held_back);
            // Removed executions stay removed: a call that runs out of time reports how many.
            let out_of_time = Instant::now() + MARGIN >= call.deadline;
            if purge.dry_run || !answer.more || answer.purge_count >= MOST_PER_CALL || out_of_time {
                break;
            }
        }
        if !purge.dry_run {
            tracing::info!(provider = %upstream.id, actor = %call.actor, purged = answer.purge_count,
                held_back = answer.held_back_count, "executions were purged");
        }
        Ok(answer)
    }

    async fn backup(
        &self,
        call: ApiCall,
        request: v1::BackupStoreRequest,
    ) -> Result<v1::BackupStoreResponse, Status> {
        let provider = validate::required("provider", &request.provider)?;
        let upstream = self
            .directory
            .one(&call.access, "provider", provider, Topic::STORE)?;
        call.require_all(Permission::Operate, &upstream.id)?;
        // Copying a large store takes longer than one call to an engine usually may.
        let guarded = upstream.until_deadline(&call);
        let written = guarded.store(Verb::Backup, |store, call| {
            store.backup(call, &request.file)
        });
        let written = written.await?;
        tracing::info!(provider = %upstream.id, actor = %call.actor, path = written.path,
            bytes = written.bytes, "a backup was written");
        Ok(v1::BackupStoreResponse {
            path: written.path,
            size_bytes: convert::int64(written.bytes),
        })
    }
}

/// The time of `end_time < TIME`. The engine selects by the end time only, so other conditions are refused.
fn ended_before(filter: &str) -> Result<Timestamp, Status> {
    let hint = "Write `end_time < TIME`, for example `end_time < 2026-01-01T00:00:00Z`.";
    let wrong = |message: String| {
        Status::from(
            Refusal::invalid("filter", message)
                .reason("INVALID_FILTER")
                .hint(hint),
        )
    };
    match validate::filter(filter)? {
        Filter::Term(Term::Time(TimeField::End, Comparison::Less, time)) => Ok(time),
        Filter::Term(Term::Time(TimeField::End, Comparison::LessOrEqual, time)) => time
            .checked_add(SignedDuration::from_nanos(1))
            .map_err(|_| wrong("`end_time` is too late".to_owned())),
        Filter::And(terms) if terms.is_empty() => {
            Err(wrong("`filter` must not be empty".to_owned()))
        }
        _ => Err(wrong(
            "only a condition on `end_time` is supported here".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_takes_a_condition_on_the_end_and_nothing_else() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(
            ended_before("end_time < 2026-01-01T00:00:00Z").unwrap(),
            time
        );
        let just_after = ended_before("end_time <= 2026-01-01T00:00:00Z").unwrap();
        assert_eq!(just_after.as_nanosecond(), time.as_nanosecond() + 1);
        for wrong in [
            "",
            "end_time > 2026-01-01T00:00:00Z",
            "end_time < 2026-01-01T00:00:00Z AND sub_state = FAILED",
            "NOT end_time > 2026-01-01T00:00:00Z",
            "create_time < 2026-01-01T00:00:00Z",
            "*",
        ] {
            assert!(ended_before(wrong).is_err(), "{wrong}");
        }
    }
}
