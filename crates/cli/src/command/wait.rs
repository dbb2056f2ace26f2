//! `stateway wait`: until an execution has finished, or shows a sub-state.

use clap::Args;
use stateway_client as client;
use stateway_client::{sub_state_of, v1, word_of};

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;

/// Waits for an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway wait memory/order-17
  stateway wait memory/order-17 --for waiting --for error --timeout 5m

Without --timeout it waits for as long as it takes. A finished execution always ends the wait.
Exits 0 when a wanted sub-state was reached, 1 when the execution failed, 7 when --timeout came
first.")]
pub struct Wait {
    /// provider/id, or the full name
    name: String,
    /// The sub-state to wait for; may be given several times; `succeeded` and `failed` otherwise
    #[arg(long = "for", value_name = "SUB-STATE", value_parser = sub_state)]
    states: Vec<v1::SubState>,
}

impl Wait {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::Wait::new(resource::execution(&self.name)?);
        for state in &self.states {
            call = call.until(*state);
        }
        if self.states.is_empty() {
            return until_finished(context, call).await;
        }
        let execution = reached(context, call).await?;
        context.show_execution(&execution)?;
        let wanted = self
            .states
            .iter()
            .any(|state| *state as i32 == execution.sub_state);
        match wanted {
            true => Ok(Exit::Ok),
            false if execution.sub_state == v1::SubState::Failed as i32 => {
                Ok(Exit::ExecutionFailed)
            }
            false => {
                let word = word_of(execution.sub_state);
                Err(Failure::new(
                    Exit::Refused,
                    format!("it ended `{word}` instead"),
                ))
            }
        }
    }
}

/// Waits for the end, shows it, and tells success from failure by the exit code.
pub(super) async fn until_finished(context: &Context, call: client::Wait) -> Outcome {
    let execution = reached(context, call).await?;
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

/// A wait answers without payloads, and whoever waited wants the output. Where it cannot be had
/// any more, what the wait answered still holds.
async fn with_payloads(context: &Context, execution: &v1::Execution) -> v1::Execution {
    let full = context.client.get(client::Get::new(&execution.name)).await;
    full.unwrap_or_else(|_| execution.clone())
}

async fn reached(context: &Context, call: client::Wait) -> Result<v1::Execution, Failure> {
    let late = |message: String| {
        Failure::new(Exit::Deadline, message).hint("The execution goes on; wait again, or longer.")
    };
    let answer = match context.client.wait(context.call(call)).await {
        Err(error) if error.is_deadline() && context.timeout.is_some() => {
            return Err(late("the deadline came first".into()));
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
        let word = word_of(execution.sub_state);
        talk(&format!("{} is still {word}", execution.name));
        return Err(late("the deadline came first".into()));
    }
    Ok(execution)
}

fn sub_state(word: &str) -> Result<v1::SubState, String> {
    let known = client::SUB_STATES.map(|(_, word)| word).join(", ");
    sub_state_of(word).ok_or_else(|| format!("not a sub-state; known: {known}"))
}
