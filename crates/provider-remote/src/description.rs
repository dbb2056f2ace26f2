//! What a provider reports about itself, checked.

use std::sync::Arc;

use stateway_model::{ProviderId, Reason};
use stateway_provider_api::{Capabilities, Error, ErrorKind, Table, Verb};
use stateway_wire::{CAPABILITIES, CONTRACT_VERSION, MAX_TABLE_BYTES, capabilities, v1};

/// The reason of a provider that speaks no version of this gateway.
const MISMATCH: &str = "PROVIDER_CONTRACT_MISMATCH";
/// The reason of a state table that breaks a rule.
const TABLE_INVALID: &str = "PROVIDER_TABLE_INVALID";
/// The reason of a description that breaks another rule.
const INVALID: &str = "PROVIDER_DESCRIPTION_INVALID";
/// The version of the format of state tables.
const TABLE_VERSION: i32 = 1;
/// The most names of capabilities that are read.
const MAX_CAPABILITIES: usize = 256;
/// The most bytes of a name or a version.
const MAX_NAME_BYTES: usize = 64;
/// The most bytes of an instance id.
const MAX_INSTANCE_BYTES: usize = 128;
/// The most unknown capabilities that a message lists.
const MOST_LISTED: usize = 8;

/// What the gateway knows, for the provider.
pub(crate) fn request(id: &ProviderId) -> v1::DescribeRequest {
    v1::DescribeRequest {
        min_contract_version: CONTRACT_VERSION,
        max_contract_version: CONTRACT_VERSION,
        capabilities: stateway_wire::capability_names(CAPABILITIES),
        reasons: Reason::ALL.iter().map(ToString::to_string).collect(),
        provider_id: id.to_string(),
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        max_table_version: TABLE_VERSION,
    }
}

/// A provider that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) instance_id: String,
    pub(crate) capabilities: Capabilities,
    /// Capabilities that this gateway does not know.
    pub(crate) unknown: Vec<String>,
    pub(crate) table: Arc<Table>,
}

impl Described {
    /// One line about the unknown capabilities; empty when there are none.
    pub(crate) fn remark(&self) -> String {
        if self.unknown.is_empty() {
            return String::new();
        }
        let names = &self.unknown[..self.unknown.len().min(MOST_LISTED)];
        let more = if names.len() < self.unknown.len() {
            ", …"
        } else {
            ""
        };
        let names = names.join(", ");
        format!("capabilities that this gateway does not know are ignored: {names}{more}")
    }
}

/// Checks what a provider reports, and lays the operator's rows over its table.
pub(crate) fn read(
    response: v1::DescribeResponse,
    overlay: Option<&Table>,
) -> Result<Described, Error> {
    check_range(&response)?;
    check_length("name", &response.name, 1, MAX_NAME_BYTES)?;
    check_length("version", &response.version, 0, MAX_NAME_BYTES)?;
    check_length("instance_id", &response.instance_id, 1, MAX_INSTANCE_BYTES)?;
    if response.capabilities.len() > MAX_CAPABILITIES {
        return Err(invalid("`capabilities` has more than 256 names"));
    }
    for name in &response.capabilities {
        check_length("capabilities", name, 1, MAX_NAME_BYTES)?;
    }
    let (mut capabilities, unknown) = capabilities(&response.capabilities);
    // The provider groups what it counts by its own table: with other rows an example need not stand for
    // its whole group.
    if overlay.is_some() {
        capabilities.count = false;
    }
    Ok(Described {
        table: table(&response.state_table, overlay)?,
        name: response.name,
        version: response.version,
        instance_id: response.instance_id,
        capabilities,
        unknown,
    })
}

/// Whether a description was read and refused, or does not exist: the provider breaks the contract as long
/// as it describes itself like this.
pub(crate) fn is_refused(error: &Error) -> bool {
    let reasons = [MISMATCH, TABLE_INVALID, INVALID];
    reasons.contains(&error.reason()) || error.kind == ErrorKind::Unsupported
}

fn check_range(response: &v1::DescribeResponse) -> Result<(), Error> {
    let (min, max) = (response.min_contract_version, response.max_contract_version);
    let refused = |message: String| {
        let error = Error::new(ErrorKind::Malformed, Verb::Health, message);
        error.with_reason(MISMATCH)
    };
    if min < 1 || max < min {
        let message = format!(
            "the provider reports the contract versions {min} to {max}, \
                               which is not a range"
        );
        return Err(refused(message));
    }
    if !(min..=max).contains(&CONTRACT_VERSION) {
        let message = format!(
            "the provider speaks the contract versions {min} to {max}, \
                               this gateway speaks {CONTRACT_VERSION}"
        );
        return Err(refused(message).with_hint("Install versions of the provider and the gateway that support the same contract version."));
    }
    Ok(())
}

fn check_length(field: &str, text: &str, least: usize, most: usize) -> Result<(), Error> {
    if (least..=most).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(invalid(&format!(
        "`{field}` must have {least} to {most} bytes and no control characters"
    )))
}

