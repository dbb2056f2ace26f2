//! `stateway definitions adopt`: running executions are offered another revision.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_client::v1;

use super::fetch;
use crate::confirm::confirm;
use crate::context::{Context, announce, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::matching::{MOST_PREVIEWED, Matching, OPEN};
use crate::progress::Progress;
use crate::screen::{Table, short_name};
use crate::write::WriteOptions;
use crate::{input, resource, view};

const MISMATCH: &str = "REVISION_MISMATCH";

/// Offers a revision.
#[derive(Debug, Args)]
pub struct Adopt {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    /// The revision, or at least its first 8 digits (default: the current revision)
    #[arg(long, value_name = "REVISION", value_parser = input::non_empty)]
    revision: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
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
        let call =
            client::AdoptDefinition::new(name).revision(self.revision.clone().unwrap_or_default());
        let call = self.write.clone().apply(call);
        let after = context.client.adopt_definition(context.call(call)).await?;
        Ok(Adopted::of(&before, &after))
    }

    /// None when nothing was asked of any execution.
    async fn many(&self, context: &Context) -> Result<Option<Vec<Adopted>>, Failure> {
        let (found, _) = self.matching.find(context, OPEN).await?;
        if found.is_empty() {
            print_message("no open execution matches the filter");
            return Ok(Some(Vec::new()));
        }
        let preview = self.preview(context, &found).await?;
        if self.matching.dry_run {
            context.show(&preview, || previewed(&preview, context))?;
            return Ok(None);
        }
        if !self.matching.yes {
            announce(&previewed(&preview, context));
            confirm(
                &format!("Offer the revision to {} executions?", found.len()),
                "an execution that cannot continue under the revision is paused",
                "nothing was offered",
            )?;
        }
        let mut progress = Progress::new();
        let mut adopted = Vec::new();
        for before in &found {
            adopted.push(self.offered(context, before).await?);
            progress.show(|| format!("{} of {} offered", adopted.len(), found.len()));
        }
        Ok(Some(adopted))
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
        print_message(&counts.join(", "));
    }
    table.text()
}

fn short(revision: &str) -> String {
    stateway_phrases::visible(revision)
        .chars()
        .take(12)
        .collect()
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
