//! `stateway history`: the events of an execution, as its engine reports them.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use stateway_client as client;
use stateway_client::{Call, v1};
use stateway_phrases::visible;

use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{self, Paging};
use crate::screen::{Paint, Table, branch_number, stamp};
use crate::view::{Event, Text};
use crate::{input, resource};

/// Shows a history.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  stateway history builtin/order-17
  stateway history builtin/order-17 --all -o json
  stateway history builtin/r-17 --branch 0
  stateway history builtin/r-17 --full
  stateway history export builtin/r-17 r-17.jsonl")]
pub struct History {
    #[command(subcommand)]
    what: Option<HistoryCommand>,
    /// provider/id, or the full name
    #[arg(required = true)]
    name: Option<String>,
    /// Only the events that lead to this branch: its number, or `current`
    #[arg(long, value_name = "BRANCH", value_parser = input::non_empty)]
    branch: Option<String>,
    /// Events of all branches, each with its branch and sequence number
    #[arg(long, conflicts_with = "branch")]
    all_branches: bool,
    /// Show payload, actor, cause and request of each event, if the engine records them (always
    /// with -o json)
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    paging: Paging,
}

/// Subcommands of `history`.
#[derive(Debug, Subcommand)]
enum HistoryCommand {
    /// Write the whole log to a file, for a bug report or to replay it elsewhere
    #[command(after_help = "\
Examples:
  stateway history export builtin/r-17 r-17.jsonl
  stateway history export builtin/r-17 --redact > r-17.jsonl

The file contains all events of all branches with their payloads, and the definitions. With --redact \
every payload, message and name of a person is replaced with its type and length; the definitions are \
not redacted. `stateway replay --file` reads the file.")]
    Export(Export),
}

/// Writes a history to a file.
#[derive(Debug, Args)]
struct Export {
    /// provider/id, or the full name
    name: String,
    /// The file, which must not exist (default: standard output)
    file: Option<PathBuf>,
    /// Replace payloads, messages and names of people with their type and length
    #[arg(long)]
    redact: bool,
}

impl History {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        if let Some(HistoryCommand::Export(export)) = self.what {
            return export.run(context).await;
        }
        let list = self.read(context).await?;
        context.show_list(&list, |events| table(events, context.paint))?;
        Ok(Exit::Ok)
    }

    async fn read(self, context: &Context) -> Result<paging::List<Event>, Failure> {
        let name = resource::execution(self.name.as_deref().unwrap_or_default())?;
        let branch = match &self.branch {
            _ if self.all_branches => resource::branch(&name, "-"),
            Some(branch) => resource::branch(&name, branch),
            None => String::new(),
        };
        let view = if self.full || context.output == Output::Json {
            v1::ExecutionView::Full
        } else {
            v1::ExecutionView::Basic
        };
        let page = async |size, token| {
            let call = client::Events::new(&name)
                .page_size(size)
                .page_token(token)
                .branch(&branch)
                .view(view);
            let page = context.client.events_page(context.call(call)).await?;
            let rows = page.events.iter().map(Event::from);
            Ok(paging::List::page(rows, page.next_page_token))
        };
        self.paging.list(page).await
    }
}

impl Export {
    async fn run(self, context: &Context) -> Outcome {
        let call = Call::from_message(v1::ExportHistoryRequest {
            name: resource::execution(&self.name)?,
            redact: self.redact,
        });
        let file = context.client.export_history(context.call(call)).await?;
        let Some(path) = &self.file else {
            std::io::stdout().lock().write_all(&file)?;
            return Ok(Exit::Ok);
        };
        let cannot = |error: std::io::Error| {
            Failure::usage(format!("cannot write {}: {error}", path.display()))
        };
        // A report that was written before is never lost by another.
        let mut to = std::fs::File::create_new(path).map_err(cannot)?;
        to.write_all(&file).map_err(cannot)?;
        print_message(&format!("{} ({} bytes)", path.display(), file.len()));
        Ok(Exit::Ok)
    }
}

fn table(events: &[Event], paint: Paint) -> String {
    let mut table = Table::new(
        &[
            "#",
            "BRANCH",
            "TIME",
            "EVENT",
            "STEP",
            "ATTEMPT",
            "WHAT",
            "ACTOR",
            "CAUSE",
            "REQUEST",
            "CORRELATION",
            "PAYLOAD",
        ],
        paint,
    );
    let text = |text: &Option<Text>| text.clone().unwrap_or_default().to_string();
    for event in events {
        table.row(vec![
            event.sequence.to_string(),
            branch_number(&event.branch),
            event.occur_time.map(stamp).unwrap_or_default(),
            event.native_type.to_string(),
            event.step.to_string(),
            if event.attempt == 0 {
                String::new()
            } else {
                event.attempt.to_string()
            },
            event.summary.to_string(),
            text(&event.actor),
            match event.cause_sequence {
                0 => String::new(),
                cause => format!("#{cause}"),
            },
            text(&event.request_id),
            text(&event.correlation_id),
            payload(event),
        ]);
    }
    table.text()
}

fn payload(event: &Event) -> String {
    let json = event.payload.as_ref().map(ToString::to_string);
    visible(&json.unwrap_or_default()).into_owned()
}