fn table(text: &str, overlay: Option<&Table>) -> Result<Arc<Table>, Error> {
    let refused = |message: String| {
        let message = format!("the state table of the provider is refused: {message}");
        Error::new(ErrorKind::Malformed, Verb::Health, message).with_reason(TABLE_INVALID)
    };
    if text.len() > MAX_TABLE_BYTES {
        return Err(refused("it is larger than 256 KiB".to_owned()));
    }
    let table = Table::parse(text).map_err(|error| refused(error.to_string()))?;
    let Some(overlay) = overlay else {
        return Ok(Arc::new(table));
    };
    let overlaid = table.overlaid_with(overlay);
    overlaid.map(Arc::new).map_err(|error| {
        refused(format!(
            "the file of the option `table` cannot overlay it: {error}"
        ))
    })
}

fn invalid(message: &str) -> Error {
    let message = format!("the description of the provider is refused: {message}");
    Error::new(ErrorKind::Malformed, Verb::Health, message).with_reason(INVALID)
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::table::MEMORY;

    use super::*;

    fn good() -> v1::DescribeResponse {
        v1::DescribeResponse {
            name: "acme".into(),
            version: "1.0".into(),
            min_contract_version: 1,
            max_contract_version: 3,
            capabilities: vec!["start".into(), "teleport".into()],
            instance_id: "i".into(),
            start_time: None,
            state_table: MEMORY.to_owned(),
        }
    }

    fn refusal(change: fn(&mut v1::DescribeResponse)) -> (String, String) {
        let mut response = good();
        change(&mut response);
        let error = read(response, None).unwrap_err();
        (error.reason().to_owned(), error.message.clone())
    }

    #[test]
    fn unknown_capabilities_are_ignored_and_reported() {
        let described = read(good(), None).unwrap();
        assert!(described.capabilities.start && !described.capabilities.kill);
        assert_eq!(described.unknown, ["teleport"]);
        assert!(described.remark().ends_with("ignored: teleport"));
    }

    #[test]
    fn a_range_that_does_not_fit_is_refused_with_both_ranges() {
        let (reason, message) = refusal(|one| one.min_contract_version = 2);
        assert_eq!(reason, "PROVIDER_CONTRACT_MISMATCH");
        assert!(
            message.contains("2 to 3, this gateway speaks 1"),
            "{message}"
        );
        let (_, message) = refusal(|one| one.max_contract_version = 0);
        assert!(
            message.contains("1 to 0, which is not a range"),
            "{message}"
        );
    }

    #[test]
    fn a_table_is_checked_like_a_compiled_in_one() {
        let (reason, message) = refusal(|one| {
            one.state_table = one
                .state_table
                .replace("terminal = true", "terminal = false");
        });
        assert_eq!(reason, "PROVIDER_TABLE_INVALID");
        assert!(message.contains("does not fit"), "{message}");
        let (reason, _) = refusal(|one| one.state_table = "x".repeat(MAX_TABLE_BYTES + 1));
        assert_eq!(reason, "PROVIDER_TABLE_INVALID");
    }

    #[test]
    fn only_a_description_that_was_refused_ends_calls() {
        let mut response = good();
        response.state_table.clear();
        assert!(is_refused(&read(response, None).unwrap_err()));
        assert!(is_refused(&Error::unsupported(Verb::Health)));
        for kind in [
            ErrorKind::Throttled,
            ErrorKind::Conflict,
            ErrorKind::Internal,
            ErrorKind::Malformed,
            ErrorKind::Unavailable,
        ] {
            assert!(!is_refused(&Error::new(kind, Verb::Health, "not now")));
        }
    }

    #[test]
    fn names_are_bounded() {
        for change in [
            |one: &mut v1::DescribeResponse| one.name.clear(),
            |one: &mut v1::DescribeResponse| one.instance_id = "x".repeat(200),
            |one: &mut v1::DescribeResponse| one.version = "1\n2".into(),
            |one: &mut v1::DescribeResponse| one.capabilities = vec!["a".into(); 300],
        ] {
            assert_eq!(refusal(change).0, "PROVIDER_DESCRIPTION_INVALID");
        }
    }

    #[test]
    fn a_provider_does_not_count_by_a_table_that_the_operator_changed() {
        let mut response = good();
        response.capabilities.push("count".into());
        let overlay = Table::parse(MEMORY).unwrap();
        assert!(read(response.clone(), None).unwrap().capabilities.count);
        let described = read(response, Some(&overlay)).unwrap();
        assert!(described.capabilities.start && !described.capabilities.count);
    }

    #[test]
    fn an_overlay_of_another_kind_is_refused_with_its_option() {
        let overlay = Table::parse(stateway_provider_api::table::RESTATE).unwrap();
        let error = read(good(), Some(&overlay)).unwrap_err();
        assert!(error.message.contains("option `table`"), "{error}");
    }
}
