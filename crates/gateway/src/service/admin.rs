//! `stateway.v1.Admin`: looking after a built-in engine's store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use stateway_proto::v1;
use stateway_proto::v1::admin_server::Admin as Service;
use stateway_proto::v1::purge_executions_request::Age;
use stateway_provider_api::Call;
use tonic::{Code, Request, Response, Status};

use super::Shell;
use crate::convert;
use crate::engines::{Chosen, Directory};
use crate::status::Refusal;

const WHAT: &str = "a store of its own";
/// Executions removed in one transaction: others write between two of them.
const CHUNK: usize = 200;
/// The most executions one call removes.
const MOST_PER_CALL: u64 = 10_000;
const LONGEST_FILE_NAME: usize = 128;

/// The service over every built-in engine.
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
            .run("Backup", request, |call, message| self.copy(call, message))
            .await
    }
}

impl Admin {
    async fn purge(
        &self,
        call: Call,
        request: v1::PurgeExecutionsRequest,
    ) -> Result<v1::PurgeExecutionsResponse, Status> {
        let chosen = self.directory.one("provider", &request.provider, WHAT)?;
        let before = ended_before(request.age, chosen.engine.now())?;
        let mut answer = v1::PurgeExecutionsResponse {
            purged: 0,
            more: true,
            ended_before: Some(convert::timestamp(before)),
            held_back: 0,
        };
        if request.validate_only {
            let most = usize::try_from(MOST_PER_CALL).unwrap_or(usize::MAX);
            let found = chosen.engine.count_ended(before, most);
            let found = chosen.answer(&call, found).await?;
            (answer.purged, answer.more) = (found.executions, found.more);
            return Ok(answer);
        }
        // What is removed is removed: a call that runs out of time says how far it came.
        let margin = Duration::from_millis(500);
        while answer.more && answer.purged < MOST_PER_CALL {
            let chunk = chosen
                .answer(&call, chosen.engine.purge(before, CHUNK))
                .await?;
            answer.purged += chunk.executions;
            answer.more = chunk.more;
            answer.held_back = chunk.held_back;
            if Instant::now() + margin >= call.deadline {
                break;
            }
        }
        tracing::info!(provider = %chosen.id, actor = %call.actor, purged = answer.purged,
            held_back = answer.held_back,
            ended_before = %before, "executions were purged");
        Ok(answer)
    }

    async fn copy(
        &self,
        call: Call,
        request: v1::BackupRequest,
    ) -> Result<v1::BackupResponse, Status> {
        let chosen = self.directory.one("provider", &request.provider, WHAT)?;
        let path = place(chosen, &request.file)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| no_folder(folder, &error))?;
        }
        let bytes = chosen
            .answer(&call, chosen.engine.backup(path.clone()))
            .await?;
        tracing::info!(provider = %chosen.id, actor = %call.actor, path = %path.display(), bytes,
            "a backup was written");
        Ok(v1::BackupResponse {
            path: path.display().to_string(),
            bytes,
        })
    }
}

fn ended_before(age: Option<Age>, now: Timestamp) -> Result<Timestamp, Status> {
    let wrong = |field, message: &str| Status::from(Refusal::invalid(field, message));
    match age {
        None => Err(wrong(
            "older_than",
            "say which executions: `older_than` or `ended_before`",
        )),
        Some(Age::EndedBefore(time)) => Timestamp::new(time.seconds, time.nanos)
            .map_err(|_| wrong("ended_before", "`ended_before` is not a point in time")),
        Some(Age::OlderThan(age)) => {
            let age = convert::duration_from(age)
                .and_then(|age| SignedDuration::try_from(age).ok())
                .ok_or_else(|| wrong("older_than", "`older_than` is not a duration"))?;
            now.checked_sub(age)
                .map_err(|_| wrong("older_than", "`older_than` reaches back too far"))
        }
    }
}

fn no_folder(folder: &std::path::Path, error: &std::io::Error) -> Status {
    let message = format!(
        "the backup directory {} cannot be made: {error}",
        folder.display()
    );
    Refusal::new(Code::FailedPrecondition, "NO_BACKUP_DIRECTORY", message)
        .hint("Create the directory, or set `backups` of the provider to another one.")
        .into()
}

/// A file name and nothing else, so that nobody writes beside the backup directory.
fn place(chosen: Chosen<'_>, file: &str) -> Result<PathBuf, Status> {
    let directory = chosen.backups.ok_or_else(|| {
        let message = format!("provider {} has no backup directory", chosen.id);
        Refusal::new(Code::FailedPrecondition, "NO_BACKUP_DIRECTORY", message)
            .with("provider", chosen.id.to_string())
            .hint("Set `backups` of the provider in the configuration.")
    })?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let plain = (1..=LONGEST_FILE_NAME).contains(&file.len())
        && file.bytes().all(allowed)
        && !file.starts_with('.');
    if !plain {
        let message = format!(
            "`file` is 1 to {LONGEST_FILE_NAME} letters, digits, `-`, `_` or `.`, not beginning \
             with a dot"
        );
        return Err(Refusal::invalid("file", message).into());
    }
    let path = directory.join(file);
    if path.exists() {
        let message = format!("there is a backup `{file}` already");
        return Err(
            Refusal::new(Code::AlreadyExists, "BACKUP_ALREADY_EXISTS", message)
                .with("provider", chosen.id.to_string())
                .hint("Choose another name; a backup is never overwritten.")
                .into(),
        );
    }
    Ok(path)
}
