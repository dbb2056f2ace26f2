//! A Step Functions service in memory, behind a real HTTP port: as much of it as the adapter asks
//! for, with histories written by hand.

pub(crate) mod bench;
pub(crate) mod desk;
#[allow(dead_code, reason = "each test uses a part of it")]
pub(crate) mod gates;
pub(crate) mod scene;
pub(crate) mod script;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_contract_kit::Fault;
use stateway_provider_api::table::compiled_in;
use stateway_provider_step_functions::{Config, ConfigError, StepFunctionsProvider};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// The prefix of every ARN here.
pub(crate) const HERE: &str = "arn:aws:states:us-east-1:000000000000";
/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(3_600);

#[derive(Default)]
pub(crate) struct World {
    /// Definitions by the machine's name.
    pub(crate) machines: BTreeMap<String, Value>,
    /// What was published, by the machine's name.
    pub(crate) versions: BTreeMap<String, Vec<Value>>,
    /// Tags by the machine's name.
    pub(crate) tags: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) executions: Vec<Execution>,
    pub(crate) faults: VecDeque<Fault>,
    /// The fault that an invocation met: all its attempts meet it.
    pub(crate) met: Option<(String, Fault)>,
    /// Faults of single attempts.
    pub(crate) stumbles: VecDeque<Fault>,
    /// Faults of the next attempt of one operation.
    pub(crate) stumbles_at: BTreeMap<String, Fault>,
    /// What Map Runs count, by their ARNs.
    pub(crate) map_runs: BTreeMap<String, Value>,
    /// The last poll of an activity found nothing.
    pub(crate) polled_empty: bool,
    /// What lists of executions were narrowed to: the machine and the status.
    pub(crate) narrowed: Vec<(String, Option<String>)>,
    /// Who signed each request: the authorization and the session token.
    pub(crate) signed: Vec<(String, String)>,
    /// How often each operation was called.
    pub(crate) calls: BTreeMap<String, usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) machine: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) input: String,
    pub(crate) mark: Option<String>,
    pub(crate) redrive_status: String,
    pub(crate) redrives: u32,
    pub(crate) failure: Option<(String, String)>,
    pub(crate) started: f64,
    pub(crate) events: Vec<Value>,
}

impl Execution {
    pub(crate) fn arn(&self) -> String {
        format!("{HERE}:execution:{}:{}", self.machine, self.name)
    }
}

#[derive(Clone, Default)]
pub(crate) struct Service(Arc<Mutex<World>>);

impl Service {
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

/// How a provider finds it.
pub(crate) fn config(server: &MockServer) -> Config {
    Config {
        endpoint: server.uri(),
        region: "us-east-1".to_owned(),
        role: "arn:aws:iam::000000000000:role/sfn".to_owned(),
        activities: vec![desk::people()],
        ..Config::default()
    }
}

pub(crate) fn provider(config: &Config) -> Result<StepFunctionsProvider, ConfigError> {
    StepFunctionsProvider::with_keys(
        "payments".parse().expect("an id"),
        config,
        compiled_in("step-functions").expect("a table"),
        ("test", "test"),
    )
}

pub(crate) fn now() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e6
}

impl Respond for Service {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let target = request.headers.get("x-amz-target");
        let target = target
            .and_then(|target| target.to_str().ok())
            .unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let header = |name: &str| {
            let found = request
                .headers
                .get(name)
                .and_then(|told| told.to_str().ok());
            found.unwrap_or_default().to_owned()
        };
        let mut world = self.world();
        let signature = (header("authorization"), header("x-amz-security-token"));
        world.signed.push(signature);
        *world.calls.entry(operation.clone()).or_default() += 1;
        let delay = match world.fault(&operation, request) {
            Some(Fault::Hang) => FOR_EVER,
            Some(Fault::Slow(delay)) => delay,
            Some(Fault::Throttle(pause)) => {
                return refusal(400, "ThrottlingException", "Rate exceeded")
                    .insert_header("x-amz-retry-after", pause.as_millis().to_string());
            }
            Some(Fault::Unavailable) => return refusal(503, "ServiceUnavailable", "down"),
            Some(Fault::Denied) => {
                return refusal(400, "AccessDeniedException", "not authorized to perform it");
            }
            Some(Fault::Malformed) => return ResponseTemplate::new(200).set_body_string("{\"a"),
            None => Duration::ZERO,
        };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let answer = match world.answer(&operation, &body) {
            Ok(answer) => ResponseTemplate::new(200).set_body_json(answer),
            Err((code, message)) => refusal(400, code, &message),
        };
        // A poll that finds nothing is held for a while.
        let empty = operation == "GetActivityTask" && world.polled_empty;
        answer.set_delay(if empty { desk::POLL } else { delay })
    }
}

