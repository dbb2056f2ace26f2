//! What visitors of pages may do: read the page of metrics, whose figures are about everything, and press buttons.

use std::sync::Arc;

use stateway_access::{Grants, KnownLabels, Object, Permission};
use stateway_identity::{Identity, PageAccess, PageObject, VisitorAccess};
use stateway_model::Labels;

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

/// What one visitor may do by the rules of the moment.
struct OneVisitor(Arc<Grants>);

impl PageAccess for OneVisitor {
    fn may(&self, permission: &str, object: &PageObject<'_>) -> bool {
        let Ok(permission) = permission.parse::<Permission>() else {
            return false;
        };
        let labels: Option<Labels> = object.labels.map(|labels| {
            let labels = labels.iter();
            labels
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        });
        let object = Object {
            provider: object.provider,
            definition: object.definition,
            labels: labels
                .as_ref()
                .map_or(KnownLabels::Unknown, KnownLabels::All),
            role: None,
        };
        self.0.may_allow(permission, &object)
    }
}

impl AccessControl {
    /// What the visitor of a page may do.
    pub(crate) fn visitor(&self, identity: &Arc<Identity>) -> VisitorAccess {
        VisitorAccess(Arc::new(OneVisitor(self.grants(identity))))
    }

    /// The permissions that an identity has for something.
    pub(crate) fn permissions(&self, identity: &Arc<Identity>) -> Vec<&'static str> {
        let grants = self.grants(identity);
        let all = Permission::ALL.into_iter();
        let held = all.filter(|permission| grants.has(*permission));
        held.map(Permission::as_str).collect()
    }
}
