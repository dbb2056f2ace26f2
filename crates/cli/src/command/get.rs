//! `stateway get`: one execution.

use std::io::Write;

use clap::{Args, ValueEnum};
use stateway_client as client;
use stateway_client::v1;

use crate::arguments::Output;
use crate::context::{Context, print, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Paint, Table, details, stamp, step_details};
use crate::{input, resource, view};

/// The reason of an answer that does not fit into one message.
const TOO_LARGE: &str = "RESPONSE_TOO_LARGE";

/// Shows an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway get builtin/order-17
  stateway get providers/builtin/executions/order-17 -o json
  stateway get builtin/order-17 --step charge
  stateway get builtin/order-17 --payload output > order-17.json
  stateway get builtin/order-17 --vocabulary buquet")]
pub struct Get {
    /// provider/id, or the full name
    name: String,
    /// Show the execution in the terms of another system, with its moves; built-in engine only
    #[arg(long, value_name = "NAME")]
    vocabulary: Option<Vocabulary>,
    /// Show one step: its input, its output and every attempt; built-in engine only
    #[arg(long, value_name = "STEP", value_parser = input::non_empty, conflicts_with = "vocabulary")]
    step: Option<String>,
    /// Write the input or the output of the execution to stdout, unchanged and of any size; with --step,
    /// the input or the output of the step
    #[arg(long, value_name = "PAYLOAD", conflicts_with = "vocabulary")]
    payload: Option<PayloadSource>,
}

/// Which payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadSource {
    /// The input.
    Input,
    /// The output.
    Output,
}

/// The system whose terms are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Vocabulary {
    /// An agent orchestrator.
    Ioa,
    /// A workflow engine, with the fields of its `state.json`.
    Buquet,
    /// A software factory.
    Connectsoft,
    /// An event-sourced workflow manager.
    Workflowmanager,
    /// A tenant control plane.
    Landlord,
}

impl Get {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if let Some(vocabulary) = self.vocabulary {
            return project(context, name, vocabulary).await;
        }
        if let Some(payload) = self.payload {
            let name = match &self.step {
                Some(step) => format!("{name}/steps/{step}"),
                None => name,
            };
            return write_payload(context, name, payload).await;
        }
        if let Some(step) = &self.step {
            return show_step(context, &name, step).await;
        }
        let found = read(context, name).await?;
        let view = view::Execution::from(&found);
        if context.output == Output::Json {
            context.show(&view, String::new)?;
            return Ok(Exit::Ok);
        }
        let now = jiff::Timestamp::now();
        print(&details(&view, context.paint, now))?;
        Ok(Exit::Ok)
    }
}

/// Reads an execution; without its payloads if they do not fit into one message.
async fn read(context: &Context, name: String) -> Result<v1::Execution, Failure> {
    let call = client::Get::new(&name);
    let error = match context.client.get(context.call(call)).await {
        Ok(found) => return Ok(found),
        Err(error) if error.reason() == TOO_LARGE => error,
        Err(error) => return Err(error.into()),
    };
    let call = client::Get::new(&name).view(v1::ExecutionView::Basic);
    let found = context.client.get(context.call(call)).await?;
    print_message(&format!(
        "{}; input and output are left out",
        error.message()
    ));
    print_message("hint: read them with `--payload input` and `--payload output`");
    Ok(found)
}

/// Writes a payload as it is.
async fn write_payload(context: &Context, name: String, source: PayloadSource) -> Outcome {
    let call = match source {
        PayloadSource::Input => client::ReadPayload::input(name),
        PayloadSource::Output => client::ReadPayload::output(name),
    };
    let mut parts = context.client.read_payload(context.call(call)).await?;
    let mut out = std::io::stdout().lock();
    while let Some(part) = parts.next().await? {
        out.write_all(&part)?;
    }
    out.flush()?;
    Ok(Exit::Ok)
}