fn refusal(status: u16, code: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(json!({"__type": code, "message": message}))
}

type Answer = Result<Value, (&'static str, String)>;

impl World {
    fn answer(&mut self, operation: &str, body: &Value) -> Answer {
        match operation {
            "ListStateMachines" => self.list_state_machines(body),
            "DescribeStateMachine" => self.describe_machine(body),
            "ListStateMachineVersions" => self.list_versions(body),
            "ListTagsForResource" => {
                let (machine, _) = self.machine(body, "resourceArn")?;
                let tags = self.tags.get(&machine).cloned().unwrap_or_default();
                let tag = |(key, value): (String, String)| json!({"key": key, "value": value});
                Ok(json!({"tags": tags.into_iter().map(tag).collect::<Vec<_>>()}))
            }
            "TagResource" => {
                let (machine, _) = self.machine(body, "resourceArn")?;
                self.put_tags(&machine, body);
                Ok(json!({}))
            }
            "CreateStateMachine" => self.create_machine(body),
            "UpdateStateMachine" => self.update_machine(body),
            "ValidateStateMachineDefinition" => Ok(validate(body)),
            "StartExecution" => self.start(body),
            "DescribeExecution" => Ok(describe(self.find(body)?)),
            "DescribeStateMachineForExecution" => {
                let machine = self.find(body)?.machine.clone();
                Ok(json!({
                    "stateMachineArn": format!("{HERE}:stateMachine:{machine}"),
                    "name": machine,
                    "definition": self.machines[&machine].to_string(),
                    "roleArn": "arn:aws:iam::000000000000:role/sfn",
                    "updateDate": 1_700_000_000.0,
                }))
            }
            "GetExecutionHistory" => history(self.find(body)?, body),
            "ListExecutions" => self.list_executions(body),
            "StopExecution" => self.stop(body),
            "RedriveExecution" => self.redrive(body),
            "SendTaskSuccess" if desk::is_activity_token(body) => self.end_task(body, None),
            "SendTaskSuccess" => self.task_success(body),
            "SendTaskFailure" => {
                let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
                self.end_task(body, Some((text("error"), text("cause"))))
            }
            "SendTaskHeartbeat" => self.task_heartbeat(body),
            "DescribeMapRun" => {
                let arn = body["mapRunArn"].as_str().unwrap_or_default();
                let counts = self.map_runs.get(arn);
                let counts = counts.ok_or_else(|| ("ResourceNotFound", arn.to_owned()))?;
                Ok(json!({
                    "mapRunArn": arn, "executionArn": "x", "status": "RUNNING",
                    "startDate": 1_700_000_000.0, "maxConcurrency": 0,
                    "toleratedFailurePercentage": 0.0, "toleratedFailureCount": 0,
                    "itemCounts": counts, "executionCounts": counts,
                }))
            }
            "GetActivityTask" => Ok(self.next_task(body)),
            other => Err(("UnknownOperationException", other.to_owned())),
        }
    }

    /// The next attempt of this operation goes wrong.
    pub(crate) fn stumble_at(&mut self, operation: &str, fault: Fault) {
        self.stumbles_at.insert(operation.to_owned(), fault);
    }

    /// What goes wrong with this attempt. A fault stands for as long as the call it hit is made
    /// again and again.
    fn fault(&mut self, operation: &str, request: &Request) -> Option<Fault> {
        if let Some(fault) = self.stumbles_at.remove(operation) {
            return Some(fault);
        }
        let invocation = request.headers.get("amz-sdk-invocation-id");
        let invocation = invocation.and_then(|id| id.to_str().ok());
        if let Some((known, fault)) = &self.met
            && Some(known.as_str()) == invocation
        {
            return Some(*fault);
        }
        if let Some(fault) = self.stumbles.pop_front() {
            return Some(fault);
        }
        let fault = self.faults.pop_front()?;
        self.met = invocation.map(|id| (id.to_owned(), fault));
        Some(fault)
    }

    fn find(&mut self, body: &Value) -> Result<&mut Execution, (&'static str, String)> {
        let arn = body["executionArn"].as_str().unwrap_or_default();
        let found = self
            .executions
            .iter_mut()
            .find(|execution| execution.arn() == arn);
        found.ok_or_else(|| {
            (
                "ExecutionDoesNotExist",
                format!("Execution Does Not Exist: '{arn}'"),
            )
        })
    }

    fn list_state_machines(&self, body: &Value) -> Answer {
        let machine = |name: &String| {
            json!({
                "stateMachineArn": format!("{HERE}:stateMachine:{name}"), "name": name,
                "type": "STANDARD", "creationDate": 1_700_000_000.0
            })
        };
        let from: usize = match body["nextToken"].as_str() {
            None => 0,
            Some(token) => token
                .parse()
                .map_err(|_| ("InvalidToken", token.to_owned()))?,
        };
        let most = page_size(body);
        let rows = self.machines.keys().skip(from).take(most).map(machine);
        let mut answer = json!({"stateMachines": rows.collect::<Vec<_>>()});
        if from + most < self.machines.len() {
            answer["nextToken"] = json!((from + most).to_string());
        }
        Ok(answer)
    }

    /// The machine that a body names, and the version where it names one.
    fn machine(
        &self,
        body: &Value,
        key: &str,
    ) -> Result<(String, Option<usize>), (&'static str, String)> {
        let arn = body[key].as_str().unwrap_or_default();
        let missing = || ("StateMachineDoesNotExist", arn.to_owned());
        let rest = arn.split(":stateMachine:").nth(1).ok_or_else(missing)?;
        let (machine, version) = match rest.split_once(':') {
            Some((machine, version)) => (machine, Some(version)),
            None => (rest, None),
        };
        let number = version.map(str::parse::<usize>).transpose();
        let number = number.map_err(|_| ("InvalidArn", arn.to_owned()))?;
        let published = self.versions.get(machine).map_or(0, Vec::len);
        let there = number.is_none_or(|number| (1..=published).contains(&number));
        if self.machines.contains_key(machine) && there {
            Ok((machine.to_owned(), number))
        } else {
            Err(missing())
        }
    }

    fn describe_machine(&self, body: &Value) -> Answer {
        let (machine, version) = self.machine(body, "stateMachineArn")?;
        let definition = match version {
            Some(version) => &self.versions[&machine][version - 1],
            None => &self.machines[&machine],
        };
        Ok(json!({
            "stateMachineArn": body["stateMachineArn"], "name": machine, "type": "STANDARD",
            "definition": definition.to_string(), "status": "ACTIVE",
            "roleArn": "arn:aws:iam::000000000000:role/sfn", "creationDate": 1_700_000_000.0,
        }))
    }

    fn list_versions(&self, body: &Value) -> Answer {
        let (machine, _) = self.machine(body, "stateMachineArn")?;
        let count = self.versions.get(&machine).map_or(0, Vec::len);
        let version = |number: usize| {
            json!({
                "stateMachineVersionArn": format!("{HERE}:stateMachine:{machine}:{number}"),
                "creationDate": 1_700_000_000.0
            })
        };
        let newest_first = (1..=count).rev().take(page_size(body));
        Ok(json!({"stateMachineVersions": newest_first.map(version).collect::<Vec<_>>()}))
    }

    fn put_tags(&mut self, machine: &str, body: &Value) {
        let tags = self.tags.entry(machine.to_owned()).or_default();
        for tag in body["tags"].as_array().into_iter().flatten() {
            let text = |key: &str| tag[key].as_str().unwrap_or_default().to_owned();
            tags.insert(text("key"), text("value"));
        }
    }

    fn create_machine(&mut self, body: &Value) -> Answer {
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let definition = read_definition(body)?;
        if self.machines.contains_key(&name) {
            return Err(("StateMachineAlreadyExists", name));
        }
        self.machines.insert(name.clone(), definition);
        self.put_tags(&name, body);
        let version = self.publish(&name);
        Ok(json!({
            "stateMachineArn": format!("{HERE}:stateMachine:{name}"),
            "creationDate": now(), "stateMachineVersionArn": version,
        }))
    }

    fn update_machine(&mut self, body: &Value) -> Answer {
        let (machine, _) = self.machine(body, "stateMachineArn")?;
        let definition = read_definition(body)?;
        self.machines.insert(machine.clone(), definition);
        let version = self.publish(&machine);
        Ok(json!({"updateDate": now(), "stateMachineVersionArn": version}))
    }

    fn publish(&mut self, machine: &str) -> String {
        let versions = self.versions.entry(machine.to_owned()).or_default();
        versions.push(self.machines[machine].clone());
        format!("{HERE}:stateMachine:{machine}:{}", versions.len())
    }

    fn start(&mut self, body: &Value) -> Answer {
        let machine = body["stateMachineArn"].as_str().unwrap_or_default();
        let machine = machine.rsplit(':').next().unwrap_or_default().to_owned();
        if !self.machines.contains_key(&machine) {
            return Err(("StateMachineDoesNotExist", machine));
        }
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let (name, input) = (text("name"), text("input"));
        let same = |execution: &&Execution| execution.machine == machine && execution.name == name;
        if let Some(known) = self.executions.iter().find(same) {
            if known.status != "RUNNING" || known.input != input {
                return Err(("ExecutionAlreadyExists", known.arn()));
            }
            return Ok(json!({"executionArn": known.arn(), "startDate": known.started}));
        }
        let execution = Execution {
            input,
            mark: body["traceHeader"].as_str().map(str::to_owned),
            ..script::execution(&machine, &name, script::open_task("T"))
        };
        let answer = json!({"executionArn": execution.arn(), "startDate": execution.started});
        self.executions.push(execution);
        Ok(answer)
    }

    fn list_executions(&mut self, body: &Value) -> Answer {
        let machine = body["stateMachineArn"].as_str().unwrap_or_default();
        let machine = machine.rsplit(':').next().unwrap_or_default();
        let asked = body["statusFilter"].as_str().map(str::to_owned);
        self.narrowed.push((machine.to_owned(), asked));
        let before = match body["nextToken"].as_str() {
            None => self.executions.len(),
            Some(token) => token
                .parse()
                .map_err(|_| ("InvalidToken", token.to_owned()))?,
        };
        let most = page_size(body);
        let status = body["statusFilter"].as_str();
        let rows = self.executions[..before.min(self.executions.len())]
            .iter()
            .enumerate()
            .rev();
        let rows = rows.filter(|(_, row)| {
            row.machine == machine && status.is_none_or(|status| status == row.status)
        });
        let rows: Vec<(usize, &Execution)> = rows.take(most + 1).collect();
        let shown = &rows[..rows.len().min(most)];
        let mut answer = json!({
            "executions": shown.iter().map(|(_, row)| row_of(row)).collect::<Vec<_>>()
        });
        if rows.len() > most {
            answer["nextToken"] = json!(shown[most - 1].0.to_string());
        }
        Ok(answer)
    }

    fn stop(&mut self, body: &Value) -> Answer {
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let failure = (text("error"), text("cause"));
        let execution = self.find(body)?;
        if execution.status == "RUNNING" {
            "ABORTED".clone_into(&mut execution.status);
            "REDRIVABLE".clone_into(&mut execution.redrive_status);
            let detail = json!({"error": failure.0, "cause": failure.1});
            execution.failure = Some(failure);
            script::push(
                &mut execution.events,
                0,
                "ExecutionAborted",
                ("executionAborted", detail),
            );
        }
        Ok(json!({"stopDate": now()}))
    }

    fn redrive(&mut self, body: &Value) -> Answer {
        let execution = self.find(body)?;
        if execution.redrive_status != "REDRIVABLE" {
            return Err((
                "ExecutionNotRedrivable",
                "Execution cannot be redriven".to_owned(),
            ));
        }
        "RUNNING".clone_into(&mut execution.status);
        "NOT_REDRIVABLE".clone_into(&mut execution.redrive_status);
        execution.failure = None;
        execution.redrives += 1;
        let last = execution.events.len();
        let detail = (
            "executionRedriven",
            json!({"redriveCount": execution.redrives}),
        );
        script::push(&mut execution.events, last, "ExecutionRedriven", detail);
        let detail = ("activityScheduled", json!({"resource": "work"}));
        script::push(&mut execution.events, last + 1, "ActivityScheduled", detail);
        Ok(json!({"redriveDate": now()}))
    }

    fn task_success(&mut self, body: &Value) -> Answer {
        let token = body["taskToken"].as_str().unwrap_or_default();
        let waits = |execution: &&mut Execution| {
            let newest = execution.events.last();
            let open = newest.is_some_and(|event| event["type"] == "TaskSubmitted");
            open && script::open_token(&execution.events).as_deref() == Some(token)
        };
        let Some(execution) = self.executions.iter_mut().find(waits) else {
            return Err((
                "TaskTimedOut",
                "Task Timed Out: 'Provided task does not exist'".into(),
            ));
        };
        script::answer_token(execution);
        Ok(json!({}))
    }
}

fn read_definition(body: &Value) -> Result<Value, (&'static str, String)> {
    let text = body["definition"].as_str().unwrap_or_default();
    let definition: Option<Value> = serde_json::from_str(text).ok();
    let definition = definition.filter(|definition| definition["States"].is_object());
    definition.ok_or_else(|| {
        (
            "InvalidDefinition",
            "Invalid State Machine Definition".into(),
        )
    })
}

fn validate(body: &Value) -> Value {
    match read_definition(body) {
        Ok(_) => json!({"result": "OK", "diagnostics": []}),
        Err((_, message)) => json!({"result": "FAIL", "diagnostics": [{
            "severity": "ERROR", "code": "SCHEMA_VALIDATION_FAILED", "message": message,
            "location": "/"
        }]}),
    }
}

fn page_size(body: &Value) -> usize {
    let asked = body["maxResults"].as_u64().unwrap_or_default();
    usize::try_from(asked)
        .ok()
        .filter(|size| *size > 0)
        .unwrap_or(100)
}

fn row_of(execution: &Execution) -> Value {
    let machine = format!("{HERE}:stateMachine:{}", execution.machine);
    let mut row = json!({
        "executionArn": execution.arn(), "stateMachineArn": machine, "name": execution.name,
        "status": execution.status, "startDate": execution.started,
        "redriveCount": execution.redrives,
    });
    if execution.status != "RUNNING" {
        row["stopDate"] = json!(execution.started + 1.0);
    }
    row
}

fn describe(execution: &mut Execution) -> Value {
    let mut told = row_of(execution);
    told["input"] = json!(execution.input);
    told["redriveStatus"] = json!(execution.redrive_status);
    if let Some(mark) = &execution.mark {
        told["traceHeader"] = json!(mark);
    }
    if let Some((error, cause)) = &execution.failure {
        told["error"] = json!(error);
        told["cause"] = json!(cause);
    }
    told
}

fn history(execution: &mut Execution, body: &Value) -> Answer {
    let from: usize = match body["nextToken"].as_str() {
        None => 0,
        Some(token) => token
            .parse()
            .map_err(|_| ("InvalidToken", token.to_owned()))?,
    };
    let reverse = body["reverseOrder"].as_bool() == Some(true);
    let count = execution.events.len();
    let most = page_size(body);
    let at = |position: usize| {
        if reverse {
            count - 1 - position
        } else {
            position
        }
    };
    let shown = (from..count)
        .take(most)
        .map(|position| execution.events[at(position)].clone());
    let shown: Vec<Value> = shown.collect();
    let next = from + shown.len();
    let mut answer = json!({"events": shown});
    if next < count {
        answer["nextToken"] = json!(next.to_string());
    }
    Ok(answer)
}
