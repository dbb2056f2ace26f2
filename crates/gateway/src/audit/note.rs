//! What the inside of a call knows about it and its record needs: filled by the shell and by access rules,
//! read when the call has ended.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use stateway_access::{Decision, Permission};
use stateway_proto::v1;
use tokio::sync::Notify;

use crate::service::workers::Session;

/// What is known about a call. It is in the extensions of the request.
#[derive(Debug, Default)]
pub(crate) struct Note {
    known: Mutex<CallFacts>,
    effect: Notify,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CallFacts {
    pub(super) actor: Option<Arc<str>>,
    pub(super) roles: Option<Arc<[Arc<str>]>>,
    /// The request was read, so that its method may have begun.
    pub(super) is_asked: bool,
    pub(super) request_id: String,
    pub(super) object: String,
    pub(super) execution_id: String,
    pub(super) result: String,
    pub(super) permission: &'static str,
    pub(super) rule: Option<Arc<str>>,
    /// The access rules refuse the object, or hide whether it exists.
    pub(super) is_refused: bool,
}

impl Note {
    /// The note of a request, if its call is recorded.
    pub(crate) fn of(extensions: &Extensions) -> Option<Arc<Self>> {
        extensions.get().cloned()
    }

    /// The correlation id of the call, and what it is about.
    pub(crate) fn asked(&self, request_id: &str, object: &str) {
        let mut known = self.lock();
        known.is_asked = true;
        request_id.clone_into(&mut known.request_id);
        object.clone_into(&mut known.object);
    }

    /// The permission that the method needs.
    pub(crate) fn needs(&self, permission: Permission) {
        self.lock().permission = permission.as_str();
    }

    /// The id that the caller chose for a new execution.
    pub(crate) fn chose(&self, execution_id: &str) {
        execution_id.clone_into(&mut self.lock().execution_id);
    }

    /// Who asks.
    pub(crate) fn named(&self, actor: &Arc<str>, roles: &Arc<[Arc<str>]>) {
        let mut known = self.lock();
        known.actor = Some(actor.clone());
        known.roles = Some(roles.clone());
    }

    /// How the access rules decided.
    pub(crate) fn decided(&self, decision: &Decision) {
        let mut known = self.lock();
        known.permission = decision.permission.as_str();
        known.rule.clone_from(&decision.rule);
        known.is_refused |= !decision.allowed;
    }

    /// What the call has made or changed, where the answer names it.
    pub(crate) fn answered<R: Any>(&self, answer: &R) {
        let answer: &dyn Any = answer;
        let named = |name: &str| name.clone_into(&mut self.lock().result);
        if let Some(execution) = answer.downcast_ref::<Box<v1::Execution>>() {
            named(&execution.name);
        } else if let Some(definition) = answer.downcast_ref::<Box<v1::Definition>>() {
            named(&definition.name);
        } else if let Some(applied) = answer.downcast_ref::<Box<v1::ApplyDefinitionResponse>>() {
            if let Some(definition) = &applied.definition {
                named(&definition.name);
            }
        } else if let Some(session) = answer.downcast_ref::<Session>() {
            named(&session.name());
        }
    }

    /// The change has taken effect before the call ends: its record is written now.
    pub(crate) fn took_effect(&self) {
        self.effect.notify_one();
    }

    /// Waits until the change has taken effect.
    pub(super) async fn effect(&self) {
        self.effect.notified().await;
    }

    pub(super) fn known(&self) -> CallFacts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, CallFacts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