async fn show_step(context: &Context, execution: &str, step: &str) -> Outcome {
    let call = client::GetStep::new(execution, step);
    let found = context.client.step(context.call(call)).await?;
    let detail = view::StepDetail::from(&found);
    let now = jiff::Timestamp::now();
    context.show(&detail, || step_details(&detail, context.paint, now))?;
    Ok(Exit::Ok)
}

async fn project(context: &Context, name: String, vocabulary: Vocabulary) -> Outcome {
    let word = vocabulary.to_possible_value();
    let word = word.map(|word| word.get_name().to_owned());
    let call = client::Project::from_message(v1::ProjectExecutionRequest {
        name,
        vocabulary: word.unwrap_or_default(),
    });
    let told = context.client.project(context.call(call)).await?;
    let told = view::Projection::from(&told);
    context.show(&told, || text(&told, context.paint))?;
    Ok(Exit::Ok)
}

fn text(told: &view::Projection, paint: Paint) -> String {
    let mut table = Table::new(&[], paint);
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            table.row(vec![what.to_owned(), value]);
        }
    };
    line("name", told.name.to_string());
    line("status", told.status.to_string());
    let words = format!("{} ({})", told.vocabulary, told.source);
    line("vocabulary", words);
    let steps: Vec<_> = told.current_steps.iter().map(ToString::to_string).collect();
    line("steps", steps.join(" "));
    if let Some(error) = &told.last_error {
        let at = error.at.map(stamp).unwrap_or_default();
        line(
            "last error",
            format!(
                "{} in {} (attempt {}) {at}",
                error.message, error.step, error.attempt
            ),
        );
    }
    line("moves", path(&told.moves));
    for step in &told.steps {
        line(&format!("  {}", step.step), path(&step.moves));
    }
    let all = || told.steps.iter().flat_map(|step| &step.moves);
    for (kind, meaning) in LEGEND {
        if told.moves.iter().chain(all()).any(|one| one.kind == kind) {
            line(arrow(kind).trim(), meaning.to_owned());
        }
    }
    table.text()
}

/// The meaning of the arrows that are not plain moves.
const LEGEND: [(&str, &str); 2] = [
    (
        "bridged",
        "part of one move that the other system makes in several",
    ),
    ("outside", "a move that the other system does not have"),
];

fn arrow(kind: &str) -> &'static str {
    match kind {
        "begin" => "",
        "bridged" => " ~> ",
        "outside" => " !> ",
        _ => " > ",
    }
}

/// The states one after the other, with an arrow for each kind of move.
fn path(moves: &[view::Move]) -> String {
    let each = moves
        .iter()
        .map(|one| format!("{}{}", arrow(&one.kind), one.to));
    each.collect()
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;
    use stateway_client::v1::projected_move::Kind;

    use super::text;
    use crate::screen::Paint;
    use crate::view;

    fn projection(kinds: &[Kind]) -> view::Projection {
        let each = ["Created", "Running", "Compensating", "Failed"].iter();
        let moves = each.zip(kinds).map(|(to, kind)| v1::ProjectedMove {
            from: String::new(),
            to: (*to).to_owned(),
            kind: (*kind).into(),
        });
        view::Projection::from(&v1::ProjectedExecution {
            vocabulary: "connectsoft".to_owned(),
            source: "software factory".to_owned(),
            moves: moves.collect(),
            ..v1::ProjectedExecution::default()
        })
    }

    #[test]
    fn bridges_and_moves_outside_are_marked_and_explained() {
        let kinds = [Kind::Begin, Kind::Legal, Kind::Bridged, Kind::Outside];
        let text = text(&projection(&kinds), Paint::new(false));
        assert!(
            text.contains("Created > Running ~> Compensating !> Failed"),
            "{text}"
        );
        assert!(text.contains("makes in several"), "{text}");
        assert!(text.contains("does not have"), "{text}");
    }

    #[test]
    fn plain_moves_need_no_legend() {
        let text = text(&projection(&[Kind::Begin, Kind::Legal]), Paint::new(false));
        assert!(!text.contains("other system"), "{text}");
    }
}
