//! `stateway wait`: until an execution has finished, or shows a sub-state.

use std::time::Duration;

use clap::Args;
use stateway_client as client;
use stateway_client::{sub_state_of, v1, word_of};

use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;
use crate::screen::short_name;

/// How long the last read may take after a deadline without an answer.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Waits for an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway wait builtin/order-17
  stateway wait builtin/order-17 --for waiting --for error --timeout 5m

Without --timeout there is no time limit. The wait always ends when the execution has finished. \
Exits 0 if a sub-state of --for was reached, 1 if the execution failed and --for does not name \
`failed`, 4 if it succeeded and --for names other sub-states, 6 if the gateway did not answer, 7 if \
--timeout expired.")]
pub struct Wait {
    /// provider/id, or the full name
    name: String,
    /// Sub-state to wait for; may be given several times (default: `succeeded` and `failed`)
    #[arg(long = "for", value_name = "SUB-STATE", value_parser = sub_state)]
    states: Vec<v1::SubState>,
}

impl Wait {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if self.states.is_empty() {
            return until_finished(context, &name).await;
        }
        let execution = reached(context, &name, &self.states).await?;
        context.show_execution(&execution)?;
        let wanted = self
            .states
            .iter()
            .any(|state| *state as i32 == execution.sub_state);
        if wanted {
            return Ok(Exit::Ok);
        }
        if execution.sub_state() == v1::SubState::Failed {
            return Ok(Exit::ExecutionFailed);
        }
        let label = word_of(execution.sub_state);
        let message = format!("the execution ended `{label}` instead");
        Err(Failure::new(Exit::Refused, message))
    }
}

/// Waits for the end of the execution and prints it. The exit code shows success or failure.
pub(super) async fn until_finished(context: &Context, name: &str) -> Outcome {
    let execution = reached(context, name, &[]).await?;
    context.show_execution(&with_payloads(context, &execution).await)?;
    Ok(ended(&execution))
}

/// How the process ends when this execution has ended.
pub(super) fn ended(execution: &v1::Execution) -> Exit {
    match execution.sub_state() {
        v1::SubState::Failed => Exit::ExecutionFailed,
        _ => Exit::Ok,
    }
}

/// The answer to a wait has no payloads, so the execution is read again. If that fails, the answer to the wait is
/// shown.
pub(super) async fn with_payloads(context: &Context, execution: &v1::Execution) -> v1::Execution {
    let full = context.client.get(client::Get::new(&execution.name)).await;
    full.unwrap_or_else(|_| execution.clone())
}

/// The failure for a deadline that expired before the end of the execution. `again` is the command to repeat.
pub(super) fn late(execution: &v1::Execution, again: &str) -> Failure {
    let name = short_name(&(&execution.name).into());
    let hint = match execution.sub_state() {
        v1::SubState::Error if execution.reason() == v1::Reason::Escalated => format!(
            "A person has to decide: `stateway escalations list`, or `stateway cancel {name}`."
        ),
        v1::SubState::Error => format!(
            "The execution needs an action: `stateway resume {name}`, or `stateway cancel {name}`."
        ),
        _ => format!("The execution continues; {again} again, or with a longer --timeout."),
    };
    Failure::new(Exit::Deadline, "the timeout expired").hint(hint)
}

async fn reached(
    context: &Context,
    name: &str,
    states: &[v1::SubState],
) -> Result<v1::Execution, Failure> {
    let mut call = client::Wait::new(name);
    for state in states {
        call = call.until(*state);
    }
    let answer = match context.client.wait(context.call(call)).await {
        Err(error) if error.is_deadline() && context.timeout.is_some() => {
            return Err(unanswered(context, name, error).await);
        }
        answer => answer?,
    };
    let Some(execution) = answer.execution else {
        return Err(Failure::new(
            Exit::Internal,
            "the gateway answered without an execution",
        ));
    };
    if !answer.reached {
        return Err(still(&execution));
    }
    Ok(execution)
}

fn still(execution: &v1::Execution) -> Failure {
    let word = word_of(execution.sub_state);
    print_message(&format!("{} is still {word}", execution.name));
    late(execution, "wait")
}

/// After a deadline without an answer: distinguishes a short deadline from a gateway that does not answer.
async fn unanswered(context: &Context, name: &str, error: client::Error) -> Failure {
    let look = client::Get::new(name).timeout(LAST_LOOK);
    match context.client.get(look).await {
        Ok(execution) => still(&execution),
        Err(other) if other.is_from_gateway() && !other.is_deadline() => other.into(),
        Err(_) => error.into(),
    }
}

fn sub_state(word: &str) -> Result<v1::SubState, String> {
    let known = client::SUB_STATES.map(|(_, word)| word).join(", ");
    sub_state_of(word).ok_or_else(|| format!("not a sub-state; known: {known}"))
}
