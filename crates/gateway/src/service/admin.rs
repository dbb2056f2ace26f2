//! `stateway.v1.Admin`: the store of an engine that keeps its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_proto::v1;
use stateway_proto::v1::admin_server::Admin as Service;
use stateway_proto::v1::purge_executions_request::Age;
use stateway_provider_api::{Call, PurgeAge, PurgeExecutionsRequest, Verb};
use tonic::{Request, Response, Status};

use super::Shell;
use crate::convert;
use crate::status::Refusal;
use crate::upstream::{Directory, Topic};

/// Executions removed in one transaction: others write between two of them.
const CHUNK: usize = 200;
/// The most executions one call removes.
const MOST_PER_CALL: u64 = 10_000;
/// A purge stops this long before its deadline, so that it can report how far it came.
const MARGIN: Duration = Duration::from_millis(500);

/// The service over every provider with a store of its own.
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

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<v1::BackupResponse>, Status> {
        self.shell
            .run("Backup", request, |call, message| {
                self.backup_store(call, message)
            })
            .await
    }
}

impl Admin {
    async fn purge(
        &self,
        call: Call,
        request: v1::PurgeExecutionsRequest,
    ) -> Result<v1::PurgeExecutionsResponse, Status> {
        let upstream = self
            .directory
            .one("provider", &request.provider, Topic::STORE)?;
        let mut purge = PurgeExecutionsRequest {
            age: age(request.age)?,
            limit: if request.validate_only {
                usize::try_from(MOST_PER_CALL).unwrap_or(usize::MAX)
            } else {
                CHUNK
            },
            dry_run: request.validate_only,
        };
        let mut answer = v1::PurgeExecutionsResponse::default();
        loop {
            let guarded = upstream.within(&call);
            let chunk = guarded.store(Verb::PurgeExecutions, |store, call| {
                store.purge_executions(call, purge)
            });
            let chunk = chunk.await?;
            answer.purged += chunk.executions;
            answer.more = chunk.more;
            answer.held_back = chunk.held_back;
            answer.ended_before = Some(convert::timestamp(chunk.ended_before));
            // Every chunk has the cut-off time of the first one.
            purge.age = PurgeAge::EndedBefore(chunk.ended_before);
            // Removed executions stay removed: a call that runs out of time reports how many.
            let out_of_time = Instant::now() + MARGIN >= call.deadline;
            if purge.dry_run || !answer.more || answer.purged >= MOST_PER_CALL || out_of_time {
                break;
            }
        }
        if !purge.dry_run {
            tracing::info!(provider = %upstream.id, actor = %call.actor, purged = answer.purged,
                held_back = answer.held_back, "executions were purged");
        }
        Ok(answer)
    }

    async fn backup_store(
        &self,
        call: Call,
        request: v1::BackupRequest,
    ) -> Result<v1::BackupResponse, Status> {
        let upstream = self
            .directory
            .one("provider", &request.provider, Topic::STORE)?;
        // Copying a large store takes longer than one call to an engine usually may.
        let guarded = upstream.until_deadline(&call);
        let written = guarded.store(Verb::Backup, |store, call| {
            store.backup(call, &request.file)
        });
        let written = written.await?;
        tracing::info!(provider = %upstream.id, actor = %call.actor, path = written.path,
            bytes = written.bytes, "a backup was written");
        Ok(v1::BackupResponse {
            path: written.path,
            bytes: written.bytes,
        })
    }
}

fn age(age: Option<Age>) -> Result<PurgeAge, Status> {
    let wrong = |field, message: &str| Status::from(Refusal::invalid(field, message));
    match age {
        None => Err(wrong(
            "older_than",
            "say which executions: `older_than` or `ended_before`",
        )),
        Some(Age::EndedBefore(time)) => Timestamp::new(time.seconds, time.nanos)
            .map(PurgeAge::EndedBefore)
            .map_err(|_| wrong("ended_before", "`ended_before` is not a point in time")),
        Some(Age::OlderThan(age)) => convert::duration_from(age)
            .map(PurgeAge::OlderThan)
            .ok_or_else(|| wrong("older_than", "`older_than` is not a duration")),
    }
}
