//! `definitions/{definition}` and `definitions/{definition}/revisions/{revision}`.

use stateway_model::DefinitionName;
use tonic::Status;

use crate::status::Refusal;

/// The fewest digits that may stand for a revision.
const SHORTEST: usize = 8;
/// All of them.
const WHOLE: usize = 64;

/// The definition's name, and the revision or its first digits where one is meant.
pub(super) fn parse(text: &str) -> Result<(DefinitionName, Option<String>), Status> {
    let (name, revision) = match text.split_once("/revisions/") {
        Some((name, revision)) => (name, Some(revision)),
        None => (text, None),
    };
    let name: DefinitionName = name
        .parse()
        .map_err(|error| Refusal::invalid("name", format!("{error}")))?;
    if name.provider.is_some() {
        let message = "native definitions of a provider are not stored by the gateway";
        return Err(Refusal::invalid("name", message).into());
    }
    let Some(revision) = revision else {
        return Ok((name, None));
    };
    check_revision("name", revision)?;
    Ok((name, Some(revision.to_owned())))
}

/// Refuses text that cannot be a revision or the beginning of one.
pub(crate) fn check_revision(field: &'static str, revision: &str) -> Result<(), Status> {
    let hexadecimal = revision
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    if hexadecimal && (SHORTEST..=WHOLE).contains(&revision.len()) {
        return Ok(());
    }
    let message = format!("a revision is {SHORTEST} to {WHOLE} hexadecimal digits in lower case");
    Err(Refusal::invalid(field, message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_a_revision() {
        let (name, revision) = parse("definitions/order-saga").unwrap();
        assert_eq!((&*name.id, revision), ("order-saga", None));
        let (_, revision) = parse("definitions/a/revisions/0123456789ab").unwrap();
        assert_eq!(revision.as_deref(), Some("0123456789ab"));
    }

    #[test]
    fn what_names_no_definition_is_refused() {
        let long = format!("definitions/a/revisions/{}", "0".repeat(65));
        for wrong in [
            "",
            "a",
            "definitions/",
            "providers/p/definitions/a",
            "definitions/a/revisions/",
            "definitions/a/revisions/0123456",
            "definitions/a/revisions/0123456X",
            "definitions/a/revisions/01234567/x",
            &long,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
