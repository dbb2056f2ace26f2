//! Names as people type them: full, or short as `provider/id`.

use stateway_model::{DefinitionName, ExecutionId, ExecutionName, ProviderId};

use crate::failure::Failure;

/// The full name of an execution given in full or as `provider/id`.
///
/// In the short form the id is taken as the engine knows it, slashes and all.
///
/// # Errors
/// Neither form.
pub fn execution(text: &str) -> Result<String, Failure> {
    if is_full(text, "executions") {
        let name: Result<ExecutionName, _> = text.parse();
        return name
            .map(|name| name.to_string())
            .map_err(|error| wrong(&error.to_string()));
    }
    if is_full(text, "definitions") {
        return Err(wrong(&format!(
            "`{text}` names a definition, not an execution"
        )));
    }
    let named = text
        .split_once('/')
        .filter(|(provider, _)| *provider != "providers");
    let Some((provider, id)) = named else {
        let message = format!("`{text}` does not name an execution");
        if text.is_empty() || text.contains('/') {
            return Err(wrong(&message));
        }
        let hint = format!(
            "Write the provider too, for example builtin/{text}. `stateway list` shows the names."
        );
        return Err(Failure::usage(message).hint(hint));
    };
    let provider: ProviderId = provider
        .parse()
        .map_err(|error| wrong(&format!("{error}")))?;
    let id = ExecutionId::new(id).map_err(|error| wrong(&format!("{error}")))?;
    Ok(ExecutionName::new(provider, id).to_string())
}

/// The full name of an approval given in full or as `provider/execution/step~attempt`, with
/// `~b{branch}` behind it on a later branch.
///
/// # Errors
/// Neither form.
pub fn approval(text: &str) -> Result<String, Failure> {
    part(text, "approvals", "step~attempt")
}

/// The full name of an escalation given in full or as `provider/execution/step~attempt`, with
/// `~b{branch}` behind it on a later branch. A step alone stays without an attempt.
///
/// # Errors
/// Neither form.
pub fn escalation(text: &str) -> Result<String, Failure> {
    part(text, "escalations", "step~attempt")
}

/// The full name of a branch of an execution, given in full or by its number, `current` or `-`.
#[must_use]
pub fn branch(execution: &str, text: &str) -> String {
    if text.contains('/') {
        return text.to_owned();
    }
    format!("{execution}/branches/{text}")
}

/// The number of a branch given in full or by its number; none for the current branch.
///
/// # Errors
/// Not the number of a branch.
pub fn branch_number(text: &str) -> Result<Option<u32>, Failure> {
    match text.rsplit('/').next() {
        None | Some("" | "current") => Ok(None),
        Some(number) => number.parse().map(Some).map_err(|_| {
            Failure::usage(format!("`{number}` is not the number of a branch"))
                .hint("`stateway branches NAME` lists the branches.")
        }),
    }
}

/// `provider/execution/part` of a full name; the name itself where that cannot be shown.
#[must_use]
pub fn short_of_part(full: &str) -> String {
    let parts = ["/approvals/", "/escalations/"];
    let split = parts.iter().find_map(|part| full.rsplit_once(part));
    let Some((execution, part)) = split else {
        return stateway_phrases::visible(full).into_owned();
    };
    let short = crate::screen::short_name(&execution.into());
    if short == execution {
        return stateway_phrases::visible(full).into_owned();
    }
    format!("{short}/{}", stateway_phrases::visible(part))
}

fn part(text: &str, collection: &str, pattern: &str) -> Result<String, Failure> {
    let hint = format!(
        "Write provider/execution/{pattern}, or the full name \
         providers/{{provider}}/executions/{{execution}}/{collection}/{{{pattern}}}."
    );
    let separator = format!("/{collection}/");
    let split = if is_full(text, "executions") {
        text.rsplit_once(&separator)
    } else {
        text.rsplit_once('/')
    };
    let wrong = || Failure::usage(format!("`{text}` does not name one of the {collection}"));
    match split {
        Some((of, part)) if !part.is_empty() && of.contains('/') => {
            let execution = execution(of).map_err(|_| wrong().hint(&hint))?;
            Ok(format!("{execution}{separator}{part}"))
        }
        _ => Err(wrong().hint(hint)),
    }
}

/// `providers/{id}` of a provider given in full or by its id.
///
/// # Errors
/// Not a provider's id.
pub fn provider(text: &str) -> Result<String, Failure> {
    let id = text.strip_prefix("providers/").unwrap_or(text);
    let id: ProviderId = id
        .parse()
        .map_err(|error| Failure::usage(format!("{error}")))?;
    Ok(id.resource_name())
}

/// `providers/{id}`, or `providers/-` for all of them.
///
/// # Errors
/// Not a provider's id.
pub fn parent(text: Option<&str>) -> Result<String, Failure> {
    match text {
        None | Some("-" | "providers/-") => Ok("providers/-".into()),
        Some(text) => provider(text),
    }
}

