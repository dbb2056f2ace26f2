//! The service in memory with the state machine of a host: executions that wait at the gate, and the next
//! generations of those that continue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

use super::{HERE, now};

const DEFINITION: &str = include_str!("../../src/host/machine-1.json");
const MACHINES: [&str; 2] = ["stateway-executions-1", "stateway-definitions-1"];
const RESOURCE: &str = "sendTaskHeartbeat.waitForTaskToken";

/// One execution of a machine of the host.
pub(crate) struct Gated {
    pub(crate) machine: String,
    pub(crate) name: String,
    pub(crate) status: &'static str,
    pub(crate) events: Vec<Value>,
    started: f64,
    /// The input of the state in which it is.
    input: String,
    token: String,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) executions: Vec<Gated>,
    /// How often each operation was called.
    pub(crate) calls: BTreeMap<String, usize>,
    /// The code with which an operation is refused, by the operation and a text of its body.
    pub(crate) refused: Vec<(String, String, &'static str)>,
    tokens: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<World>>);

impl Gates {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a port to it.
    pub(crate) async fn open(&self) -> MockServer {
        let server = MockServer::start().await;
        Mock::given(any())
            .respond_with(self.clone())
            .mount(&server)
            .await;
        server
    }
}

impl Respond for Gates {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let target = request.headers.get("x-amz-target");
        let target = target.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut world = self.world();
        *world.calls.entry(operation.to_owned()).or_default() += 1;
        match world.answer(operation, &body) {
            Ok(answer) => ResponseTemplate::new(200).set_body_json(answer),
            Err(code) => {
                let refusal = json!({"__type": code, "message": operation});
                ResponseTemplate::new(400).set_body_json(refusal)
            }
        }
    }
}

type Answer = Result<Value, &'static str>;

impl World {
    pub(crate) fn of(&mut self, name: &str) -> &mut Gated {
        let mut executions = self.executions.iter_mut();
        executions.find(|it| it.name == name).expect("it is there")
    }

    /// The names of all executions of a host.
    pub(crate) fn names(&self) -> Vec<&str> {
        let executions = self
            .executions
            .iter()
            .filter(|it| it.machine == MACHINES[0]);
        executions.map(|it| it.name.as_str()).collect()
    }

    /// AWS deletes the history of an execution.
    pub(crate) fn delete(&mut self, name: &str) {
        self.executions.retain(|it| it.name != name);
    }

    /// The gate fails so often, and is tried again each time.
    pub(crate) fn fail_gate(&mut self, name: &str, times: usize) {
        let execution = self.of(name);
        for _ in 0..times {
            let failed = json!({"resourceType": "aws-sdk:sfn", "resource": RESOURCE, "error": "Sfn.SfnException"});
            execution.push("TaskFailed", ("taskFailed", failed));
            execution.schedule();
        }
        execution.submit();
    }

    fn answer(&mut self, operation: &str, body: &Value) -> Answer {
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let whole = body.to_string();
        let mut refused = self.refused.iter();
        if let Some((_, _, code)) = refused.find(|it| it.0 == operation && whole.contains(&it.1)) {
            return Err(code);
        }
        match operation {
            "ListStateMachines" => Ok(json!({"stateMachines": MACHINES.map(|name| json!({
                "stateMachineArn": format!("{HERE}:stateMachine:{name}"), "name": name,
                "type": "STANDARD", "creationDate": 1_700_000_000.0
            }))})),
            "DescribeStateMachine" => Ok(json!({
                "stateMachineArn": body["stateMachineArn"], "name": "x", "type": "STANDARD",
                "definition": DEFINITION, "status": "ACTIVE", "creationDate": 1_700_000_000.0,
                "roleArn": "arn:aws:iam::000000000000:role/sfn",
            })),
            "StartExecution" => {
                let machine = last(text("stateMachineArn"));
                self.start(machine, text("name"), text("input"))
            }
            "ListExecutions" => {
                let (machine, status) = (last(text("stateMachineArn")), text("statusFilter"));
                let rows = self.executions.iter().rev().filter(|it| {
                    it.machine == machine && (status.is_empty() || it.status == status)
                });
                Ok(json!({"executions": rows.map(Gated::row).collect::<Vec<_>>()}))
            }
            "GetExecutionHistory" => {
                let mut executions = self.executions.iter();
                let found = executions.find(|it| it.arn() == text("executionArn"));
                found.ok_or("ExecutionDoesNotExist")?.history(body)
            }
            "SendTaskSuccess" => {
                let execution = self.waiting(text("taskToken"))?;
                execution.leave("TaskSucceeded", ("taskSucceeded", "output", text("output")));
                execution.enter(text("output"));
                Ok(json!({}))
            }
            "SendTaskFailure" => self.fail(text("taskToken"), text("error")),
            _ => Err("UnknownOperationException"),
        }
    }

