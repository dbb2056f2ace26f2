//! The kit's scenes as histories and definitions.

use serde_json::{Value, json};
use stateway_contract_kit::{Scene, Skip};
use stateway_model::SubState;
use stateway_provider_api::NativeState;
use stateway_provider_api::table::Scope;

use super::script::{
    NOTHING, activity, begun, entered, execution, exited, iteration, push, wait_for_token,
};
use super::{Execution, World, desk};

/// A history and the definition it follows.
struct Staged {
    events: Vec<Value>,
    definition: Value,
}

impl World {
    /// Brings an execution into being that shows this; its ARN.
    pub(crate) fn stage(&mut self, scene: Scene) -> Result<String, Skip> {
        let machine = format!("scene-{}", self.machines.len());
        let shown = match scene {
            Scene::Native {
                scope: Scope::Execution,
                native,
            } => status(&machine, &native)?,
            Scene::Native { native, .. } => running(&machine, step(&native)?),
            Scene::Steps(open) => running(&machine, branches(&open)?),
            Scene::NoMetadata => running(&machine, one("W", "Wait", &[])),
            Scene::BackingOff { attempt } => running(&machine, backing_off(attempt)),
            Scene::AwaitingSignal { signal } => running(&machine, awaiting(&signal)),
            Scene::Succeeded => {
                let staged = one("first", "Pass", &[("PassStateExited", exited("first"))]);
                let mut staged = running(&machine, staged);
                end(&mut staged.0, "ExecutionSucceeded", "SUCCEEDED");
                staged
            }
            Scene::Failed => failed(&machine),
            Scene::AwaitingApproval => {
                return Err(Skip::because("Step Functions asks nobody for approvals"));
            }
            Scene::Stuck => return Err(Skip::because("Step Functions has no resume")),
            Scene::CleansUp => {
                return Err(Skip::because("StopExecution leaves no time to clean up"));
            }
            #[expect(unreachable_patterns, reason = "the kit may learn scenes")]
            _ => return Err(Skip::because("not staged here")),
        };
        let (execution, definition) = shown;
        let arn = execution.arn();
        self.machines.insert(machine, definition);
        self.executions.push(execution);
        Ok(arn)
    }
}

fn running(machine: &str, staged: Staged) -> (Execution, Value) {
    (
        execution(machine, "staged", staged.events),
        staged.definition,
    )
}

fn end(execution: &mut Execution, kind: &str, status: &str) {
    let last = execution.events.len();
    push(&mut execution.events, last, kind, NOTHING);
    status.clone_into(&mut execution.status);
}

fn machine(states: &Value) -> Value {
    json!({"StartAt": "x", "States": states})
}

/// One top-level state that was entered, and what happened in it, one event after the other.
fn one(name: &str, kind: &str, then: &[(&str, super::script::Details)]) -> Staged {
    let mut events = begun();
    let mut last = push(
        &mut events,
        0,
        &format!("{kind}StateEntered"),
        entered(name),
    );
    for (kind, detail) in then {
        last = push(&mut events, last, kind, detail.clone());
    }
    let mut state = json!({"Type": kind});
    if kind == "Wait" {
        state["Seconds"] = json!(3_600);
    }
    Staged {
        events,
        definition: machine(&json!({ name: state })),
    }
}

fn status(machine: &str, native: &NativeState) -> Result<(Execution, Value), Skip> {
    let mut staged = match native.qualifiers.get("history").map(String::as_str) {
        None => running(
            machine,
            one("T", "Task", &[("ActivityScheduled", activity())]),
        ),
        Some("partial") => running(machine, huge_map(5_000)),
        Some("unread") => {
            return Err(Skip::because(
                "asking for one execution always reads its history",
            ));
        }
        Some(_) => {
            return Err(Skip::because(
                "an Express execution is seen only as it starts",
            ));
        }
    };
    staged.0.status.clone_from(&native.state);
    if let Some(redrive) = native.qualifiers.get("redrive_status") {
        staged.0.redrive_status.clone_from(redrive);
    }
    Ok(staged)
}

/// One inline map with so many iterations that it cannot be read to its beginning.
pub(crate) fn huge_map_history(iterations: usize) -> (Vec<Value>, Value) {
    let staged = huge_map(iterations);
    (staged.events, staged.definition)
}