/// What to start, and the provider if it is given separately.
#[derive(Debug, PartialEq, Eq)]
pub struct Startable {
    /// The definition's full name.
    pub definition: String,
    /// `providers/{id}`; empty when the definition names its provider.
    pub parent: String,
}

/// A definition given in full, as `provider/definition`, or short beside `--provider`.
///
/// # Errors
/// None of these forms.
pub fn definition(text: &str, on: Option<&str>) -> Result<Startable, Failure> {
    let invalid = |error: stateway_model::NameError| Failure::usage(error.to_string());
    let on = on.map(provider).transpose()?;
    if text.starts_with("definitions/") || is_full(text, "definitions") {
        let name: DefinitionName = text.parse().map_err(invalid)?;
        return Ok(Startable {
            definition: name.to_string(),
            parent: on.unwrap_or_default(),
        });
    }
    if is_full(text, "executions") {
        return Err(
            Failure::usage(format!("`{text}` names an execution, not a definition")).hint(
                "Write provider/definition, or the full name providers/{provider}/definitions/{id}.",
            ),
        );
    }
    let (provider, id) = match (&on, text.split_once('/')) {
        (Some(on), _) => (on.trim_start_matches("providers/"), text),
        (None, Some((provider, id))) => (provider, id),
        (None, None) => {
            return Err(Failure::usage(format!(
                "`{text}` does not name the provider that runs it"
            ))
            .hint(format!("Add --provider, or write provider/{text}.")));
        }
    };
    let name = DefinitionName::native(provider.parse().map_err(invalid)?, id).map_err(invalid)?;
    Ok(Startable {
        definition: name.to_string(),
        parent: String::new(),
    })
}

fn is_full(text: &str, collection: &str) -> bool {
    let mut segments = text.split('/');
    segments.next() == Some("providers") && segments.nth(1) == Some(collection)
}

fn wrong(message: &str) -> Failure {
    Failure::usage(message)
        .hint("Write provider/id, or the full name providers/{provider}/executions/{id}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full_names_are_the_same_execution() {
        let full = "providers/shop/executions/Order%2F17";
        assert_eq!(execution(full).unwrap(), full);
        assert_eq!(execution("shop/Order/17").unwrap(), full);
    }

    #[test]
    fn what_names_no_execution_is_refused_with_a_hint() {
        for text in [
            "",
            "a",
            "shop/",
            "/a",
            "SHOP/a",
            "providers/shop/a",
            "providers/shop/executions/a%",
        ] {
            let failure = execution(text).unwrap_err();
            assert_eq!(failure.exit, crate::exit::Exit::Usage, "{text}");
            assert!(!failure.hint.is_empty());
        }
        let hint = execution("order-17").unwrap_err().hint;
        assert!(hint.contains("builtin/order-17"), "{hint}");
    }

    #[test]
    fn a_name_of_the_other_collection_is_told_from_an_unknown_provider() {
        let failure = execution("providers/memory/definitions/hello").unwrap_err();
        assert_eq!(
            failure.message,
            "`providers/memory/definitions/hello` names a definition, not an execution"
        );
        for on in [None, Some("memory")] {
            let failure = definition("providers/memory/executions/hello", on).unwrap_err();
            assert_eq!(
                failure.message,
                "`providers/memory/executions/hello` names an execution, not a definition"
            );
            assert!(failure.hint.contains("provider/definition"));
        }
    }

    #[test]
    fn definitions_are_full_or_short_beside_a_provider() {
        let own = |definition: &str| Startable {
            definition: definition.into(),
            parent: String::new(),
        };
        let full = own("providers/r/definitions/Order%2Frun");
        assert_eq!(
            definition("providers/r/definitions/Order%2Frun", None).unwrap(),
            full
        );
        assert_eq!(definition("r/Order/run", None).unwrap(), full);
        assert_eq!(definition("Order/run", Some("r")).unwrap(), full);
        let portable = Startable {
            definition: "definitions/saga".into(),
            parent: "providers/r".into(),
        };
        assert_eq!(definition("definitions/saga", Some("r")).unwrap(), portable);
        assert!(
            definition("saga", None)
                .unwrap_err()
                .hint
                .contains("--provider")
        );
    }

    #[test]
    fn an_approval_is_named_in_full_or_by_its_parts() {
        let full = "providers/b/executions/Order%2F17/approvals/sign-off~2";
        assert_eq!(approval(full).unwrap(), full);
        assert_eq!(approval("b/Order/17/sign-off~2").unwrap(), full);
        assert_eq!(short_of_part(full), "b/Order/17/sign-off~2");
        assert_eq!(
            escalation("b/o/pay~1~b2").unwrap(),
            "providers/b/executions/o/escalations/pay~1~b2"
        );
        for wrong in ["", "a", "b/o", "b/o/", "providers/b/executions/o"] {
            assert!(approval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_provider_means_all_of_them() {
        assert_eq!(parent(None).unwrap(), "providers/-");
        assert_eq!(parent(Some("shop")).unwrap(), "providers/shop");
        assert_eq!(parent(Some("providers/shop")).unwrap(), "providers/shop");
        assert!(parent(Some("Shop")).is_err());
    }
}
