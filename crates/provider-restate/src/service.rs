//! What the admin API says of a service: its kind, its handlers, its effective retry policy.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A registered service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) kind: Kind,
    handlers: BTreeMap<String, Option<u32>>,
}

/// How a service's invocations are addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Kind {
    Service,
    VirtualObject,
    Workflow,
}

#[derive(Deserialize)]
struct Body {
    ty: Kind,
    #[serde(default)]
    handlers: Vec<Handler>,
    retry_policy: Option<Policy>,
}

#[derive(Deserialize)]
struct Handler {
    name: String,
    retry_policy: Option<Policy>,
}

#[derive(Deserialize)]
struct Policy {
    max_attempts: Option<u64>,
}

impl Service {
    pub(crate) fn has(&self, handler: &str) -> bool {
        self.handlers.contains_key(handler)
    }

    /// The most attempts of a handler, 0 for no end of them, `None` when the server does not say.
    pub(crate) fn most_attempts(&self, handler: &str) -> Option<u32> {
        self.handlers.get(handler).copied().flatten()
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let body = Body::deserialize(from)?;
        let most = |policy: &Option<Policy>| policy.as_ref().and_then(|it| it.max_attempts);
        // A handler without a number of its own has the service's. A service that shows a policy
        // without a number tries for ever; one that shows none is of an older server.
        let of_service = body
            .retry_policy
            .as_ref()
            .map(|it| it.max_attempts.unwrap_or(0));
        let handlers = body.handlers.into_iter().map(|handler| {
            let most = most(&handler.retry_policy).or(of_service);
            let most = most.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
            (handler.name, most)
        });
        Ok(Self {
            kind: body.ty,
            handlers: handlers.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_without_a_number_of_its_own_has_the_services() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "name": "Lab", "ty": "Service",
            "handlers": [
                {"name": "flaky", "retry_policy": {"max_attempts": null}},
                {"name": "flakyKill", "retry_policy": {"max_attempts": 3}},
            ],
            "retry_policy": {"max_attempts": 70},
        }))
        .unwrap();
        assert_eq!(service.most_attempts("flaky"), Some(70));
        assert_eq!(service.most_attempts("flakyKill"), Some(3));
        assert_eq!(service.most_attempts("nobody"), None);
    }

    #[test]
    fn an_older_server_that_shows_no_policy_leaves_the_most_unknown() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "name": "Lab", "ty": "Workflow", "handlers": [{"name": "run"}],
        }))
        .unwrap();
        assert_eq!(service.most_attempts("run"), None);
    }
}