fn huge_map(iterations: usize) -> Staged {
    let mut events = begun();
    let id = push(&mut events, 0, "MapStateEntered", entered("M"));
    let length = ("mapStateStarted", json!({"length": iterations}));
    let started = push(&mut events, id, "MapStateStarted", length);
    for index in 0..iterations {
        let begins = iteration("mapIterationStarted", "M", index);
        let id = push(&mut events, started, "MapIterationStarted", begins);
        push(&mut events, id, "TaskStateEntered", entered("T"));
    }
    let inner = machine(&json!({"T": {"Type": "Task"}}));
    Staged {
        events,
        definition: machine(&json!({"M": {"Type": "Map", "ItemProcessor": inner}})),
    }
}

/// A sequence of states that never ends, a choice sending it round and round.
/// The same with its task under way.
pub(crate) fn long_running_sequence(events_wanted: usize) -> (Vec<Value>, Value) {
    let (mut events, definition) = long_sequence(events_wanted);
    events.pop();
    (events, definition)
}

pub(crate) fn long_sequence(events_wanted: usize) -> (Vec<Value>, Value) {
    let mut events = begun();
    let mut last = 0;
    while events.len() + 6 < events_wanted {
        last = push(&mut events, last, "PassStateEntered", entered("Again"));
        last = push(&mut events, last, "PassStateExited", exited("Again"));
    }
    let id = push(&mut events, last, "TaskStateEntered", entered("T"));
    let id = push(&mut events, id, "ActivityScheduled", activity());
    push(&mut events, id, "ActivityFailed", failure("activityFailed"));
    let retry = json!([{"ErrorEquals": ["Boom"], "IntervalSeconds": 3_600}]);
    let states = json!({"Again": {"Type": "Pass"}, "T": {"Type": "Task", "Retry": retry}});
    (events, machine(&states))
}

fn failure(kind: &'static str) -> super::script::Details {
    (kind, json!({"error": "Boom", "cause": "it went up"}))
}

fn backing_off(attempt: u32) -> Staged {
    let mut then = Vec::new();
    for _ in 0..attempt {
        then.push(("ActivityScheduled", activity()));
        then.push(("ActivityFailed", failure("activityFailed")));
    }
    let mut staged = one("T", "Task", &then);
    staged.definition["States"]["T"]["Retry"] = json!([{
        "ErrorEquals": ["Boom"], "IntervalSeconds": 3_600, "BackoffRate": 1, "MaxAttempts": 9
    }]);
    staged
}

fn awaiting(signal: &str) -> Staged {
    let mut events = begun();
    let id = push(&mut events, 0, "MapStateEntered", entered("M"));
    let started = push(
        &mut events,
        id,
        "MapStateStarted",
        ("mapStateStarted", json!({"length": 2})),
    );
    wait_for_token(&mut events, started, signal, 0);
    let task = json!({
        "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"MessageBody": {"token.$": "$$.Task.Token"}}
    });
    let inner = machine(&json!({ signal: task }));
    let map = json!({"Type": "Map", "MaxConcurrency": 1, "ItemProcessor": inner});
    Staged {
        events,
        definition: machine(&json!({ "M": map })),
    }
}

fn failed(machine_name: &str) -> (Execution, Value) {
    let mut events = begun();
    let id = push(&mut events, 0, "PassStateEntered", entered("first"));
    let id = push(&mut events, id, "PassStateExited", exited("first"));
    let id = push(&mut events, id, "TaskStateEntered", entered("second"));
    let id = push(&mut events, id, "ActivityScheduled", activity());
    let id = push(&mut events, id, "ActivityFailed", failure("activityFailed"));
    push(
        &mut events,
        id,
        "ExecutionFailed",
        failure("executionFailed"),
    );
    let states = json!({"first": {"Type": "Pass"}, "second": {"Type": "Task"}});
    let mut execution = execution(machine_name, "staged", events);
    "FAILED".clone_into(&mut execution.status);
    "REDRIVABLE".clone_into(&mut execution.redrive_status);
    execution.failure = Some(("Boom".to_owned(), "it went up".to_owned()));
    (execution, machine(&states))
}

