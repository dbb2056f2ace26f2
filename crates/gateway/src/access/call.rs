//! One call of the API, and every decision about it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use stateway_access::{Decision, Grants, KnownLabels, Object, Permission, Required};
use stateway_identity::Identity;
use stateway_model::{DefinitionName, Execution, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{Approval, Call, Escalation, InboxHints};
use tonic::{Code, Status};

use super::control::AccessControl;
use super::not_found;
use super::refusal::{denied, hidden};
use crate::convert;

/// The longest part of a request id of a client that is kept as it is.
const LONGEST_OWN_PART: usize = 40;
/// The bytes of the hash that binds a request id to its caller.
const HASH_BYTES: usize = 16;
/// The bytes of the hash that binds the id of a worker to its caller.
const WORKER_HASH_BYTES: usize = 9;

/// A call of the API: what accompanies it to a provider, and what its caller may do.
#[derive(Clone)]
pub(crate) struct ApiCall {
    call: Call,
    pub(crate) access: Access,
}

/// The last decision about a call, for records.
#[derive(Clone, Default)]
struct Decided(Arc<Mutex<Option<Decision>>>);

/// What a caller may do.
#[derive(Clone)]
pub(crate) enum Access {
    /// Callers prove nothing, and everything is allowed.
    Open,
    /// By rules.
    Ruled(Ruled),
}

/// What a caller may do by the rules of the moment of its call.
#[derive(Clone)]
pub(crate) struct Ruled {
    control: Arc<AccessControl>,
    identity: Arc<Identity>,
    grants: Arc<Grants>,
    decided: Decided,
}

impl Deref for ApiCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl Decided {
    /// The last decision; none if the call was not decided by rules.
    fn get(&self) -> Option<Decision> {
        let decided = self.0.lock();
        decided.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, decision: &Decision) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision.clone());
    }
}

impl Access {
    pub(crate) fn ruled(control: &Arc<AccessControl>, identity: &Arc<Identity>) -> Self {
        Self::Ruled(Ruled {
            grants: control.grants(identity),
            control: Arc::clone(control),
            identity: Arc::clone(identity),
            decided: Decided::default(),
        })
    }

