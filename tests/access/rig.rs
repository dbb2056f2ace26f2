//! A gateway with API keys and access rules, in front of a built-in engine and a provider in memory.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use stateway_audit::ChainKey;
use stateway_client::v1;
use stateway_client::v1::approvals_client::ApprovalsClient;
use stateway_client::v1::definitions_client::DefinitionsClient;
use stateway_client::v1::executions_client::ExecutionsClient;
use stateway_client::v1::recovery_client::RecoveryClient;
use stateway_client::v1::triggers_client::TriggersClient;
use stateway_client::v1::workers_client::WorkersClient;
use stateway_gateway::{AccessSettings, AuditSettings, RulesSource};
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::support::{BuiltIn, BuiltInRig, TestGateway, clock, error_info, hint_of};

use super::workers::{Worker, offer};

/// Two tenants, each with people who see, start and decide, and a worker; an administrator; and someone
/// whom no rule concerns.
pub(super) const TENANTS: &str = r#"
[[rules]]
name = "admins"
who = { role = "admin" }
may = "admin"

[[rules]]
name = "tenants-read"
who = { role = "member" }
may = ["read", "read-payloads", "signal", "approve", "steer", "stop"]
where = "labels.tenant = caller.tenant"

[[rules]]
name = "tenants-start"
who = { role = "member" }
may = "start"
where = "provider = b AND labels.tenant = caller.tenant"

[[rules]]
name = "viewers"
who = { role = "viewer" }
may = "viewer"
where = "labels.tenant = caller.tenant"

[[rules]]
name = "workers"
who = { role = "worker" }
may = "work"
where = "role = agent-* AND labels.tenant = caller.tenant"
"#;

/// A definition with one task and then an approval.
pub(super) const ORDER: &str = "\
name: order
steps:
  - name: charge
    agent: agent-billing
    input: {amount: '${input.amount}'}
  - name: sign-off
    approval: {role: ops}
    dependsOn: [charge]
";

/// A definition that asks for an approval immediately.
pub(super) const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops}
    input: {secret: '${input.secret}'}
";

/// A definition whose only step asks a person if it fails.
pub(super) const ESCALATES: &str = "\
name: escalates
escalation: {role: ops}
steps:
  - {name: pay, agent: agent-billing, timeout: 5m, onFailure: escalate}
";

pub(super) struct AccessRig {
    pub(super) rig: BuiltInRig,
    keys: HashMap<String, String>,
    pub(super) key_file: PathBuf,
    pub(super) rules: PathBuf,
    folder: tempfile::TempDir,
    /// The store of a second engine.
    second: Option<tempfile::TempDir>,
}

/// A caller: name, roles, tenant.
pub(super) type Caller<'c> = (&'c str, &'c [&'c str], Option<&'c str>);

/// The callers of most tests.
pub(super) const CALLERS: [Caller<'static>; 7] = [
    ("root", &["admin"], None),
    ("ada", &["member", "ops"], Some("acme")),
    ("eve", &["member", "ops"], Some("evil")),
    ("vic", &["viewer"], Some("acme")),
    ("wilma", &["worker"], Some("acme")),
    ("walter", &["worker"], Some("evil")),
    ("nobody", &[], None),
];

impl AccessRig {
    pub(super) async fn start() -> Self {
        Self::with(TENANTS, &CALLERS).await
    }

