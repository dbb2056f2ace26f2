//! `stateway admin`: looking after a store.

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use stateway_client::{Call, v1};

use crate::context::{Context, print_message};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;

/// Purges and backs up a store.
#[derive(Debug, Subcommand)]
pub enum Admin {
    /// Remove finished executions permanently; without --yes they are only counted
    #[command(after_help = "\
Examples:
  stateway admin purge --older-than 30d
  stateway admin purge --older-than 30d --yes")]
    Purge(Purge),
    /// Copy the store into the configured backup directory, while it is in use
    #[command(after_help = "\
Examples:
  stateway admin backup monday.db")]
    Backup(Backup),
}

/// Removes finished executions.
#[derive(Debug, Args)]
pub struct Purge {
    /// Only executions that ended longer ago than this, for example 30d
    #[arg(long, value_name = "DURATION")]
    older_than: Span,
    /// The provider (default: the only built-in engine)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Remove the executions instead of counting them
    #[arg(long)]
    yes: bool,
}

/// Copies a store.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file's name, without a path; it must not exist
    file: String,
    /// The provider (default: the only built-in engine)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

/// What `purge -o json` prints.
#[derive(Debug, Default, Serialize)]
struct Purged {
    purge_count: i64,
    more: bool,
    held_back_count: i64,
    done: bool,
}

/// What `backup -o json` prints.
#[derive(Debug, Serialize)]
struct Written {
    path: String,
    size_bytes: i64,
}

impl Admin {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::Purge(purge) => purge.run(context).await?,
            Self::Backup(backup) => backup.run(context).await?,
        }
        Ok(Exit::Ok)
    }
}

impl Purge {
    /// Chunk by chunk, all of them before the same moment.
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let parent = provider(self.provider.as_deref())?;
        let age = SignedDuration::try_from(std::time::Duration::from(self.older_than));
        let before = age
            .ok()
            .and_then(|age| Timestamp::now().checked_sub(age).ok());
        let before = before.ok_or_else(|| Failure::usage("--older-than is too long"))?;
        let filter = format!("end_time < {before}");
        let mut purged = Purged {
            done: self.yes,
            ..Purged::default()
        };
        loop {
            let call = Call::from_message(v1::PurgeExecutionsRequest {
                parent: parent.clone(),
                filter: filter.clone(),
                force: self.yes,
            });
            let answer = context.client.purge_executions(context.call(call)).await?;
            purged.purge_count += answer.purge_count;
            purged.more = answer.more;
            purged.held_back_count = answer.held_back_count;
            if !self.yes || !answer.more {
                break;
            }
            print_message(&format!("{} removed so far", purged.purge_count));
        }
        context.show(&purged, || {
            let count = if purged.more {
                format!("more than {}", purged.purge_count)
            } else {
                purged.purge_count.to_string()
            };
            if !self.yes {
                format!("{count} executions would be removed; add --yes to remove them")
            } else if purged.held_back_count > 0 {
                format!(
                    "{count} executions removed; {} stay until a webhook has received their events",
                    purged.held_back_count
                )
            } else {
                format!("{count} executions removed")
            }
        })
    }
}

impl Backup {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let call = Call::from_message(v1::BackupStoreRequest {
            provider: provider(self.provider.as_deref())?,
            file: self.file,
        });
        let answer = context.client.backup(context.call(call)).await?;
        let written = Written {
            path: answer.path,
            size_bytes: answer.size_bytes,
        };
        context.show(&written, || {
            let path = stateway_phrases::visible(&written.path);
            format!("{path} ({} bytes)", written.size_bytes)
        })
    }
}

fn provider(name: Option<&str>) -> Result<String, Failure> {
    name.map_or_else(|| Ok("providers/-".to_owned()), resource::provider)
}
