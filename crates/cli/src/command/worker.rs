//! `stateway worker`: any program as a worker.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use stateway_client::{Task, Worker as Client, WorkerNews};

use super::serve::{INTERRUPTED, Stop};
use crate::arguments::Globals;
use crate::context::{actor, print_message};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::program::Program;
use crate::target::Target;

/// Runs a program for every task.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway worker --role billing --exec ./charge.sh
  stateway worker --role shipping --role packing --capacity 8 --exec 'python3 ship.py'
  stateway worker --role research --skill web --exec 'jq {found:.query}'

The program gets the task's input as JSON on standard input and answers with JSON on standard \
output. Its environment has STATEWAY_EXECUTION, STATEWAY_STEP, STATEWAY_ATTEMPT, STATEWAY_ACTION, \
STATEWAY_ROLE, STATEWAY_FEEDBACK (the validator's messages about the previous attempt), \
STATEWAY_COMPENSATION (1 when the task compensates the step), STATEWAY_OUTCOME_UNKNOWN (1 when it \
compensates a step whose worker was lost, so that the step may or may not have completed) and \
STATEWAY_TASK (the token of this hand-out).

If a worker is lost, another worker gets the same attempt. As an idempotency key for other systems, \
use STATEWAY_EXECUTION, STATEWAY_STEP, STATEWAY_ATTEMPT and STATEWAY_COMPENSATION together, not \
STATEWAY_TASK: each hand-out has another token.

The exit code is the outcome:
  0      completed
  65     the data is wrong (validation)
  69     an external system failed (external)
  75     a temporary failure (transient): retried
  77     a policy forbids it (governance): a person decides
  78     no other attempt can succeed (agent_error): never retried
  124    took too long (timeout)
  other  failed (agent_error); the last lines of standard error are the message

When the execution is cancelled or rolls back, the program and every process it started get SIGTERM. \
The exit code and the output still count: a task that completed is compensated. A program that has not \
ended after --drain is killed.

On SIGINT or SIGTERM the worker finishes the tasks that have begun; a second signal kills them.")]
pub struct Worker {
    /// Role of the tasks that the worker takes; may be given several times
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = crate::input::non_empty)]
    roles: Vec<String>,
    /// The program, run by `sh -c` for every task
    #[arg(long, value_name = "COMMAND", value_parser = crate::input::non_empty)]
    exec: String,
    /// Skill of the worker; may be given several times
    #[arg(long = "skill", value_name = "SKILL", value_parser = crate::input::non_empty)]
    skills: Vec<String>,
    /// Maximum number of tasks that run at the same time
    #[arg(long, value_name = "TASKS", default_value = "1")]
    capacity: NonZeroU32,
    /// Maximum number of further tasks that the worker fetches in advance
    #[arg(long, value_name = "TASKS", default_value_t = 0)]
    prefetch: u32,
    /// Take only tasks of this tenant (default: all tenants)
    #[arg(long, default_value = "")]
    tenant: String,
    /// Provider to work for (default: the gateway's built-in engine)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Id of the worker; a worker that reconnects with the same id keeps its tasks
    #[arg(long, value_name = "ID", value_parser = crate::input::non_empty)]
    id: Option<String>,
    /// Version of the program, shown by `stateway workers list` (default: none)
    #[arg(long, value_name = "VERSION", value_parser = crate::input::non_empty)]
    program_version: Option<String>,
    /// How long programs may continue after the worker gets SIGINT or SIGTERM, and after their
    /// execution is cancelled
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    drain: Span,
    /// Do not print a line for each task
    #[arg(long)]
    quiet: bool,
}

impl Worker {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let mut stop = Stop::new()?;
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let program = Arc::new(Program::new(&self.exec, self.drain.into()));
        let target = Target::of(globals)?;
        let mut worker = self.worker(&target.server, &program, async {
            // A sender that is gone has ended the process.
            let _ = stopped.await;
        });
        worker = worker.security(&target.security()?);
        if let Some(actor) = actor(globals, &target) {
            worker = worker.acting_as(&actor)?;
        }
        let twice = async {
            stop.next().await;
            // The worker may have ended by itself.
            let _ = stopping.send(());
            stop.next().await;
        };
        tokio::select! {
            ended = worker.serve() => ended?,
            () = twice => {
                program.kill_all();
                std::process::exit(INTERRUPTED);
            }
        }
        print_message("the worker has stopped");
        Ok(Exit::Ok)
    }

    fn worker(
        &self,
        server: &str,
        program: &Arc<Program>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Client {
        let mut worker = Client::new(server)
            .capacity(self.capacity.get())
            .prefetch(self.prefetch)
            .tenant(&self.tenant)
            .drain(Duration::from(self.drain))
            .until(stop)
            .observe(|news| print_message(&line(news)));
        for skill in &self.skills {
            worker = worker.skill(skill);
        }
        if let Some(id) = &self.id {
            worker = worker.id(id);
        }
        if let Some(version) = &self.program_version {
            worker = worker.version(version);
        }
        if let Some(provider) = &self.provider {
            worker = worker.provider(if provider.starts_with("providers/") {
                provider.clone()
            } else {
                format!("providers/{provider}")
            });
        }
        for role in &self.roles {
            let (program, quiet) = (Arc::clone(program), self.quiet);
            worker = worker.on_role(role, move |task: Task| {
                let program = Arc::clone(&program);
                async move {
                    let (begin, about) = (Instant::now(), about(&task));
                    let done = program.run(&task).await;
                    if !quiet {
                        let how = match &done {
                            Ok(_) => "done".to_owned(),
                            Err(error) => error.to_string(),
                        };
                        print_message(&format!("{about}: {how} ({:.1?})", begin.elapsed()));
                    }
                    done
                }
            });
        }
        worker
    }
}

fn about(task: &Task) -> String {
    let compensation = if task.is_compensation() {
        "compensate "
    } else {
        ""
    };
    let execution = task.execution().rsplit('/').next().unwrap_or_default();
    format!(
        "{compensation}{} attempt {} of {execution}",
        task.step(),
        task.attempt()
    )
}

fn line(news: &WorkerNews) -> String {
    match news {
        WorkerNews::Connected { worker_id, .. } => format!("connected as worker {worker_id}"),
        WorkerNews::Interrupted(error) => format!("{}; trying again", error.message()),
        WorkerNews::Refused {
            task_token,
            reason,
            message,
        } => format!("the result of task {task_token} was refused: {message} ({reason})"),
        WorkerNews::Stopping { under_way } => {
            format!("stopping; running tasks: {under_way}; a second signal kills them")
        }
    }
}
