//! Purging and backing up the engine's file.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use stateway_provider_api::{
    Backup, Call, Error, ErrorKind, PurgeAge, PurgeExecutionsRequest, PurgedExecutions, Result,
    Store, Verb,
};

use crate::BuiltinProvider;

const LONGEST_FILE_NAME: usize = 128;

#[async_trait]
impl Store for BuiltinProvider {
    async fn purge_executions(
        &self,
        call: &Call,
        request: PurgeExecutionsRequest,
    ) -> Result<PurgedExecutions> {
        let ended_before = cut_off(request.age, self.engine.now())?;
        let limit = request.limit;
        let verb = Verb::PurgeExecutions;
        let purged = if request.dry_run {
            let counted = self.engine.count_ended(ended_before, limit);
            self.line.carry(call, verb, counted).await?
        } else {
            let removed = self.engine.purge(ended_before, limit);
            self.line.carry(call, verb, removed).await?
        };
        Ok(PurgedExecutions {
            executions: purged.executions,
            more: purged.more,
            held_back: purged.held_back,
            ended_before,
        })
    }

    async fn backup(&self, call: &Call, file: &str) -> Result<Backup> {
        let path = place(self.backups.as_deref(), file)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| no_folder(folder, &error))?;
        }
        let written = self.engine.backup(path.clone());
        let bytes = self.line.carry(call, Verb::Backup, written).await?;
        let path = path.display().to_string();
        Ok(Backup { path, bytes })
    }
}

fn cut_off(age: PurgeAge, now: Timestamp) -> Result<Timestamp> {
    match age {
        PurgeAge::EndedBefore(time) => Ok(time),
        PurgeAge::OlderThan(age) => {
            let age = SignedDuration::try_from(age).ok();
            let before = age.and_then(|age| now.checked_sub(age).ok());
            before.ok_or_else(|| wrong("`older_than` is too long"))
        }
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, Verb::PurgeExecutions, message)
}

fn refused(kind: ErrorKind, reason: &'static str, message: String, hint: &str) -> Error {
    Error::new(kind, Verb::Backup, message)
        .with_reason(reason)
        .with_hint(hint)
        .without_engine()
}

fn no_folder(folder: &Path, error: &std::io::Error) -> Error {
    let folder = folder.display();
    refused(
        ErrorKind::FailedPrecondition,
        "NO_BACKUP_DIRECTORY",
        format!("the backup directory {folder} cannot be created: {error}"),
        "Create the directory, or set `backups` of the provider to another one.",
    )
}

/// A file name without a path, so that no backup is written outside the backup directory.
fn place(directory: Option<&Path>, file: &str) -> Result<PathBuf> {
    let directory = directory.ok_or_else(|| {
        refused(
            ErrorKind::FailedPrecondition,
            "NO_BACKUP_DIRECTORY",
            "the provider has no backup directory".to_owned(),
            "Set `backups` of the provider in the configuration.",
        )
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
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            Verb::Backup,
            message,
        ));
    }
    let path = directory.join(file);
    // A link counts as a file, wherever it leads.
    if path.symlink_metadata().is_ok() {
        return Err(refused(
            ErrorKind::AlreadyExists,
            "BACKUP_ALREADY_EXISTS",
            format!("a backup `{file}` exists already"),
            "Choose another name; a backup is never overwritten.",
        ));
    }
    Ok(path)
}
