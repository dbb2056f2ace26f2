//! The description of the endpoint that Restate asks for when a deployment is registered.

use serde_json::{Value, json};

use stateway_hosted::message::{DEFINITION_OBJECT, EXECUTION_OBJECT};

use crate::protocol::VERSIONS;

/// The version of the manifest in the path of a deployment. Restate reads a manifest once for each
/// deployment, so another manifest needs another path.
const MANIFEST: u32 = 3;

/// An invocation is retried at this interval while no endpoint answers.
const MAX_RETRY_MILLIS: u64 = 5_000;
/// The maximum number of attempts of an invocation: enough for about two months without an endpoint.
const MAX_ATTEMPTS: u64 = 1_000_000;

/// The path under which a deployment is registered, after the address of the endpoint: another version is
/// another deployment. Without a name it is the version of this build. The endpoint answers under every
/// path, so a host that replaces another one at the same address also finishes what that one has begun.
#[must_use]
pub fn deployment_path(name: &str) -> String {
    let name: String = match name {
        "" => env!("CARGO_PKG_VERSION").to_owned(),
        // Anything else would be another path or a query.
        name => name.replace(|it: char| !it.is_ascii_alphanumeric() && it != '.', "-"),
    };
    format!("stateway-{MANIFEST}-{name}")
}

/// The manifest, in the form of this version of Restate's discovery.
pub(crate) fn manifest(discovery: u32) -> Value {
    let services = [
        (
            EXECUTION_OBJECT,
            &[
                ("command", EXCLUSIVE),
                ("alarm", EXCLUSIVE),
                ("deliver", EXCLUSIVE),
            ][..],
        ),
        (
            DEFINITION_OBJECT,
            // Many executions may start children by one definition, and a start changes nothing in it.
            &[
                ("command", EXCLUSIVE),
                ("alarm", EXCLUSIVE),
                ("start_child", SHARED),
            ][..],
        ),
    ];
    let services: Vec<_> = services
        .iter()
        .map(|(name, handlers)| service(name, handlers, discovery))
        .collect();
    json!({
        "protocolMode": "REQUEST_RESPONSE",
        "minProtocolVersion": VERSIONS.start(),
        "maxProtocolVersion": VERSIONS.end(),
        "services": services,
    })
}

/// One invocation of an object at a time.
const EXCLUSIVE: &str = "EXCLUSIVE";
/// Beside others; it only reads the values of the object.
const SHARED: &str = "SHARED";

fn service(name: &str, handlers: &[(&str, &str)], discovery: u32) -> Value {
    let handlers: Vec<_> = handlers
        .iter()
        .map(|(handler, ty)| {
            json!({
                "name": handler,
                "ty": ty,
                "input": {"required": true, "contentType": "*/*"},
                "output": {"contentType": "application/json"},
            })
        })
        .collect();
    let mut service = json!({"name": name, "ty": "VIRTUAL_OBJECT", "handlers": handlers});
    // Older forms do not have these fields.
    if discovery >= 3 {
        // The events are the record; an invocation leaves none of its own.
        service["journalRetention"] = 0.into();
        service["idempotencyRetention"] = 0.into();
    }
    if discovery >= 4 {
        service["retryPolicyInitialInterval"] = 50.into();
        service["retryPolicyExponentiationFactor"] = 2.0.into();
        service["retryPolicyMaxInterval"] = MAX_RETRY_MILLIS.into();
        service["retryPolicyMaxAttempts"] = MAX_ATTEMPTS.into();
        service["retryPolicyOnMaxAttempts"] = "PAUSE".into();
    }
    service
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_deployment_and_its_name_stays_one_part_of_a_path() {
        let build = format!("stateway-{MANIFEST}-{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(deployment_path(""), build);
        assert_eq!(
            deployment_path("2026.11"),
            format!("stateway-{MANIFEST}-2026.11")
        );
        assert_eq!(
            deployment_path("a/b?c"),
            format!("stateway-{MANIFEST}-a-b-c")
        );
    }
}
