//! Which tasks a worker may receive.

use std::sync::Arc;

use stateway_access::{KnownLabels, Object, Permission};
use stateway_model::ProviderId;
use stateway_provider_api::WorkerOffer;
use tonic::Status;

use super::call::ApiCall;
use super::refusal::denied;

impl ApiCall {
    /// The offer of a worker, as far as its caller may work for it. A worker that names no tenant works for
    /// the tenant of its caller, if its caller may not work for all tenants.
    pub(crate) fn workable(
        &self,
        provider: &ProviderId,
        mut offer: WorkerOffer,
    ) -> Result<WorkerOffer, Status> {
        let Some(tenant) = self.access.tenant() else {
            return self.check(provider, &offer).map(|()| offer);
        };
        if offer.tenant.is_empty() && self.check(provider, &offer).is_err() {
            offer.tenant = tenant;
        }
        self.check(provider, &offer)?;
        Ok(offer)
    }

    /// Whether the caller may work for every role of an offer, and for its tenant.
    fn check(&self, provider: &ProviderId, offer: &WorkerOffer) -> Result<(), Status> {
        let labels = if offer.tenant.is_empty() {
            // The worker would receive the tasks of all tenants.
            KnownLabels::Unknown
        } else {
            KnownLabels::Tenant(&offer.tenant)
        };
        let nameless: [Arc<str>; 1] = ["".into()];
        let roles: &[Arc<str>] = if offer.roles.is_empty() {
            &nameless
        } else {
            &offer.roles
        };
        for role in roles {
            let object = Object {
                provider: Some(provider.as_str()),
                definition: None,
                labels,
                role: Some(role),
            };
            if !self.decide(Permission::Work, &object).allowed {
                return Err(denied(
                    Permission::Work,
                    &what(provider, role, &offer.tenant),
                ));
            }
        }
        Ok(())
    }
}

fn what(provider: &ProviderId, role: &str, tenant: &str) -> String {
    let role = match role {
        "" => "tasks without a role".to_owned(),
        role => format!("tasks of role `{role}`"),
    };
    match tenant {
        "" => format!("{role} of every tenant on provider `{provider}`"),
        tenant => format!("{role} of tenant `{tenant}` on provider `{provider}`"),
    }
}
