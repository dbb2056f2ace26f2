//! A program that does tasks: one process per task, JSON in, JSON out.
//!
//! Each process leads a group of its own, so that whatever it starts ends with it, and a Ctrl-C in
//! the terminal reaches the worker and not the work.

use std::collections::HashSet;
use std::convert::Infallible;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use stateway_client::{Category, Done, Task, TaskError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The longest output of a task: the default limit of the engine.
pub const MAX_OUTPUT: usize = 1024 * 1024;

/// How much of the end of standard error is kept.
const MAX_SAID: usize = 2 * 1024;

/// How many of its last lines become the message of a failure.
const LINES_SAID: usize = 5;

/// How long a process may take to end whose answer is not wanted any more.
const GRACE: Duration = Duration::from_secs(2);

/// The exit code of a program that rules out another attempt: EX_CONFIG of `sysexits.h`.
const NEVER_RETRY: i32 = 78;

/// Keeps the shell alive until the command that runs when a SIGTERM arrives has ended, so that a
/// command that ignores or handles the signal decides the outcome. If the signal ended the command, the
/// shell ends by the signal too; if the command failed, the shell ends with its exit code.
const SURVIVE_SIGTERM: &str = "trap 'stateway_status=$?; \
    if [ \"$stateway_status\" -eq 143 ]; then trap - TERM; kill -TERM $$; \
    elif [ \"$stateway_status\" -ne 0 ]; then exit \"$stateway_status\"; fi' TERM; ";

/// A program, and the processes that run it at present.
#[derive(Debug)]
pub struct Program {
    command: String,
    grace: Duration,
    groups: Mutex<HashSet<Pid>>,
}

/// How the wait for a process ended.
enum Ended {
    Exited(ExitStatus),
    TooLong,
    StillRunning,
    TooMuch,
}

impl Program {
    /// This command, for `sh -c`. A process whose execution is cancelled may take this long to end.
    #[must_use]
    pub fn new(command: &str, grace: Duration) -> Self {
        Self {
            command: command.to_owned(),
            grace,
            groups: Mutex::default(),
        }
    }

    /// Runs one task. A process whose task is cancelled is asked to end (SIGTERM), and its outcome
    /// counts. When the future is dropped, the process and everything it started are killed.
    ///
    /// # Errors
    /// The process could not be started, ended with another code than 0, printed something that is
    /// not JSON, or took too long.
    pub async fn run(&self, task: &Task) -> Result<Done, TaskError> {
        let mut child = self.spawn(task)?;
        let group = Group::of(self, &child)?;
        let (Some(mut input), Some(output), Some(said)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(TaskError::agent_error("the program has no pipes"));
        };
        let json = task.input_json().to_vec();
        let write = async move {
            // A program need not read its input.
            let _ = input.write_all(&json).await;
        };
        let mut answer = Vec::new();
        let mut last = Vec::new();
        let ended = {
            let exchange = async {
                let ((), whole, ()) = tokio::join!(
                    write,
                    read_bounded(output, &mut answer),
                    read_last(said, &mut last)
                );
                whole
            };
            let exit = until_exit(&mut child, exchange, task);
            tokio::select! {
                ended = self.until_end(task, &group, exit) => ended?,
                never = beat(task) => match never {},
            }
        };
        match ended {
            Ended::Exited(status) => {
                if !task.is_cancelled() {
                    group.forget();
                }
                if status.success() {
                    output_of(&answer)
                } else if status.code().is_none() {
                    // A signal ended the program: its effects are unknown.
                    Err(failure(status, &last).effects_unknown())
                } else {
                    Err(failure(status, &last))
                }
            }
            Ended::TooLong => {
                group.end(&mut child).await;
                Err(TaskError::timed_out("the program took too long").effects_unknown())
            }
            Ended::StillRunning => {
                drop(group);
                let message =
                    "the task was cancelled; the program did not end in time and was killed";
                Err(TaskError::agent_error(message).effects_unknown())
            }
            Ended::TooMuch => {
                group.end(&mut child).await;
                let most = MAX_OUTPUT / 1024;
                Err(TaskError::agent_error(format!(
                    "the program printed more than {most} KiB"
                )))
            }
        }
    }

    /// Waits for the process to end, by itself or because its task is cancelled; or until it has taken
    /// too long.
    async fn until_end(
        &self,
        task: &Task,
        group: &Group<'_>,
        exit: impl Future<Output = Result<Ended, TaskError>>,
    ) -> Result<Ended, TaskError> {
        tokio::pin!(exit);
        tokio::select! {
            ended = &mut exit => return ended,
            () = deadline(task.deadline()) => return Ok(Ended::TooLong),
            () = task.cancelled() => group.ask_to_end(),
        }
        let withdrawn = async {
            task.withdrawn().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            ended = &mut exit => ended,
            () = withdrawn => Ok(Ended::StillRunning),
            () = tokio::time::sleep(self.grace) => Ok(Ended::StillRunning),
        }
    }

    /// Kills every process immediately, with everything it started.
    pub fn kill_all(&self) {
        for group in &*self.groups.lock().unwrap_or_else(PoisonError::into_inner) {
            // One that has ended meanwhile is what was wanted.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    fn spawn(&self, task: &Task) -> Result<Child, TaskError> {
        let flag = |set: bool| if set { "1" } else { "" };
        let spawned = Command::new("sh")
            .args(["-c", &format!("{SURVIVE_SIGTERM}{}", self.command)])
            .env("STATEWAY_EXECUTION", task.execution())
            .env("STATEWAY_STEP", task.step())
            .env("STATEWAY_ATTEMPT", task.attempt().to_string())
            .env("STATEWAY_ACTION", task.action())
            .env("STATEWAY_ROLE", task.role())
            .env("STATEWAY_FEEDBACK", task.feedback().unwrap_or_default())
            .env("STATEWAY_COMPENSATION", flag(task.is_compensation()))
            .env("STATEWAY_OUTCOME_UNKNOWN", flag(task.outcome_unknown()))
            .env("STATEWAY_TASK", task.token())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        spawned.map_err(|error| {
            TaskError::transient(format!("the program could not be started: {error}"))
        })
    }
}

/// A process group that ends with this.
struct Group<'p> {
    program: &'p Program,
    id: Pid,
}

impl<'p> Group<'p> {
    fn of(program: &'p Program, child: &Child) -> Result<Self, TaskError> {
        let id = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| TaskError::agent_error("the program ended immediately"))?;
        program.with_groups(|groups| groups.insert(id));
        Ok(Self { program, id })
    }

    /// Asks every process of the group to end.
    fn ask_to_end(&self) {
        // A process group that has ended meanwhile needs no signal.
        let _ = kill_process_group(self.id, Signal::TERM);
    }

    /// Asks the group to end, and kills it when it does not.
    async fn end(self, child: &mut Child) {
        self.ask_to_end();
        // Dropping the group kills it.
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
    }

    /// The leader has ended by itself; what it left in the background is its own affair.
    fn forget(self) {
        self.program.with_groups(|groups| groups.remove(&self.id));
        std::mem::forget(self);
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let _ = kill_process_group(self.id, Signal::KILL);
        self.program.with_groups(|groups| groups.remove(&self.id));
    }
}

