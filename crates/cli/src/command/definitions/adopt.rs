//! `stateway definitions adopt`: running executions are offered another revision.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::Args;
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use stateway_client as client;
use stateway_client::v1;

use super::fetch;
use crate::confirm::confirm;
use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Table, short_name};
use crate::{input, resource, view};

/// The most executions of one command.
const MOST: usize = 10_000;
/// The most executions of the preview.
const MOST_PREVIEWED: usize = 20;
const OPEN: &str = "NOT (sub_state = succeeded OR sub_state = failed)";
const MISMATCH: &str = "REVISION_MISMATCH";

/// Offers a revision.
#[derive(Debug, Args)]
pub struct Adopt {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    /// Every open execution that passes this filter
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true, value_parser = input::given)]
    filter: Option<String>,
    /// Only executions of this provider (default: all providers)
    #[arg(long, value_name = "PROVIDER", requires = "filter")]
    provider: Option<String>,
    /// The revision, or at least its first 8 digits (default: the current revision)
    #[arg(long, value_name = "REVISION", value_parser = input::given)]
    revision: Option<String>,
    /// Only list the executions to which the revision would be offered
    #[arg(long, requires = "filter")]
    dry_run: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, requires = "filter")]
    yes: bool,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", conflicts_with = "filter", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, conflicts_with = "filter", value_parser = input::given)]
    etag: Option<String>,
}

/// The offer to one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Offer {
    execution: view::Text,
    sub_state: &'static str,
    revision: view::Text,
    offered: view::Text,
}

/// The answer for one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Adopted {
    execution: view::Text,
    /// adopted, unchanged, paused or refused.
    result: &'static str,
    /// The revision of the execution now.
    revision: view::Text,
    /// Why the execution is paused or the request was refused.
    reason: view::Text,
}

impl Adopt {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let adopted = match &self.name {
            Some(name) => vec![self.one(context, resource::execution(name)?).await?],
            None => match self.many(context).await? {
                Some(adopted) => adopted,
                None => return Ok(Exit::Ok),
            },
        };
        context.show(&adopted, || results(&adopted, context))?;
        let done = |one: &Adopted| matches!(one.result, "adopted" | "unchanged");
        Ok(if adopted.iter().all(done) {
            Exit::Ok
        } else {
            Exit::Refused
        })
    }

    async fn one(&self, context: &Context, name: String) -> Result<Adopted, Failure> {
        let get = client::Get::new(&name).view(v1::ExecutionView::Basic);
        let before = context.client.get(context.call(get)).await?;
        let call = client::AdoptDefinition::new(name)
            .revision(self.revision.clone().unwrap_or_default())
            .request_id(self.request_id.clone().unwrap_or_default())
            .etag(self.etag.clone().unwrap_or_default());
        let after = context.client.adopt_definition(context.call(call)).await?;
        Ok(Adopted::of(&before, &after))
    }

    /// None when nothing was asked of any execution.
    async fn many(&self, context: &Context) -> Result<Option<Vec<Adopted>>, Failure> {
        let found = self.matching(context).await?;
        if found.is_empty() {
            talk("no open execution matches the filter");
            return Ok(Some(Vec::new()));
        }
        let preview = self.preview(context, &found).await?;
        if self.dry_run {
            context.show(&preview, || previewed(&preview, context))?;
            return Ok(None);
        }
        if !self.yes {
            previewed(&preview, context).lines().for_each(talk);
            confirm(
                &format!("Offer the revision to {} executions?", found.len()),
                "an execution that cannot continue under the revision is paused",
                "nothing was offered",
            )?;
        }
        let progress = Progress::new(found.len());
        let mut adopted = Vec::new();
        for before in &found {
            adopted.push(self.offered(context, before).await?);
            progress.advance();
        }
        progress.end();
        Ok(Some(adopted))
    }

    async fn matching(&self, context: &Context) -> Result<Vec<v1::Execution>, Failure> {
        let filter = self.filter.as_deref().unwrap_or_default();
        let list = client::List::new(resource::parent(self.provider.as_deref())?)
            .filter(format!("({filter}) AND {OPEN}"))
            .page_size(1_000);
        let mut found = Vec::new();
        let mut stream = std::pin::pin!(context.client.list(context.call(list)));
        while let Some(execution) = match stream.try_next().await {
            Ok(next) => next,
            Err(error) => return Err(self.of_filter(context, error).await),
        } {
            if found.len() == MOST {
                let message = format!("more than {MOST} executions match the filter");
                return Err(Failure::usage(message).hint("Narrow the filter."));
            }
            found.push(execution);
        }
        Ok(found)
    }

    /// The error of the caller's own filter, whose columns are those that the caller wrote; `error`
    /// where the filter is not the reason.
    async fn of_filter(&self, context: &Context, error: client::Error) -> Failure {
        let filter = self.filter.as_deref().unwrap_or_default();
        let Ok(parent) = resource::parent(self.provider.as_deref()) else {
            return error.into();
        };
        let list = client::List::new(parent).filter(filter).page_size(1);
        let alone = context.client.list(context.call(list));
        match std::pin::pin!(alone).try_next().await {
            Ok(_) => error.into(),
            Err(alone) => alone.into(),
        }
    }

    /// One execution of many: a refusal is a result and the others follow.
    async fn offered(&self, context: &Context, before: &v1::Execution) -> Result<Adopted, Failure> {
        let call = client::AdoptDefinition::new(&before.name)
            .revision(self.revision.clone().unwrap_or_default());
        match context.client.adopt_definition(context.call(call)).await {
            Ok(after) => Ok(Adopted::of(before, &after)),
            Err(error) => {
                let failure = Failure::from(error);
                if failure.exit == Exit::Unreachable {
                    return Err(failure);
                }
                Ok(Adopted {
                    execution: (&before.name).into(),
                    result: "refused",
                    revision: (&before.revision).into(),
                    reason: (&failure.message).into(),
                })
            }
        }
    }

    /// The executions with the revision that each is offered.
    async fn preview(
        &self,
        context: &Context,
        found: &[v1::Execution],
    ) -> Result<Vec<Offer>, Failure> {
        let mut current: BTreeMap<&str, String> = BTreeMap::new();
        let mut offers = Vec::new();
        for execution in found {
            let name = execution.definition.as_str();
            if self.revision.is_none() && !current.contains_key(name) {
                let fetched = match fetch(context, name, None).await {
                    Ok(definition) => definition.revision,
                    // A definition that was deleted has no current revision.
                    Err(failure) if failure.exit == Exit::NotFound => String::new(),
                    Err(failure) => return Err(failure),
                };
                current.insert(name, fetched);
            }
            let offered = self.revision.as_ref().or_else(|| current.get(name));
            offers.push(Offer {
                execution: (&execution.name).into(),
                sub_state: client::word_of(execution.sub_state),
                revision: (&execution.revision).into(),
                offered: offered.map_or_else(|| "".into(), view::Text::from),
            });
        }
        Ok(offers)
    }
}

