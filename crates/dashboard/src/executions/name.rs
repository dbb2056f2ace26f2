//! An execution's name as a path: `providers/p/executions/id` is at `/executions/p/id`.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::problem::Problem;

/// The execution that a path means. Its id stays encoded as the API has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionPath {
    pub(crate) provider: String,
    id: String,
}

impl ExecutionPath {
    fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix("/executions/")?.split('/');
        let provider = segments.next().filter(|text| !text.is_empty())?;
        let id = segments.next().filter(|text| !text.is_empty())?;
        Some(Self {
            provider: provider.to_owned(),
            id: id.to_owned(),
        })
    }

    /// The execution of an [`address`].
    pub(crate) fn at(address: &str) -> Option<Self> {
        Self::parse(&format!("/executions/{address}"))
    }

    /// The API's name.
    pub(crate) fn name(&self) -> String {
        format!("providers/{}/executions/{}", self.provider, self.id)
    }

    /// Where its page is.
    pub(crate) fn path(&self) -> String {
        format!("/executions/{}/{}", self.provider, self.id)
    }
}

impl<S: Sync> FromRequestParts<S> for ExecutionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.path()).ok_or_else(|| {
            Problem::not_found(
                "There is no such page.",
                "An execution is at /executions/{provider}/{id}.",
            )
        })
    }
}

/// Where the page of an execution is, by the API's name.
pub(crate) fn path_of(name: &str) -> String {
    let (provider, id) = split(name);
    format!("/executions/{provider}/{id}")
}

/// An execution in the fields of an address, shorter than its name: `p/id`.
pub(crate) fn address(name: &str) -> String {
    let (provider, id) = split(name);
    format!("{provider}/{id}")
}

/// The name on the command line: `p/id`, with the id as people write it.
pub(crate) fn short_name(name: &str) -> String {
    let (provider, id) = shown(name);
    format!("{provider}/{id}")
}

/// Provider and id for people: the id without its encoding.
pub(crate) fn shown(name: &str) -> (&str, String) {
    let (provider, id) = split(name);
    // A plus is a plus in a path, but a blank in a form.
    let form = format!("i={}", id.replace('+', "%2B"));
    let decoded = form_urlencoded::parse(form.as_bytes()).next();
    let id = decoded.map_or_else(|| id.to_owned(), |(_, id)| id.into_owned());
    (provider, id)
}

fn split(name: &str) -> (&str, &str) {
    let rest = name.strip_prefix("providers/").unwrap_or(name);
    rest.split_once("/executions/").unwrap_or((rest, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_name_mean_the_same() {
        let name = "providers/shop/executions/Order%2F17%3Fa";
        let path = path_of(name);
        assert_eq!(path, "/executions/shop/Order%2F17%3Fa");
        let parsed = ExecutionPath::parse(&format!("{path}/cancel")).unwrap();
        assert_eq!((parsed.name(), parsed.path()), (name.to_owned(), path));
        assert_eq!(shown(name), ("shop", "Order/17?a".to_owned()));
        assert_eq!(short_name(name), "shop/Order/17?a");
        assert_eq!(ExecutionPath::at(&address(name)).unwrap().name(), name);
        assert_eq!(ExecutionPath::parse("/executions/shop"), None);
    }
}