impl Program {
    fn with_groups<T>(&self, change: impl FnOnce(&mut HashSet<Pid>) -> T) -> T {
        change(&mut self.groups.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits until the pipes are closed and the process has ended. After a cancellation, what the process
/// left in the background may keep the pipes open for a short time only.
async fn until_exit(
    child: &mut Child,
    exchange: impl Future<Output = bool>,
    task: &Task,
) -> Result<Ended, TaskError> {
    let cannot_wait = |error: std::io::Error| {
        TaskError::agent_error(format!("the program cannot be waited for: {error}"))
    };
    tokio::pin!(exchange);
    let status = tokio::select! {
        whole = &mut exchange => {
            if !whole {
                return Ok(Ended::TooMuch);
            }
            let status = child.wait().await.map_err(cannot_wait)?;
            return Ok(Ended::Exited(status));
        }
        status = child.wait() => status.map_err(cannot_wait)?,
    };
    let cut_off = async {
        task.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let whole = tokio::select! {
        whole = &mut exchange => whole,
        () = cut_off => true,
    };
    if whole {
        Ok(Ended::Exited(status))
    } else {
        Ok(Ended::TooMuch)
    }
}

async fn read_bounded(from: impl AsyncRead + Unpin, answer: &mut Vec<u8>) -> bool {
    let most = u64::try_from(MAX_OUTPUT).unwrap_or(u64::MAX);
    // An output that cannot be read to its end is not JSON either.
    let _ = from.take(most + 1).read_to_end(answer).await;
    answer.len() <= MAX_OUTPUT
}

/// Reads everything, and keeps the last bytes.
async fn read_last(mut from: impl AsyncRead + Unpin, last: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        last.extend_from_slice(&piece[..read]);
        let surplus = last.len().saturating_sub(MAX_SAID);
        last.drain(..surplus);
    }
}

async fn deadline(at: Option<SystemTime>) {
    match at {
        Some(at) => {
            let left = at.duration_since(SystemTime::now()).unwrap_or_default();
            tokio::time::sleep(left).await;
        }
        None => std::future::pending().await,
    }
}

/// Sends heartbeats in the program's place, which cannot send any.
async fn beat(task: &Task) -> Infallible {
    let Some(timeout) = task.heartbeat_timeout() else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(timeout / 3).await;
        task.heartbeat(0.0, "");
    }
}

/// The result of a task; `null` if the program printed nothing.
fn output_of(answer: &[u8]) -> Result<Done, TaskError> {
    let trimmed = answer.trim_ascii();
    if trimmed.is_empty() {
        return Ok(Done::json("null"));
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(trimmed) {
        Ok(_) => Ok(Done::json(trimmed.to_vec())),
        Err(error) => Err(TaskError::agent_error(format!(
            "the program's output is not JSON: {error}"
        ))),
    }
}

fn failure(status: ExitStatus, last: &[u8]) -> TaskError {
    let said = String::from_utf8_lossy(last);
    let lines: Vec<_> = said.lines().map(str::trim_end).collect();
    let lines = lines[lines.len().saturating_sub(LINES_SAID)..].join("\n");
    let how = match status.code() {
        Some(code) => format!("exit code {code}"),
        None => format!("{status}"),
    };
    let message = match lines.trim() {
        "" => format!("the program failed: {how}"),
        lines => format!("{lines} ({how})"),
    };
    let code = status
        .code()
        .map_or_else(String::new, |code| code.to_string());
    let error = TaskError::new(category(status.code()), message).code(code);
    if status.code() == Some(NEVER_RETRY) {
        error.no_retry()
    } else {
        error
    }
}

/// The codes of `sysexits.h`, and of `timeout(1)`.
const fn category(code: Option<i32>) -> Category {
    match code {
        Some(65) => Category::Validation,
        Some(69) => Category::External,
        Some(75) => Category::Transient,
        Some(77) => Category::Governance,
        Some(124) => Category::Timeout,
        _ => Category::AgentError,
    }
}
