//! Which providers offer a topic beyond executions, and which of them a request is for.

use std::sync::Arc;

use stateway_model::ProviderId;
use stateway_provider_api::Capabilities;
use tonic::{Code, Status};

use super::{Upstream, Upstreams};
use crate::access::Access;
use crate::parent::Parent;
use crate::status::Refusal;

/// One of the extensions of a provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Topic {
    /// In words, for refusals.
    what: &'static str,
    is_offered: fn(&Capabilities) -> bool,
}

impl Topic {
    pub(crate) const PORTABLE_DEFINITIONS: Self = Self {
        what: "portable definitions",
        is_offered: |can| can.portable_definitions,
    };
    pub(crate) const TRIGGERS: Self = Self {
        what: "triggers",
        is_offered: |can| can.triggers,
    };
    pub(crate) const APPROVALS: Self = Self {
        what: "approvals",
        is_offered: |can| can.approvals,
    };
    pub(crate) const WORKERS: Self = Self {
        what: "tasks for workers",
        is_offered: |can| can.workers,
    };
    pub(crate) const EVENT_LOG: Self = Self {
        what: "an event log",
        is_offered: |can| can.event_log,
    };
    pub(crate) const RECOVERY: Self = Self {
        what: "recovery",
        is_offered: |can| can.recovery,
    };
    pub(crate) const STORE: Self = Self {
        what: "a store of its own",
        is_offered: |can| can.store,
    };

    pub(crate) fn is_offered_by(self, upstream: &Upstream) -> bool {
        (self.is_offered)(&upstream.capabilities())
    }
}

/// Where a request finds its provider.
pub(crate) struct Directory {
    pub(crate) upstreams: Arc<Upstreams>,
    /// The provider that is the default of a portable definition for which none was chosen.
    pub(crate) default_provider: Option<ProviderId>,
}

impl Directory {
    /// The provider with this id, if it offers the topic.
    pub(crate) fn of(
        &self,
        access: &Access,
        id: &ProviderId,
        topic: Topic,
    ) -> Result<&Arc<Upstream>, Status> {
        let upstream = named(access, &self.upstreams, id)?;
        if topic.is_offered_by(upstream) {
            return Ok(upstream);
        }
        let message = format!(
            "provider {id} is of kind {} and does not offer {}",
            upstream.kind, topic.what
        );
        Err(
            Refusal::new(Code::Unimplemented, "CAPABILITY_NOT_SUPPORTED", message)
                .with("provider", id.to_string())
                .hint("{GetProvider} lists the capabilities of each provider.")
                .into(),
        )
    }

    /// The provider of `providers/{provider}`, or the only one that offers the topic.
    pub(crate) fn one(
        &self,
        access: &Access,
        field: &'static str,
        name: &str,
        topic: Topic,
    ) -> Result<&Arc<Upstream>, Status> {
        if !matches!(name, "" | "providers/-") {
            let id = name.strip_prefix("providers/").ok_or_else(|| {
                let message = format!("`{field}` is not of the form `providers/{{provider}}`");
                Status::from(Refusal::invalid(field, message))
            })?;
            let id = id
                .parse()
                .map_err(|error| Refusal::invalid(field, format!("{error}")))?;
            return self.of(access, &id, topic);
        }
        let offering = self.all(access, topic)?;
        if let [only] = offering[..] {
            return Ok(only);
        }
        let known: Vec<_> = offering.iter().map(|one| one.id.resource_name()).collect();
        let message = format!("`{field}` must name the provider");
        Err(Refusal::invalid(field, message)
            .hint(format!("These offer {}: {}.", topic.what, known.join(", ")))
            .into())
    }

    /// The providers under a parent that offer the topic; none at all is a refusal.
    pub(crate) fn under(
        &self,
        access: &Access,
        parent: &Parent,
        topic: Topic,
    ) -> Result<Vec<&Arc<Upstream>>, Status> {
        match parent {
            Parent::One(id) => Ok(vec![self.of(access, id, topic)?]),
            Parent::All => self.all(access, topic),
        }
    }

    /// The same with the default provider first.
    pub(crate) fn in_order(
        &self,
        access: &Access,
        topic: Topic,
    ) -> Result<Vec<&Arc<Upstream>>, Status> {
        let mut offering = self.all(access, topic)?;
        offering.sort_by_key(|one| Some(&one.id) != self.default_provider.as_ref());
        Ok(offering)
    }

    /// Every provider that offers the topic; none at all is a refusal.
    pub(crate) fn all(&self, access: &Access, topic: Topic) -> Result<Vec<&Arc<Upstream>>, Status> {
        let offering = self.upstreams.values();
        let offering = offering.filter(|one| access.sees_provider(&one.id));
        let offering: Vec<_> = offering.filter(|one| topic.is_offered_by(one)).collect();
        if offering.is_empty() {
            return Err(Refusal::unsupported(topic.what).into());
        }
        Ok(offering)
    }
}

/// The provider with this id, or the refusal that names the configured ones. A provider that a caller may
/// not know of does not exist for that caller.
pub(crate) fn named<'u>(
    access: &Access,
    upstreams: &'u Upstreams,
    id: &ProviderId,
) -> Result<&'u Arc<Upstream>, Status> {
    let found = upstreams.get(id).filter(|_| access.sees_provider(id));
    found.ok_or_else(|| {
        let known = upstreams.keys().filter(|id| access.sees_provider(id));
        let known: Vec<_> = known.map(ProviderId::as_str).collect();
        Refusal::new(
            Code::NotFound,
            "PROVIDER_NOT_FOUND",
            format!("no provider `{id}`"),
        )
        .with("provider", id.to_string())
        .hint(format!("Configured: {}.", known.join(", ")))
        .into()
    })
}
