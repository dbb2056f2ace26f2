//! Who may read the page of metrics: its figures are about everything.

use std::sync::Arc;

use stateway_access::{Object, Permission};
use stateway_identity::Identity;

use super::control::AccessControl;

/// Decides about readers of `/metrics`.
#[derive(Clone)]
pub(crate) struct MetricsAccess(pub(crate) Option<Arc<AccessControl>>);

impl MetricsAccess {
    /// Whether the sender of a request may read everything that there is.
    pub(crate) fn allows(&self, identity: Option<&Arc<Identity>>) -> bool {
        let Self(Some(control)) = self else {
            return true;
        };
        identity.is_some_and(|identity| {
            let grants = control.grants(identity);
            grants.allows(Permission::Read, &Object::default())
        })
    }
}
