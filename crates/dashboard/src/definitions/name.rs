//! A definition's name as a path: the API's name with a slash before it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::problem::Problem;

/// The definition that a path means. Its id stays encoded as the API has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefinitionPath {
    /// The API's name.
    pub(crate) name: String,
}

impl DefinitionPath {
    pub(crate) fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
        }
    }

    fn parse(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        let form = name.strip_suffix("/start");
        let action = name.rsplit_once("/do/").map(|(name, _)| name);
        // A definition may be called `start` itself.
        let found = [Some(name), form, action].into_iter().flatten();
        let mut found = found.filter(|name| is_whole(name));
        found.next().map(Self::of)
    }

    /// Where its page is.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The name of one of its revisions; of the current one when it is empty.
    pub(crate) fn revision(&self, revision: &str) -> String {
        if revision.is_empty() {
            self.name.clone()
        } else {
            format!("{}/revisions/{revision}", self.name)
        }
    }

    /// The provider, of one of an engine's own.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.name.strip_prefix("providers/")?.split('/').next()
    }

    /// The id for people: without its encoding.
    pub(crate) fn shown(&self) -> String {
        let id = self.name.rsplit('/').next().unwrap_or_default();
        // A plus is a plus in a path, but a blank in a form.
        let form = format!("i={}", id.replace('+', "%2B"));
        let decoded = form_urlencoded::parse(form.as_bytes()).next();
        decoded.map_or_else(|| id.to_owned(), |(_, id)| id.into_owned())
    }
}

fn is_whole(name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    match parts.as_slice() {
        ["definitions", id] => !id.is_empty(),
        ["providers", provider, "definitions", id] => !provider.is_empty() && !id.is_empty(),
        _ => false,
    }
}

impl<S: Sync> FromRequestParts<S> for DefinitionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.path()).ok_or_else(|| {
            Problem::not_found(
                "There is no such page.",
                "A definition is at /definitions/{name}.",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_name_mean_the_same() {
        for name in [
            "definitions/order-saga",
            "definitions/start",
            "providers/p/definitions/A%2Fb",
            "providers/p/definitions/start",
        ] {
            let parsed = DefinitionPath::parse(&format!("/{name}")).unwrap();
            assert_eq!(
                (parsed.name.as_str(), parsed.path()),
                (name, format!("/{name}"))
            );
            let form = DefinitionPath::parse(&format!("/{name}/start"));
            assert_eq!(form, Some(parsed));
        }
        let own = DefinitionPath::of("providers/p/definitions/A%2Fb");
        assert_eq!((own.provider(), own.shown()), (Some("p"), "A/b".to_owned()));
        assert_eq!(DefinitionPath::of("definitions/x").provider(), None);
        for wrong in [
            "/definitions",
            "/definitions/",
            "/providers/p/definitions",
            "/x/y",
        ] {
            assert_eq!(DefinitionPath::parse(wrong), None, "{wrong}");
        }
    }
}