    fn start(&mut self, machine: &str, name: &str, input: &str) -> Answer {
        let mut executions = self.executions.iter();
        if executions.any(|it| it.machine == machine && it.name == name) {
            return Err("ExecutionAlreadyExists");
        }
        self.tokens += 1;
        let mut execution = Gated {
            machine: machine.to_owned(),
            name: name.to_owned(),
            status: "RUNNING",
            events: Vec::new(),
            started: now(),
            input: String::new(),
            token: format!("token-{}", self.tokens),
        };
        execution.push(
            "ExecutionStarted",
            ("executionStarted", json!({"input": input})),
        );
        execution.enter(input);
        let answer = json!({"executionArn": execution.arn(), "startDate": execution.started});
        self.executions.push(execution);
        Ok(answer)
    }

    fn waiting(&mut self, token: &str) -> Result<&mut Gated, &'static str> {
        let mut executions = self.executions.iter_mut();
        let found = executions.find(|it| it.status == "RUNNING" && it.token == token);
        found.ok_or("TaskTimedOut")
    }

    fn fail(&mut self, token: &str, error: &str) -> Answer {
        let execution = self.waiting(token)?;
        execution.leave("TaskFailed", ("taskFailed", "error", error));
        match error {
            "Stateway.Continued" => {
                let (machine, input) = (execution.machine.clone(), execution.input.clone());
                let entered = json!({"name": "Continue", "input": input});
                execution.push("TaskStateEntered", ("stateEntered", entered));
                execution.end("SUCCEEDED", "ExecutionSucceeded");
                let next: Value = serde_json::from_str(&input).unwrap_or_default();
                let name = next["next"].as_str().unwrap_or_default();
                self.start(&machine, name, &input)?;
            }
            "Stateway.Succeeded" => execution.end("SUCCEEDED", "ExecutionSucceeded"),
            _ => execution.end("FAILED", "ExecutionFailed"),
        }
        Ok(json!({}))
    }
}

impl Gated {
    fn arn(&self) -> String {
        format!("{HERE}:execution:{}:{}", self.machine, self.name)
    }

    fn row(&self) -> Value {
        json!({
            "executionArn": self.arn(), "name": self.name, "status": self.status,
            "stateMachineArn": format!("{HERE}:stateMachine:{}", self.machine),
            "startDate": self.started,
        })
    }

    fn push(&mut self, kind: &str, (key, details): (&str, Value)) {
        let id = self.events.len() + 1;
        let key = format!("{key}EventDetails");
        self.events.push(json!({
            "timestamp": now(), "type": kind, "id": id, "previousEventId": id - 1, key: details,
        }));
    }

    /// Enters the gate, and waits for its token.
    fn enter(&mut self, input: &str) {
        input.clone_into(&mut self.input);
        let entered = json!({"name": "Gate", "input": input});
        self.push("TaskStateEntered", ("stateEntered", entered));
        self.schedule();
        self.submit();
    }

    fn schedule(&mut self) {
        let begin = self.token.split('/').next().unwrap_or_default();
        self.token = format!("{begin}/{}", self.events.len());
        let parameters = json!({"TaskToken": self.token}).to_string();
        let scheduled = json!({
            "resourceType": "aws-sdk:sfn", "resource": RESOURCE, "region": "us-east-1",
            "parameters": parameters,
        });
        self.push("TaskScheduled", ("taskScheduled", scheduled));
        let started = json!({"resourceType": "aws-sdk:sfn", "resource": RESOURCE});
        self.push("TaskStarted", ("taskStarted", started));
    }

    fn submit(&mut self) {
        let submitted =
            json!({"resourceType": "aws-sdk:sfn", "resource": RESOURCE, "output": "{}"});
        self.push("TaskSubmitted", ("taskSubmitted", submitted));
    }

    /// The task of the gate ends.
    fn leave(&mut self, kind: &str, (key, field, value): (&str, &str, &str)) {
        let details = json!({"resourceType": "aws-sdk:sfn", "resource": RESOURCE, field: value});
        self.push(kind, (key, details));
        self.push("TaskStateExited", ("stateExited", json!({"name": "Gate"})));
    }

    fn end(&mut self, status: &'static str, kind: &str) {
        self.status = status;
        let key = if status == "FAILED" {
            "executionFailed"
        } else {
            "executionSucceeded"
        };
        self.push(kind, (key, json!({})));
    }

    fn history(&self, body: &Value) -> Answer {
        let number = |key: &str| body[key].as_str().and_then(|it| it.parse().ok());
        let from: usize = number("nextToken").unwrap_or_default();
        let most = body["maxResults"].as_u64().unwrap_or(100);
        let most = usize::try_from(most).unwrap_or(100).max(1);
        let mut events = self.events.clone();
        if body["reverseOrder"] == true {
            events.reverse();
        }
        let shown: Vec<_> = events.iter().skip(from).take(most).cloned().collect();
        let next = from + shown.len();
        let mut answer = json!({"events": shown});
        if next < events.len() {
            answer["nextToken"] = json!(next.to_string());
        }
        Ok(answer)
    }
}

fn last(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or_default()
}
