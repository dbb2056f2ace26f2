//! The fields of a query or of a submitted form: names and values, in order, nothing typed.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The most fields that are read; the rest is left.
const MOST: usize = 200;

/// What was typed or clicked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads what a browser encodes.
    pub(crate) fn parse(encoded: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(encoded).into_owned();
        Self(pairs.take(MOST).collect())
    }

    /// The trimmed value of a field; empty if the form has no such field.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The unchanged value of a field; empty if the form has no such field.
    pub(crate) fn raw(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// The values of every field of this name, in order.
    pub(crate) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let found = self.0.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Every field with its value, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether the form has the field.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }
}

impl<S: Sync> FromRequestParts<S> for Fields {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(
            parts.uri.query().unwrap_or_default().as_bytes(),
        ))
    }
}

/// A path with a query; fields without a value are left out.
pub(crate) fn link(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_back_as_it_was_meant() {
        let link = link("/executions", &[("filter", "a = \"b&c\" ü"), ("page", "")]);
        let (path, query) = link.split_once('?').unwrap();
        assert_eq!(path, "/executions");
        assert_eq!(
            Fields::parse(query.as_bytes()).get("filter"),
            "a = \"b&c\" ü"
        );
    }
}
