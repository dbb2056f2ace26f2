//! One change of many executions: preview, confirmation, progress, and a table of what failed.
//!
//! Every change has the etag of the execution that the preview showed. An execution that changed
//! meanwhile is read again: it is changed if it still matches the filter, and skipped otherwise.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use futures::stream;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Code, v1};
use stateway_phrases::grouped;

use crate::confirm::confirm;
use crate::context::{Context, announce, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::matching::{MOST_PREVIEWED, Matching};
use crate::progress::Progress;
use crate::screen::{Clock, Table, now, short_name};
use crate::write::WriteOptions;
use crate::{resource, view};

/// Changes under way at a time.
const CONCURRENCY: usize = 8;
/// How often one execution is tried that changes all the time, or that the gateway is too busy for.
const TRIES: u32 = 5;
/// The pause before another try, unless the gateway names one.
const PAUSE: Duration = Duration::from_millis(200);

/// A change that a command makes to many executions.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The command's name in the question, for example `Cancel`.
    pub verb: &'static str,
    /// The word for a changed execution, for example `cancelled`.
    pub done: &'static str,
    /// Why a confirmation is needed.
    pub risk: &'static str,
    /// The executions that the change is possible for, as a part of a filter.
    pub condition: &'static str,
}

/// The target of a change: one execution by its name, or all that match a filter.
#[derive(Debug, Args)]
pub struct OneOrMany {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

impl OneOrMany {
    /// Changes the target with `send`, and shows the execution or the report about all of them.
    ///
    /// # Errors
    /// Those of [`run`], a wrong name, or a refused change.
    pub async fn run<F>(
        &self,
        context: &Context,
        change: Change,
        send: impl Fn(String, WriteOptions) -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<v1::Execution, client::Error>>,
    {
        let Some(name) = &self.name else {
            return run(context, &self.matching, change, send).await;
        };
        let name = resource::execution(name)?;
        let answer = send(name, self.write.clone()).await?;
        context.show_execution(&answer)?;
        Ok(Exit::Ok)
    }
}

/// What `-o json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    matched: usize,
    done: Vec<view::Text>,
    skipped: Vec<Problem>,
    failed: Vec<Problem>,
    not_attempted: usize,
    unreachable: Vec<String>,
    #[serde(skip)]
    exit: Option<Exit>,
}

/// An execution that was not changed.
#[derive(Debug, Serialize)]
struct Problem {
    execution: view::Text,
    reason: view::Text,
    message: view::Text,
}

/// The result for one execution.
enum Changed {
    Done,
    Skipped(&'static str),
    Failed(Failure),
}

/// Changes every execution that matches, with `send` for each.
///
/// # Errors
/// A wrong filter, no confirmation, or a gateway that does not answer to the list.
pub async fn run<F, A>(
    context: &Context,
    matching: &Matching,
    change: Change,
    send: impl Fn(String, WriteOptions) -> F,
) -> Outcome
where
    F: Future<Output = Result<A, client::Error>>,
{
    let (found, unreachable) = matching.find(context, change.condition).await?;
    let shown: Vec<_> = found.iter().map(view::Execution::from).collect();
    if matching.dry_run {
        context.show(&shown, || preview(&shown, context))?;
        return Ok(Exit::Ok);
    }
    let mut report = Report {
        matched: found.len(),
        unreachable,
        ..Report::default()
    };
    if found.is_empty() {
        print_message("no execution matches the filter");
    } else {
        if !matching.yes {
            announce(&preview(&shown, context));
            let question = format!("{} {}?", change.verb, executions(found.len()));
            confirm(&question, change.risk, "nothing was changed")?;
        }
        let one = |execution| one(context, matching, change, &send, execution);
        report.work(change, found, one).await;
    }
    context.show(&report, || report.text(change, context))?;
    Ok(report.exit())
}

/// Changes one execution: again while it only changed in between, or while the gateway is too busy.
async fn one<F, A>(
    context: &Context,
    matching: &Matching,
    change: Change,
    send: &impl Fn(String, WriteOptions) -> F,
    mut execution: v1::Execution,
) -> (String, Changed)
where
    F: Future<Output = Result<A, client::Error>>,
{
    let name = execution.name.clone();
    let request_id = request_id();
    let mut tried = 0;
    loop {
        tried += 1;
        let options = WriteOptions::new(request_id.clone(), execution.etag.clone());
        let error = match send(name.clone(), options).await {
            Ok(_) => return (name, Changed::Done),
            Err(error) => error,
        };
        if tried == TRIES {
            return (name, Changed::Failed(error.into()));
        }
        match error.code() {
            Code::NotFound => return (name, Changed::Skipped("it does not exist any more")),
            Code::Aborted if error.reason() == "ETAG_MISMATCH" => {
                match matching.again(context, &execution, change.condition).await {
                    Ok(Some(current)) => execution = current,
                    Ok(None) => {
                        return (
                            name,
                            Changed::Skipped("it does not match the filter any more"),
                        );
                    }
                    Err(error) => return (name, Changed::Failed(error.into())),
                }
            }
            // The request was not carried out.
            Code::ResourceExhausted => {
                let pause = error.retry_after().unwrap_or(PAUSE * tried);
                tokio::time::sleep(pause).await;
            }
            _ => return (name, Changed::Failed(error.into())),
        }
    }
}

impl Report {
    /// Ctrl-C lets the changes under way finish and begins no other.
    async fn work<F>(
        &mut self,
        change: Change,
        found: Vec<v1::Execution>,
        one: impl Fn(v1::Execution) -> F,
    ) where
        F: Future<Output = (String, Changed)>,
    {
        let mut progress = Progress::new();
        let interrupted = async {
            // Without a handler for the signal, Ctrl-C ends the process.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let begun = stream::iter(found).take_until(interrupted).map(one);
        let mut results = pin!(begun.buffer_unordered(CONCURRENCY));
        while let Some((name, changed)) = results.next().await {
            self.add(&name, changed);
            progress.show(|| self.so_far(change));
        }
        self.not_attempted = self.matched - self.attempted();
        for problems in [&mut self.skipped, &mut self.failed] {
            problems.sort_by(|one, other| one.execution.cmp(&other.execution));
        }
        self.done.sort();
    }

    fn add(&mut self, name: &str, changed: Changed) {
        let execution: view::Text = name.into();
        match changed {
            Changed::Done => self.done.push(execution),
            Changed::Skipped(why) => self.skipped.push(Problem {
                execution,
                reason: "SKIPPED".into(),
                message: why.into(),
            }),
            Changed::Failed(failure) => {
                // The most severe error decides, so that a script sees it.
                let worst = self.exit.map_or(failure.exit as u8, |exit| {
                    (exit as u8).max(failure.exit as u8)
                });
                if worst == failure.exit as u8 {
                    self.exit = Some(failure.exit);
                }
                self.failed.push(Problem {
                    execution,
                    reason: (&failure.reason).into(),
                    message: (&failure.message).into(),
                });
            }
        }
    }

    fn attempted(&self) -> usize {
        self.done.len() + self.skipped.len() + self.failed.len()
    }

    fn so_far(&self, change: Change) -> String {
        let (attempted, matched) = (self.attempted(), self.matched);
        let failed = match self.failed.len() {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        format!("{}: {attempted} of {matched}{failed}", change.verb)
    }

    fn text(&self, change: Change, context: &Context) -> String {
        let mut parts = vec![format!("{} {}", change.done, executions(self.done.len()))];
        for (count, what) in [
            (self.skipped.len(), "skipped"),
            (self.failed.len(), "failed"),
            (self.not_attempted, "not attempted"),
        ] {
            parts.extend((count > 0).then(|| format!("{} {what}", grouped_len(count))));
        }
        let mut text = parts.join(", ");
        if !self.skipped.is_empty() || !self.failed.is_empty() {
            let mut table = Table::new(&["EXECUTION", "REASON", "MESSAGE"], context.paint);
            for problem in self.failed.iter().chain(&self.skipped) {
                table.row(vec![
                    short_name(&problem.execution),
                    problem.reason.to_string(),
                    problem.message.to_string(),
                ]);
            }
            text.push_str("\n\n");
            text.push_str(&table.text());
        }
        text
    }

    fn exit(&self) -> Exit {
        if self.not_attempted > 0 {
            return Exit::Interrupted;
        }
        let missing = (!self.unreachable.is_empty()).then_some(Exit::Unreachable);
        self.exit.or(missing).unwrap_or(Exit::Ok)
    }
}

fn preview(found: &[view::Execution], context: &Context) -> String {
    let clock = Clock::Live(jiff::Timestamp::now());
    let mut table = Table::new(&["EXECUTION", "STATE", "REASON", "NOW"], context.paint);
    for execution in found.iter().take(MOST_PREVIEWED) {
        table.row(vec![
            short_name(&execution.name),
            execution.sub_state.to_owned(),
            execution.reason.unwrap_or_default().to_owned(),
            now(execution, clock),
        ]);
    }
    match found.len().saturating_sub(MOST_PREVIEWED) {
        0 => table.text(),
        more => format!("{}\nand {} more", table.text(), grouped_len(more)),
    }
}

fn executions(count: usize) -> String {
    match count {
        1 => "1 execution".to_owned(),
        count => format!("{} executions", grouped_len(count)),
    }
}

fn grouped_len(count: usize) -> String {
    grouped(i64::try_from(count).unwrap_or(i64::MAX))
}

/// One id for all tries of one execution, so that a try whose answer was lost has no second effect.
fn request_id() -> String {
    let mut bytes = [0; 16];
    // Without random numbers the gateway chooses an id for each try.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