/// A Parallel whose branches show these.
fn branches(open: &[SubState]) -> Result<Staged, Skip> {
    let mut events = begun();
    let id = push(&mut events, 0, "ParallelStateEntered", entered("P"));
    let started = push(&mut events, id, "ParallelStateStarted", NOTHING);
    let mut branches = Vec::new();
    for (number, wanted) in open.iter().enumerate() {
        let (kind, name) = match wanted {
            SubState::Waiting => ("Wait", format!("wait{number}")),
            SubState::Error => ("Task", format!("step{number}~paused")),
            _ => ("Task", format!("task{number}")),
        };
        let kind_entered = format!("{kind}StateEntered");
        let id = push(&mut events, started, &kind_entered, entered(&name));
        if kind == "Task" {
            let id = push(&mut events, id, "ActivityScheduled", activity());
            match wanted {
                SubState::Running => {
                    push(
                        &mut events,
                        id,
                        "ActivityStarted",
                        ("activityStarted", json!({})),
                    );
                }
                SubState::BackingOff => {
                    push(&mut events, id, "ActivityFailed", failure("activityFailed"));
                }
                SubState::Error => {}
                _ => return Err(Skip::because("a finished branch is no step")),
            }
        }
        let retry = json!([{"ErrorEquals": ["Boom"], "IntervalSeconds": 3_600}]);
        branches.push(machine(
            &json!({ name: {"Type": kind, "Seconds": 3_600, "Retry": retry} }),
        ));
    }
    let parallel = json!({"Type": "Parallel", "Branches": branches});
    Ok(Staged {
        events,
        definition: machine(&json!({ "P": parallel })),
    })
}

/// A step whose newest event is this one.
fn step(native: &NativeState) -> Result<Staged, Skip> {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    let follow_up = qualifier("follow_up");
    let word = native.state.as_str();
    if let Some(kind) = word.strip_suffix("StateEntered") {
        let name = qualifier("gate").map_or("S".to_owned(), |gate| format!("S~{gate}"));
        return Ok(match (kind, follow_up) {
            ("Fail", Some(follow_up)) => failing_inside("FailStateEntered", follow_up),
            _ => one(&name, kind, &[]),
        });
    }
    if let Some(kind) = word.strip_suffix("StateExited") {
        return Ok(one("S", kind, &[(word, exited("S"))]));
    }
    match word {
        "TaskStateAborted" | "WaitStateAborted" | "ParallelStateAborted" | "MapStateAborted" => {
            Err(Skip::because(
                "the event names no state and follows another branch",
            ))
        }
        "MapIterationSucceeded" | "MapIterationAborted" => {
            Err(Skip::because("an iteration that is over is no step"))
        }
        "MapIterationFailed" => Ok(failing_inside(word, follow_up.unwrap_or_default())),
        "ParallelStateFailed" | "MapStateFailed" => Ok(failing(word, follow_up)),
        "ParallelStateStarted" => Ok(one("S", "Parallel", &[(word, NOTHING)])),
        "ParallelStateSucceeded" => {
            let then = [("ParallelStateStarted", NOTHING), (word, NOTHING)];
            Ok(one("S", "Parallel", &then))
        }
        "MapIterationStarted" => Ok(in_map(&[(word, iteration("mapIterationStarted", "S", 3))])),
        "MapStateStarted" => Ok(in_map(&[])),
        "MapStateSucceeded" | "MapRunStarted" | "MapRunSucceeded" | "MapRunRedriven"
        | "MapRunAborted" => Ok(in_map(&[(word, NOTHING)])),
        "ExecutionRedriven" => {
            let then = [
                ("ActivityScheduled", activity()),
                ("ActivityFailed", failure("activityFailed")),
                ("ExecutionFailed", failure("executionFailed")),
                (
                    "ExecutionRedriven",
                    ("executionRedriven", json!({"redriveCount": 1})),
                ),
            ];
            Ok(one("S", "Task", &then))
        }
        _ if word.ends_with("Failed") || word.ends_with("TimedOut") => Ok(failing(word, follow_up)),
        _ => Ok(task(native)),
    }
}

fn in_map(then: &[(&str, super::script::Details)]) -> Staged {
    let mut all = vec![("MapStateStarted", ("mapStateStarted", json!({"length": 9})))];
    all.extend_from_slice(then);
    one("S", "Map", &all)
}

/// A task on its way.
fn task(native: &NativeState) -> Staged {
    let word = native.state.as_str();
    let gate = native.qualifiers.get("gate");
    let for_people = gate.is_some_and(|gate| gate == "signal");
    let name = match gate {
        Some(gate) if !for_people => format!("S~{gate}"),
        _ => "S".to_owned(),
    };
    let token = native.qualifiers.contains_key("token");
    let resource = if token {
        "sendMessage.waitForTaskToken"
    } else {
        "startJob.sync"
    };
    let called = json!({
        "resource": resource, "resourceType": "sqs", "region": "x", "parameters": "{}"
    });
    let scheduled = match word {
        _ if word.starts_with("Activity") => ("ActivityScheduled", activity()),
        _ if word.starts_with("Lambda") => (
            "LambdaFunctionScheduled",
            ("lambdaFunctionScheduled", json!({"resource": "f"})),
        ),
        _ => ("TaskScheduled", ("taskScheduled", called)),
    };
    let mut then = vec![scheduled];
    if then[0].0 != word {
        then.push((word, NOTHING));
    }
    let mut staged = one(&name, "Task", &then);
    if for_people {
        staged.definition["States"]["S"] = desk::people_state(false);
    }
    staged
}

