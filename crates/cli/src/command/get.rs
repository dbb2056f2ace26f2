//! `stateway get`: one execution.

use clap::{Args, ValueEnum};
use stateway_client as client;
use stateway_client::v1;

use crate::arguments::Output;
use crate::context::{Context, print};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::held::held;
use crate::screen::{Paint, Table, details_of, moment, step_details};
use crate::{input, resource, view};

/// Shows an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway get memory/order-17
  stateway get providers/memory/executions/order-17 -o json
  stateway get builtin/order-17 --step charge
  stateway get builtin/order-17 --vocabulary buquet")]
pub struct Get {
    /// provider/id, or the full name
    name: String,
    /// In the words of another system, with the moves that led there; for the built-in engine
    #[arg(long, value_name = "NAME")]
    vocabulary: Option<Vocabulary>,
    /// One step: its input, its output and every attempt; for the built-in engine
    #[arg(long, value_name = "STEP", value_parser = input::given, conflicts_with = "vocabulary")]
    step: Option<String>,
}

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Vocabulary {
    /// Of an agent orchestrator.
    Ioa,
    /// Of a workflow engine, with the fields of its `state.json`.
    Buquet,
    /// Of a software factory.
    Connectsoft,
    /// Of an event-sourced workflow manager.
    Workflowmanager,
    /// Of a tenant control plane.
    Landlord,
}

impl Get {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if let Some(vocabulary) = self.vocabulary {
            return project(context, name, vocabulary).await;
        }
        if let Some(step) = &self.step {
            return show_step(context, &name, step).await;
        }
        let call = client::Get::new(name);
        let found = context.client.get(context.call(call)).await?;
        let view = view::Execution::from(&found);
        if context.output == Output::Json {
            context.show(&view, String::new)?;
            return Ok(Exit::Ok);
        }
        let held = held(context, &view).await.unwrap_or_default();
        let now = jiff::Timestamp::now();
        print(&details_of(&view, &held, context.paint, now))?;
        Ok(Exit::Ok)
    }
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
    line("words of", format!("{} ({})", told.vocabulary, told.source));
    let steps: Vec<_> = told.current_steps.iter().map(ToString::to_string).collect();
    line("steps", steps.join(" "));
    if let Some(error) = &told.last_error {
        let at = error.at.map(moment).unwrap_or_default();
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
    table.text()
}

/// The states one after the other; what the other system has no word for is marked.
fn path(moves: &[view::Move]) -> String {
    let states = moves.iter().map(|one| match one.kind.as_str() {
        "outside" => format!("{} (outside)", one.to),
        _ => one.to.to_string(),
    });
    states.collect::<Vec<_>>().join(" > ")
}
