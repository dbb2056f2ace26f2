//! Capabilities by their names.

use stateway_provider_api::Capabilities;

/// The capabilities that a provider in another process can have. The extensions of the trait (portable
/// definitions, triggers, approvals, workers, event log, recovery, store) are not part of the contract
/// over the wire yet.
pub const CAPABILITIES: Capabilities = Capabilities {
    portable_definitions: false,
    triggers: false,
    approvals: false,
    watch_approvals: false,
    workers: false,
    event_log: false,
    recovery: false,
    store: false,
    ..Capabilities::ALL
};

/// The names of the capabilities that are on and part of the contract over the wire.
#[must_use]
pub fn capability_names(of: Capabilities) -> Vec<String> {
    let on = of.and(CAPABILITIES);
    let on = on.iter().filter(|(_, on)| *on);
    on.map(|(name, _)| name.to_owned()).collect()
}

/// The capabilities of these names, and the names that this build does not know.
#[must_use]
pub fn capabilities(names: &[String]) -> (Capabilities, Vec<String>) {
    let mut missing = CAPABILITIES;
    let mut unknown = Vec::new();
    for name in names {
        let is_known = CAPABILITIES.iter().any(|(known, on)| on && known == name);
        match missing.without(name) {
            Some(fewer) if is_known => missing = fewer,
            _ => unknown.push(name.clone()),
        }
    }
    // On is what the contract has and what is not missing.
    let mut on = CAPABILITIES;
    for (name, is_missing) in missing.iter() {
        if is_missing {
            on = on.without(name).unwrap_or(on);
        }
    }
    (on, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_capabilities_and_unknown_ones_are_reported() {
        let few = Capabilities {
            start: true,
            watch_all: true,
            ..Capabilities::NONE
        };
        assert_eq!(capability_names(few), ["start", "watch_all"]);
        let mut names = capability_names(few);
        names.extend(["teleport", "workers"].map(str::to_owned));
        let unknown = ["teleport", "workers"].map(str::to_owned).to_vec();
        assert_eq!(capabilities(&names), (few, unknown));
        let all = capability_names(Capabilities::ALL);
        assert_eq!(capabilities(&all), (CAPABILITIES, vec![]));
    }
}