    pub(super) async fn with(rules: &str, callers: &[Caller<'_>]) -> Self {
        Self::made(rules, callers, false, |gateway| gateway).await
    }

    /// With a second built-in engine, `c`.
    pub(super) async fn with_second_engine(rules: &str, callers: &[Caller<'_>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let second = BuiltIn::open(folder.path().join("second.db"));
        let more = |gateway: TestGateway| gateway.with_engine("c", second);
        let mut rig = Self::made(rules, callers, false, more).await;
        rig.second = Some(folder);
        rig
    }

    /// With an audit log.
    pub(super) async fn audited() -> Self {
        Self::audited_with(TENANTS, &CALLERS).await
    }

    pub(super) async fn audited_with(rules: &str, callers: &[Caller<'_>]) -> Self {
        Self::made(rules, callers, true, |gateway| gateway).await
    }

    /// The records of an audit log so far.
    pub(super) fn records(&self) -> Vec<stateway_audit::Record> {
        let text = std::fs::read(self.folder.path().join("audit.jsonl")).unwrap();
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let parsed = lines.map(|line| stateway_audit::parse(&ChainKey::default(), line));
        parsed.map(|line| line.unwrap().record).collect()
    }

    /// With further providers or settings.
    pub(super) async fn made(
        rules: &str,
        callers: &[Caller<'_>],
        is_audited: bool,
        more: impl FnOnce(TestGateway) -> TestGateway,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut file = KeyFile::default();
        let mut keys = HashMap::new();
        for ((name, roles, tenant), number) in callers.iter().zip(1..) {
            let new = NewKey {
                subject: (*name).into(),
                roles: roles.iter().map(ToString::to_string).collect(),
                tenant: tenant.map(ToOwned::to_owned),
                expires: None,
            };
            let made = file.create(new, &[number; RANDOM_BYTES], Timestamp::now());
            keys.insert((*name).to_owned(), made.unwrap().1.expose().to_owned());
        }
        let key_file = folder.path().join("keys.json");
        std::fs::write(&key_file, file.to_json()).unwrap();
        let rule_file = folder.path().join("rules.toml");
        std::fs::write(&rule_file, rules).unwrap();
        let rig = BuiltInRig::start_beside(|mut gateway| {
            gateway.settings.authentication.api_keys = Some(key_file.clone());
            gateway.settings.authentication.reload_interval = Duration::from_millis(20);
            let log = folder.path().join("audit.jsonl");
            gateway.settings.audit = is_audited.then(|| AuditSettings::new(log));
            gateway.settings.access = AccessSettings {
                rules: RulesSource::File {
                    path: rule_file.clone(),
                    place: stateway_access::Place::OwnFile,
                },
                reload_interval: Duration::from_millis(20),
            };
            more(gateway.with_memory("m", &clock()))
        });
        Self {
            rig: rig.await,
            keys,
            key_file,
            rules: rule_file,
            folder,
            second: None,
        }
    }

    /// Changes the file of keys as a text.
    pub(super) fn change_keys(&self, change: impl FnOnce(KeyFile) -> String) {
        let file = KeyFile::parse(&std::fs::read(&self.key_file).unwrap()).unwrap();
        let new = self.key_file.with_extension("new");
        std::fs::write(&new, change(file)).unwrap();
        std::fs::rename(&new, &self.key_file).unwrap();
    }

    /// Revokes the key of a caller.
    pub(super) fn revoke(&self, who: &str) {
        self.change_keys(|mut file| {
            let mut keys = file.keys().iter();
            let id = keys.find(|key| key.subject == who).unwrap().id.clone();
            file.revoke(&id, Timestamp::now()).unwrap();
            file.to_json()
        });
    }

    pub(super) fn key(&self, who: &str) -> &str {
        &self.keys[who]
    }

    /// A request with the key of a caller.
    pub(super) fn by<M>(&self, who: &str, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.key(who)).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    }

    pub(super) async fn executions(&self) -> ExecutionsClient<Channel> {
        self.rig.gateway.executions().await
    }

    pub(super) async fn approvals(&self) -> ApprovalsClient<Channel> {
        self.rig.approvals().await
    }

    pub(super) async fn definitions(&self) -> DefinitionsClient<Channel> {
        self.rig.definitions().await
    }

    pub(super) async fn recovery(&self) -> RecoveryClient<Channel> {
        self.rig.recovery().await
    }

    pub(super) async fn workers(&self) -> WorkersClient<Channel> {
        self.rig.workers().await
    }

    pub(super) async fn triggers(&self) -> TriggersClient<Channel> {
        TriggersClient::new(self.rig.gateway.channel().await)
    }

    pub(super) async fn apply(&self, source: &str) {
        let request = v1::ApplyDefinitionRequest {
            source: source.into(),
            ..v1::ApplyDefinitionRequest::default()
        };
        let request = self.by("root", request);
        self.definitions()
            .await
            .apply_definition(request)
            .await
            .unwrap();
    }

    pub(super) async fn begin(
        &self,
        who: &str,
        definition: &str,
        (id, tenant): (&str, &str),
    ) -> Result<v1::Execution, Status> {
        let labels = match tenant {
            "" => HashMap::new(),
            tenant => [("tenant".to_owned(), tenant.to_owned())].into(),
        };
        let request = v1::StartExecutionRequest {
            parent: "providers/b".into(),
            definition: format!("definitions/{definition}"),
            execution_id: id.into(),
            input: Some(v1::Payload {
                data: r#"{"amount": 20, "secret": "s3cret"}"#.into(),
                content_type: String::new(),
            }),
            labels,
            ..v1::StartExecutionRequest::default()
        };
        let started = self
            .executions()
            .await
            .start_execution(self.by(who, request))
            .await;
        started.map(tonic::Response::into_inner)
    }

    /// An execution of a tenant with an escalated step; the name of the escalation.
    pub(super) async fn escalated(&self, id: &str, tenant: &str) -> String {
        self.apply(ESCALATES).await;
        let offered = offer("agent-billing", tenant);
        let mut worker = Worker::connect(self, "root", offered).await.unwrap();
        self.begin("root", "escalates", (id, tenant)).await.unwrap();
        let task = worker.task().await;
        worker.fail(&task);
        while self.get("root", id).await.unwrap().native_state != "escalated" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        escalation(id)
    }

    pub(super) async fn get(&self, who: &str, id: &str) -> Result<v1::Execution, Status> {
        let request = v1::GetExecutionRequest {
            name: name(id),
            view: v1::ExecutionView::Full.into(),
        };
        let found = self
            .executions()
            .await
            .get_execution(self.by(who, request))
            .await;
        found.map(tonic::Response::into_inner)
    }
}

/// The escalation of an execution of [`ESCALATES`].
pub(super) fn escalation(id: &str) -> String {
    format!("{}/escalations/pay~1", name(id))
}

/// The name of an execution of the built-in engine.
pub(super) fn name(id: &str) -> String {
    format!("providers/b/executions/{id}")
}

/// Everything that a client sees of an error, with one text replaced by another.
pub(super) fn whole(status: &Status, replaced: (&str, &str)) -> String {
    let (reason, mut metadata) = error_info(status);
    let metadata: std::collections::BTreeMap<_, _> = metadata.drain().collect();
    let text = format!(
        "{:?} {} {reason} {metadata:?} {}",
        status.code(),
        status.message(),
        hint_of(status)
    );
    text.replace(replaced.0, replaced.1)
}