    /// How the rules decided about a call that has ended, for its record; none without rules. `failed` is the code
    /// of its error, `permission` the one of its method and `provider` the one that its request names.
    pub(crate) fn decision(
        &self,
        failed: Option<Code>,
        permission: Option<Permission>,
        provider: Option<&str>,
    ) -> Option<Decision> {
        let Self::Ruled(ruled) = self else {
            return None;
        };
        let last = ruled.decided.get();
        match failed {
            Some(Code::PermissionDenied) => last,
            Some(Code::NotFound) => not_found::decision(last, permission, || {
                let object = provider.map_or_else(Object::default, Object::of_provider);
                ruled.grants.allows(Permission::Read, &object)
            }),
            // A refusal that the call has survived, or that did not end it, is not its outcome.
            _ => last.filter(|decision| decision.allowed),
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Whether a rule certainly allows this.
    fn allows(&self, permission: Permission, object: &Object<'_>) -> bool {
        match self {
            Self::Open => true,
            Self::Ruled(ruled) => ruled.grants.allows(permission, object),
        }
    }

    /// Whether a rule can allow this.
    fn may_allow(&self, permission: Permission, object: &Object<'_>) -> bool {
        match self {
            Self::Open => true,
            Self::Ruled(ruled) => ruled.grants.may_allow(permission, object),
        }
    }

    /// The tenant of the caller.
    pub(super) fn tenant(&self) -> Option<Arc<str>> {
        match self {
            Self::Open => None,
            Self::Ruled(ruled) => ruled.identity.tenant.clone(),
        }
    }

    /// Whether the caller may know that a provider exists: something on it may be allowed.
    pub(crate) fn sees_provider(&self, provider: &ProviderId) -> bool {
        match self {
            Self::Open => true,
            Self::Ruled(ruled) => ruled
                .grants
                .concern(&Object::of_provider(provider.as_str())),
        }
    }

    /// Whether the caller may read something of a provider.
    pub(crate) fn may_read(&self, provider: &ProviderId) -> bool {
        self.may_allow(Permission::Read, &Object::of_provider(provider.as_str()))
    }

    /// Whether the caller may read everything of a provider.
    pub(crate) fn reads_all(&self, provider: &ProviderId) -> bool {
        self.has_all(Permission::Read, provider)
    }

    /// Whether the caller has a permission for everything of a provider.
    pub(crate) fn has_all(&self, permission: Permission, provider: &ProviderId) -> bool {
        self.allows(permission, &Object::of_provider(provider.as_str()))
    }

    /// Whether the caller has a permission for an execution.
    pub(crate) fn has(&self, permission: Permission, execution: &Execution) -> bool {
        self.allows(permission, &Object::execution(execution))
    }

    /// Whether the caller may see an execution.
    pub(crate) fn reads(&self, execution: &Execution) -> bool {
        self.has(Permission::Read, execution)
    }

    /// Whether the caller may see the payloads of an execution.
    pub(crate) fn reads_payloads(&self, execution: &Execution) -> bool {
        self.has(Permission::ReadPayloads, execution)
    }

    /// Removes the payloads from an answer, if the caller may not see them.
    pub(crate) fn redact(&self, execution: &Execution, shown: &mut v1::Execution) {
        let has_payloads = shown.input.is_some() || shown.output.is_some();
        if has_payloads && !self.reads_payloads(execution) {
            without_payloads(shown);
        }
    }

    /// Whether the caller may see a definition. Definitions have no labels: a rule about labels shows every
    /// definition that could have such executions.
    pub(crate) fn reads_definition(&self, provider: &ProviderId, definition: &str) -> bool {
        self.may_allow(
            Permission::Read,
            &Object {
                provider: Some(provider.as_str()),
                definition: Some(definition),
                labels: KnownLabels::Unknown,
                role: None,
            },
        )
    }

    /// Whether the caller may see what belongs to a tenant as a whole. Empty: to none, or to all of them.
    pub(crate) fn reads_tenant(&self, provider: &ProviderId, tenant: &str) -> bool {
        let object = Object {
            provider: Some(provider.as_str()),
            definition: None,
            labels: if tenant.is_empty() {
                KnownLabels::Unknown
            } else {
                KnownLabels::Tenant(tenant)
            },
            role: None,
        };
        self.allows(Permission::Read, &object)
    }

    /// What every readable execution of a provider has, as far as the rules say so. A provider that narrows its
    /// list to it returns no rows of others, and no position behind them.
    pub(crate) fn narrow(&self, provider: &ProviderId, hints: &mut Hints) {
        let required = self.required(provider);
        // Before that of the filter, which the gateway applies to the answer.
        if required.definition.is_some() {
            hints.definition = required.definition;
        }
        // One that the filter requires too is checked twice.
        hints.labels.extend(required.labels);
    }

    /// The same for approvals and escalations.
    pub(crate) fn narrow_inbox(&self, provider: &ProviderId, hints: &mut InboxHints) {
        let required = self.required(provider);
        let definition = required.definition.as_ref();
        if let Some(portable) = definition.and_then(DefinitionPattern::portable_id) {
            hints.definition = Some(portable.to_owned());
        }
        hints.labels = required.labels;
    }

    fn required(&self, provider: &ProviderId) -> Required {
        match self {
            Self::Open => Required::default(),
            Self::Ruled(ruled) => ruled.grants.required(Permission::Read, provider.as_str()),
        }
    }

    /// Whether the caller may see an approval, and its payload.
    pub(crate) fn approval(&self, provider: &ProviderId, row: &Approval) -> (bool, bool) {
        let definition = definition_name(&row.definition);
        self.inbox(provider, &definition, &row.labels)
    }

    /// Whether the caller may see an escalation.
    pub(crate) fn escalation(&self, provider: &ProviderId, row: &Escalation) -> bool {
        let definition = definition_name(&row.definition);
        self.inbox(provider, &definition, &row.labels).0
    }

    fn inbox(
        &self,
        provider: &ProviderId,
        definition: &str,
        labels: &stateway_model::Labels,
    ) -> (bool, bool) {
        let object = Object {
            provider: Some(provider.as_str()),
            definition: Some(definition),
            labels: KnownLabels::All(labels),
            role: None,
        };
        let reads = self.allows(Permission::Read, &object);
        let payloads = reads && self.allows(Permission::ReadPayloads, &object);
        (reads, payloads)
    }

    /// The identity to which a page token or a cursor is bound: another caller cannot use it.
    pub(crate) fn bound(&self, purpose: String) -> String {
        match self {
            Self::Open => purpose,
            Self::Ruled(Ruled { identity, .. }) => {
                let tenant = identity.tenant.as_deref().unwrap_or_default();
                format!("{purpose}\n{}\n{tenant}", identity.subject)
            }
        }
    }

    /// The idempotency key of a write. The same key of two callers means two things: neither learns what
    /// the other has done with it.
    pub(crate) fn request_id(&self, sent: &str) -> String {
        let Self::Ruled(ruled) = self else {
            return sent.to_owned();
        };
        let hash = ruled.hash(sent, HASH_BYTES);
        // Request ids are ASCII, or they are refused.
        let own = sent.get(..LONGEST_OWN_PART).unwrap_or(sent);
        format!("{own}-{hash}")
    }

    /// The id of a worker for its engine. The same id of two callers means two workers: neither takes the
    /// place or the tasks of the other.
    pub(crate) fn worker_id(&self, sent: &str) -> Arc<str> {
        match self {
            Self::Open => sent.into(),
            Self::Ruled(ruled) => format!("{sent}~{}", ruled.hash(sent, WORKER_HASH_BYTES)).into(),
        }
    }

    /// Resolves when the rules have changed for the caller.
    pub(crate) async fn changed(self) {
        let Self::Ruled(ruled) = self else {
            return std::future::pending().await;
        };
        let mut changes = ruled.control.changes();
        loop {
            // A change between the call and this moment counts too.
            if ruled.control.grants(&ruled.identity) != ruled.grants {
                return;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl Ruled {
    /// What a text of this caller has and the same text of another caller has not.
    fn hash(&self, text: &str, bytes: usize) -> String {
        let tenant = self.identity.tenant.as_deref().unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [&*self.identity.subject, tenant, text] {
            hash.update(part);
            hash.update([0]);
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..bytes])
    }
}

impl ApiCall {
    pub(crate) const fn new(call: Call, access: Access) -> Self {
        Self { call, access }
    }

    /// The same call with another deadline.
    pub(crate) fn until(&self, deadline: std::time::Instant) -> Self {
        let mut call = self.clone();
        call.call.deadline = deadline;
        call
    }

    /// The one place where a request is decided. What is not known of the object satisfies no condition.
    pub(crate) fn decide(&self, permission: Permission, object: &Object<'_>) -> Decision {
        match &self.access {
            Access::Open => Decision {
                allowed: true,
                rule: None,
                permission,
            },
            Access::Ruled(ruled) => {
                let decision = ruled.grants.decide(permission, object);
                ruled.decided.set(&decision);
                decision
            }
        }
    }

    /// Refuses a caller without any permission.
    pub(crate) fn enter(&self, method: &str, permission: Option<Permission>) -> Result<(), Status> {
        let Access::Ruled(ruled) = &self.access else {
            return Ok(());
        };
        match permission {
            Some(permission) if ruled.grants.has(permission) => Ok(()),
            Some(permission) => {
                ruled.decided.set(&Decision {
                    allowed: false,
                    rule: None,
                    permission,
                });
                Err(denied(permission, "anything"))
            }
            None => Err(denied(Permission::Operate, &format!("with {method}"))),
        }
    }

    /// Whether the caller has a permission for everything of a provider. If not, nothing is decided: what is not
    /// known yet can still allow it.
    pub(crate) fn has_all(&self, permission: Permission, provider: &ProviderId) -> bool {
        let Access::Ruled(ruled) = &self.access else {
            return true;
        };
        let object = Object::of_provider(provider.as_str());
        let decision = ruled.grants.decide(permission, &object);
        if decision.allowed {
            ruled.decided.set(&decision);
        }
        decision.allowed
    }

    /// Refuses what no rule certainly allows.
    pub(crate) fn require(
        &self,
        permission: Permission,
        object: &Object<'_>,
        what: &str,
    ) -> Result<(), Status> {
        if self.decide(permission, object).allowed {
            Ok(())
        } else {
            Err(denied(permission, what))
        }
    }

    /// Refuses a caller without a permission for everything of a provider.
    pub(crate) fn require_all(
        &self,
        permission: Permission,
        provider: &ProviderId,
    ) -> Result<(), Status> {
        let object = Object::of_provider(provider.as_str());
        let what = format!("everything of provider `{provider}`");
        self.require(permission, &object, &what)
    }

    /// Refuses a caller without a permission for a definition. A definition has no labels, and its executions can
    /// have any: a rule with a condition on labels does not allow this, also if the condition is negated.
    pub(crate) fn require_definition(
        &self,
        permission: Permission,
        provider: &ProviderId,
        definition: &DefinitionName,
    ) -> Result<(), Status> {
        let name = definition.to_string();
        let object = Object {
            provider: Some(provider.as_str()),
            definition: Some(&name),
            labels: KnownLabels::Unknown,
            role: None,
        };
        self.require(
            permission,
            &object,
            &format!("`{name}` on provider `{provider}`"),
        )
    }

    /// Decides about an execution. A caller that may not read it does not learn that it exists.
    pub(crate) fn require_execution(
        &self,
        permission: Permission,
        execution: &Execution,
    ) -> Result<(), Status> {
        let object = Object::execution(execution);
        if self.decide(permission, &object).allowed {
            Ok(())
        } else if self.access.reads(execution) {
            Err(denied(permission, &format!("`{}`", execution.name)))
        } else {
            Err(hidden(&execution.name))
        }
    }

    /// Decides about an approval or an escalation that the caller has been found to be able to see or not.
    pub(crate) fn require_inbox(
        &self,
        provider: &ProviderId,
        (definition, labels): (&str, &stateway_model::Labels),
        (reads, name): (bool, &str),
        absent: impl FnOnce() -> Status,
    ) -> Result<(), Status> {
        let definition = definition_name(definition);
        let object = Object {
            provider: Some(provider.as_str()),
            definition: Some(&definition),
            labels: KnownLabels::All(labels),
            role: None,
        };
        if self.decide(Permission::Approve, &object).allowed {
            Ok(())
        } else if reads {
            Err(denied(Permission::Approve, &format!("`{name}`")))
        } else {
            Err(absent())
        }
    }

    /// An execution as the caller may see it.
    pub(crate) fn show(&self, execution: Execution) -> v1::Execution {
        let has_payloads = execution.input.is_some() || execution.output.is_some();
        let is_redacted = has_payloads && !self.access.reads_payloads(&execution);
        let mut shown = convert::execution(execution);
        if is_redacted {
            without_payloads(&mut shown);
        }
        shown
    }

    /// The answer to a write. A caller that may not read the execution gets its name.
    pub(crate) fn show_written(&self, execution: Execution) -> v1::Execution {
        if self.access.reads(&execution) {
            return self.show(execution);
        }
        name_only(&execution.name)
    }
}

impl ApiCall {
    /// The answer for an execution of which the provider reports that it does not exist, to a caller from
    /// whom executions of the provider are hidden.
    pub(crate) fn absent(&self, name: &ExecutionName) -> Option<Status> {
        (!self.access.reads_all(&name.provider)).then(|| hidden(name))
    }
}

/// An execution that was written and may not be read.
pub(crate) fn name_only(name: &ExecutionName) -> v1::Execution {
    v1::Execution {
        name: name.to_string(),
        payloads_redacted: true,
        ..v1::Execution::default()
    }
}

fn without_payloads(shown: &mut v1::Execution) {
    (shown.input, shown.output) = (None, None);
    shown.payloads_redacted = true;
}

/// The full name of a portable definition.
fn definition_name(id: &str) -> String {
    if id.is_empty() {
        return String::new();
    }
    DefinitionName {
        provider: None,
        id: id.into(),
    }
    .to_string()
}