/// A top-level state that fails like this, and what the definition or the history makes of it.
fn failing(word: &str, follow_up: Option<&str>) -> Staged {
    let (kind, begins, detail) = match word {
        "ParallelStateFailed" => ("Parallel", ("ParallelStateStarted", NOTHING), NOTHING),
        "MapStateFailed" | "MapRunFailed" => {
            let begins = ("MapStateStarted", ("mapStateStarted", json!({"length": 1})));
            let detail = match word {
                "MapRunFailed" => failure("mapRunFailed"),
                _ => NOTHING,
            };
            ("Map", begins, detail)
        }
        "EvaluationFailed" => {
            let told = json!({"error": "Boom", "cause": "it went up", "state": "S"});
            (
                "Task",
                ("ActivityScheduled", activity()),
                ("evaluationFailed", told),
            )
        }
        _ => (
            "Task",
            ("ActivityScheduled", activity()),
            failure(detail_name(word)),
        ),
    };
    let times = if follow_up == Some("exhausted") { 2 } else { 1 };
    let mut then = Vec::new();
    for _ in 0..times {
        then.push(begins.clone());
        then.push((word, detail.clone()));
    }
    if matches!(follow_up, Some("end" | "exhausted")) {
        then.push(("ExecutionFailed", failure("executionFailed")));
    }
    let mut staged = one("S", kind, &then);
    rules(&mut staged.definition["States"]["S"], follow_up);
    staged
}

/// What the definition says of a failure.
fn rules(state: &mut Value, follow_up: Option<&str>) {
    let retry = |most: u32| json!([{"ErrorEquals": ["States.ALL"], "MaxAttempts": most}]);
    match follow_up {
        Some("retry") => state["Retry"] = retry(3),
        Some("exhausted") => state["Retry"] = retry(1),
        Some("catch") => state["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": "x"}]),
        _ => {}
    }
}

/// A Map whose item fails with a Fail state, and what the Map makes of it.
fn failing_inside(word: &str, follow_up: &str) -> Staged {
    let mut events = begun();
    let mut last = push(&mut events, 0, "MapStateEntered", entered("M"));
    let times = if follow_up == "exhausted" { 2 } else { 1 };
    for _ in 0..times {
        let length = ("mapStateStarted", json!({"length": 1}));
        let id = push(&mut events, last, "MapStateStarted", length);
        let begins = iteration("mapIterationStarted", "M", 0);
        let id = push(&mut events, id, "MapIterationStarted", begins);
        last = push(&mut events, id, "FailStateEntered", entered("F"));
        if word == "MapIterationFailed" {
            let over = iteration("mapIterationFailed", "M", 0);
            last = push(&mut events, last, word, over);
        }
    }
    if matches!(follow_up, "end" | "exhausted") {
        push(
            &mut events,
            last,
            "ExecutionFailed",
            failure("executionFailed"),
        );
    }
    let inner = machine(&json!({"F": {"Type": "Fail", "Error": "Boom", "Cause": "it went up"}}));
    let mut map = json!({"Type": "Map", "ItemProcessor": inner});
    rules(&mut map, Some(follow_up));
    Staged {
        events,
        definition: machine(&json!({ "M": map })),
    }
}

fn detail_name(word: &str) -> &'static str {
    match word {
        "ActivityFailed" => "activityFailed",
        "ActivityTimedOut" => "activityTimedOut",
        "ActivityScheduleFailed" => "activityScheduleFailed",
        "LambdaFunctionFailed" => "lambdaFunctionFailed",
        "LambdaFunctionTimedOut" => "lambdaFunctionTimedOut",
        "LambdaFunctionScheduleFailed" => "lambdaFunctionScheduleFailed",
        "LambdaFunctionStartFailed" => "lambdaFunctionStartFailed",
        "TaskTimedOut" => "taskTimedOut",
        "TaskStartFailed" => "taskStartFailed",
        "TaskSubmitFailed" => "taskSubmitFailed",
        _ => "taskFailed",
    }
}
