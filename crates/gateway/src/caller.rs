//! The caller: the authenticated identity, or else the headers `x-stateway-actor` and
//! `x-stateway-roles`.
//!
//! With authentication, the headers come from the gateway's own pages only: the front removes those
//! of every request. Without it they are believed, because the gateway listens on loopback only and
//! a proxy in front of it authenticates callers: that proxy must set them itself and remove what came
//! from outside. A header that came twice is refused, so that a proxy that adds instead of replacing
//! is noticed.

use std::sync::Arc;

use axum::http::{Extensions, HeaderName};
use stateway_identity::{Identity, LONGEST_ROLE, LONGEST_SUBJECT, MOST_ROLES, is_word};
use stateway_provider_api::Call;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::status::Refusal;

const ACTOR: &str = "x-stateway-actor";
const ROLES: &str = "x-stateway-roles";
const ACTOR_HEADER: HeaderName = HeaderName::from_static(ACTOR);
const ROLES_HEADER: HeaderName = HeaderName::from_static(ROLES);

/// Who asks, and the roles they have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) actor: Arc<str>,
    pub(crate) roles: Arc<[Arc<str>]>,
}

/// The caller, by the identity of a request or the metadata of a call; anonymous if neither
/// says.
pub(crate) fn of(extensions: &Extensions, metadata: &MetadataMap) -> Result<Caller, Status> {
    if let Some(identity) = extensions.get::<Arc<Identity>>() {
        return Ok(Caller {
            actor: identity.subject.clone(),
            roles: identity.roles.clone(),
        });
    }
    let actor = match header(metadata, ACTOR_HEADER, ACTOR)? {
        None => Call::nobody(),
        Some(name) if is_word(name, LONGEST_SUBJECT) => name.into(),
        Some(_) => {
            let rule = format!("1 to {LONGEST_SUBJECT} printable ASCII characters without blanks");
            return Err(wrong(ACTOR, &rule));
        }
    };
    let roles = match header(metadata, ROLES_HEADER, ROLES)? {
        None => Call::no_roles(),
        Some(list) => roles(list)?,
    };
    Ok(Caller { actor, roles })
}

fn roles(list: &str) -> Result<Arc<[Arc<str>]>, Status> {
    let words: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() > MOST_ROLES || words.iter().any(|word| !is_word(word, LONGEST_ROLE)) {
        let rule = format!(
            "at most {MOST_ROLES} words, separated by commas, each of up to {LONGEST_ROLE} \
             printable ASCII characters without blanks"
        );
        return Err(wrong(ROLES, &rule));
    }
    Ok(words.into_iter().map(Arc::from).collect())
}

fn header<'m>(
    metadata: &'m MetadataMap,
    header: HeaderName,
    name: &'static str,
) -> Result<Option<&'m str>, Status> {
    let mut sent = metadata.as_ref().get_all(header).iter();
    let Some(value) = sent.next() else {
        return Ok(None);
    };
    if sent.next().is_some() {
        return Err(wrong(name, "sent once, not several times"));
    }
    let text = value.to_str();
    text.map(Some).map_err(|_| wrong(name, "printable ASCII"))
}

fn wrong(header: &'static str, rule: &str) -> Status {
    Refusal::invalid(header, format!("the header `{header}` must be {rule}")).into()
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::ANONYMOUS;
    use tonic::metadata::AsciiMetadataValue;

    use super::*;

    fn sent(headers: &[(&'static str, &[u8])]) -> Option<(String, Vec<String>)> {
        let mut metadata = MetadataMap::new();
        for (name, value) in headers {
            let value = AsciiMetadataValue::try_from(*value).unwrap();
            metadata.append(*name, value);
        }
        let caller = of(&Extensions::new(), &metadata).ok()?;
        let roles = caller.roles.iter().map(ToString::to_string).collect();
        Some((caller.actor.to_string(), roles))
    }

    #[test]
    fn who_does_not_say_is_anonymous_and_has_no_role() {
        assert_eq!(sent(&[]), Some((ANONYMOUS.into(), vec![])));
    }

    #[test]
    fn a_proved_identity_counts_and_no_header() {
        let identity = Identity::new(stateway_identity::Method::Jwt, "ada", ["ops"], None).unwrap();
        let mut extensions = Extensions::new();
        extensions.insert(Arc::new(identity));
        let mut metadata = MetadataMap::new();
        metadata.insert(ACTOR, AsciiMetadataValue::from_static("eve"));
        let caller = of(&extensions, &metadata).unwrap();
        assert_eq!((&*caller.actor, caller.roles.len()), ("ada", 1));
    }

    #[test]
    fn actor_and_roles_are_taken_as_they_are() {
        let asked = sent(&[(ACTOR, b"ada@example.org"), (ROLES, b"ops, release,,")]);
        let roles = vec!["ops".into(), "release".into()];
        assert_eq!(asked, Some(("ada@example.org".into(), roles)));
    }

    #[test]
    fn what_is_not_plain_too_long_or_sent_twice_is_refused() {
        let long = "a".repeat(LONGEST_SUBJECT + 1);
        let many = "a,".repeat(MOST_ROLES + 1);
        let cases: [&[(&'static str, &[u8])]; 7] = [
            &[(ACTOR, b"")],
            &[(ACTOR, b"ada lovelace")],
            &[(ACTOR, b"\xc3\xa4")],
            &[(ACTOR, long.as_bytes())],
            &[(ACTOR, b"a"), (ACTOR, b"b")],
            &[(ROLES, b"a b")],
            &[(ROLES, many.as_bytes())],
        ];
        for headers in cases {
            assert_eq!(sent(headers), None, "{headers:?}");
        }
    }
}
