//! `stateway admin`: looking after a store.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client::{Call, v1};
use v1::purge_executions_request::Age;

use crate::context::{Context, talk};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;

/// Looks after a store.
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
    purged: u64,
    more: bool,
    held_back: u64,
    done: bool,
}

/// What `backup -o json` prints.
#[derive(Debug, Serialize)]
struct Written {
    path: String,
    bytes: u64,
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
        let provider = provider(self.provider.as_deref())?;
        let age = prost_types::Duration::try_from(std::time::Duration::from(self.older_than))
            .map_err(|_| Failure::usage("--older-than reaches back too far"))?;
        let mut age = Age::OlderThan(age);
        let mut purged = Purged {
            done: self.yes,
            ..Purged::default()
        };
        loop {
            let call = Call::from_message(v1::PurgeExecutionsRequest {
                provider: provider.clone(),
                age: Some(age),
                validate_only: !self.yes,
            });
            let answer = context.client.purge_executions(context.call(call)).await?;
            purged.purged += answer.purged;
            purged.more = answer.more;
            purged.held_back = answer.held_back;
            if !self.yes || !answer.more {
                break;
            }
            talk(&format!("{} removed so far", purged.purged));
            if let Some(before) = answer.ended_before {
                age = Age::EndedBefore(before);
            }
        }
        context.show(&purged, || {
            let count = match purged.more {
                true => format!("more than {}", purged.purged),
                false => purged.purged.to_string(),
            };
            match self.yes {
                true if purged.held_back > 0 => format!(
                    "{count} executions removed; {} stay until a webhook has got their events",
                    purged.held_back
                ),
                true => format!("{count} executions removed"),
                false => format!("{count} executions would be removed; add --yes to do it"),
            }
        })
    }
}

impl Backup {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let call = Call::from_message(v1::BackupRequest {
            provider: provider(self.provider.as_deref())?,
            file: self.file,
        });
        let answer = context.client.backup(context.call(call)).await?;
        let written = Written {
            path: answer.path,
            bytes: answer.bytes,
        };
        context.show(&written, || {
            let path = crate::visible::visible(&written.path);
            format!("{path} ({} bytes)", written.bytes)
        })
    }
}

fn provider(name: Option<&str>) -> Result<String, Failure> {
    name.map_or_else(|| Ok(String::new()), resource::provider)
}