fn previewed(offers: &[Offer], context: &Context) -> String {
    let headings = ["EXECUTION", "STATE", "REVISION", "OFFERED"];
    let mut table = Table::new(&headings, context.paint);
    for offer in offers.iter().take(MOST_PREVIEWED) {
        table.row(vec![
            short_name(&offer.execution),
            offer.sub_state.to_owned(),
            short(offer.revision.raw()),
            short(offer.offered.raw()),
        ]);
    }
    match offers.len().saturating_sub(MOST_PREVIEWED) {
        0 => table.text(),
        more => format!("{}\nand {more} more", table.text()),
    }
}

impl Adopted {
    fn of(before: &v1::Execution, after: &v1::Execution) -> Self {
        let mismatch = after
            .last_error
            .as_ref()
            .filter(|error| error.native_code == MISMATCH);
        let result = if mismatch.is_some() {
            "paused"
        } else if before.revision == after.revision {
            "unchanged"
        } else {
            "adopted"
        };
        Self {
            execution: (&after.name).into(),
            result,
            revision: (&after.revision).into(),
            reason: mismatch.map_or_else(|| "".into(), |error| (&error.message).into()),
        }
    }
}

fn results(adopted: &[Adopted], context: &Context) -> String {
    let headings = ["EXECUTION", "RESULT", "REVISION", "REASON"];
    let mut table = Table::new(&headings, context.paint);
    for one in adopted {
        table.row(vec![
            short_name(&one.execution),
            one.result.to_owned(),
            short(one.revision.raw()),
            one.reason.to_string(),
        ]);
    }
    let count = |result| adopted.iter().filter(|one| one.result == result).count();
    if adopted.len() > 1 {
        let counts = ["adopted", "unchanged", "paused", "refused"]
            .map(|result| format!("{} {result}", count(result)));
        talk(&counts.join(", "));
    }
    table.text()
}

fn short(revision: &str) -> String {
    crate::visible::visible(revision).chars().take(12).collect()
}

/// A progress line on a terminal, nothing elsewhere.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(total: usize) -> Self {
        Self(std::io::stderr().is_terminal().then(|| {
            let total = u64::try_from(total).ok();
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        }))
    }

    fn advance(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(revision: &str, code: &str) -> v1::Execution {
        v1::Execution {
            name: "providers/builtin/executions/e1".to_owned(),
            revision: revision.to_owned(),
            last_error: (!code.is_empty()).then(|| {
                Box::new(v1::ExecutionError {
                    native_code: code.to_owned(),
                    message: "step `a` is different".to_owned(),
                    ..v1::ExecutionError::default()
                })
            }),
            ..v1::Execution::default()
        }
    }

    #[test]
    fn the_result_follows_from_the_revision_and_the_error() {
        let before = execution("r1", "");
        for (after, result, reason) in [
            (execution("r2", ""), "adopted", ""),
            (execution("r1", ""), "unchanged", ""),
            (execution("r2", "HTTP_500"), "adopted", ""),
            (execution("r1", MISMATCH), "paused", "step `a` is different"),
        ] {
            let adopted = Adopted::of(&before, &after);
            assert_eq!((adopted.result, adopted.reason.raw()), (result, reason));
        }
    }
}
