//! Which definition a filter asks for: `definition = …`.

use stateway_model::{DefinitionName, DefinitionParts, ProviderId};

use super::Pattern;

/// A definition by its full name, or by a short name as lists show it.
///
/// ```
/// use stateway_provider_api::filter::DefinitionPattern;
/// let short = DefinitionPattern::new("order-saga");
/// assert!(short.admits("definitions/order-saga"));
/// assert!(short.admits("providers/shop/definitions/order-saga"));
/// assert!(DefinitionPattern::new("shop/flaky").admits("providers/shop/definitions/flaky"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DefinitionPattern {
    /// `definitions/{id}` or `providers/{provider}/definitions/{id}`: this definition only.
    Full(DefinitionName),
    /// `{id}`: every definition with this id, portable or an engine's own. `{provider}/{id}`: that
    /// provider's own.
    Short(String),
    /// A text with `*`: every definition whose full name, `{id}` or `{provider}/{id}` matches. Never part of
    /// hints.
    Wildcard(Pattern),
}

impl DefinitionPattern {
    /// The pattern that a filter's value means.
    #[must_use]
    pub fn new(value: &str) -> Self {
        let pattern = Pattern::new(value);
        let Some(text) = pattern.literal() else {
            return Self::Wildcard(pattern);
        };
        match text.parse() {
            Ok(name) => Self::Full(name),
            Err(_) => Self::Short(text.to_owned()),
        }
    }

    /// Whether it names no definition in particular.
    #[must_use]
    pub const fn has_wildcard(&self) -> bool {
        matches!(self, Self::Wildcard(_))
    }

    /// Whether an execution of this definition, by its full name, passes.
    #[must_use]
    pub fn admits(&self, definition: &str) -> bool {
        self.admits_named(&NamedDefinition::new(definition))
    }

    /// The same as [`admits`](Self::admits), for a name that is compared with several patterns.
    #[must_use]
    pub fn admits_named(&self, definition: &NamedDefinition<'_>) -> bool {
        let Some(DefinitionParts { provider, id }) = &definition.parts else {
            return match self {
                Self::Full(_) => false,
                // An engine that does not show definitions: the text is all there is.
                Self::Short(wanted) => wanted == definition.text,
                Self::Wildcard(pattern) => pattern.matches(definition.text),
            };
        };
        match self {
            Self::Full(wanted) => {
                *wanted.id == **id && wanted.provider.as_ref().map(ProviderId::as_str) == *provider
            }
            Self::Short(wanted) => {
                wanted == id || provider.is_some_and(|of| belongs_to(wanted, of) == Some(id))
            }
            Self::Wildcard(pattern) => {
                pattern.matches(definition.text)
                    || pattern.matches(id)
                    || provider.is_some_and(|of| pattern.matches(&format!("{of}/{id}")))
            }
        }
    }

    /// The id that a portable definition must have to pass; `None` when no portable one can pass.
    #[must_use]
    pub fn portable_id(&self) -> Option<&str> {
        match self {
            Self::Full(name) => name.provider.is_none().then_some(&*name.id),
            Self::Short(wanted) => Some(wanted),
            Self::Wildcard(_) => None,
        }
    }

    /// The ids that a definition of this provider's own may have to pass; none when none can pass.
    pub fn native_ids<'p>(&'p self, provider: &ProviderId) -> impl Iterator<Item = &'p str> {
        let (first, second) = match self {
            Self::Full(name) if name.provider.as_ref() == Some(provider) => (Some(&*name.id), None),
            Self::Full(_) | Self::Wildcard(_) => (None, None),
            Self::Short(wanted) => (Some(wanted.as_str()), belongs_to(wanted, provider.as_str())),
        };
        first.into_iter().chain(second)
    }
}

/// The full name of a definition, taken apart once for all patterns that it is compared with.
#[derive(Debug, Clone)]
pub struct NamedDefinition<'n> {
    text: &'n str,
    /// None if the text is no name of a definition.
    parts: Option<DefinitionParts<'n>>,
}

impl<'n> NamedDefinition<'n> {
    /// The definition behind a text.
    #[must_use]
    pub fn new(text: &'n str) -> Self {
        let parts = DefinitionParts::of(text).ok();
        Self { text, parts }
    }

    /// Whether there is no definition.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// The id in `{provider}/{id}`.
fn belongs_to<'t>(short: &'t str, provider: &str) -> Option<&'t str> {
    short.strip_prefix(provider)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Definitions that differ in kind, in provider and in id.
    const DEFINITIONS: [&str; 6] = [
        "definitions/order",
        "definitions/order-saga",
        "providers/shop/definitions/order",
        "providers/other/definitions/order",
        "providers/shop/definitions/Order%2Frun",
        "",
    ];

    fn admitted(value: &str) -> Vec<&'static str> {
        let pattern = DefinitionPattern::new(value);
        let admitted = DEFINITIONS.into_iter();
        admitted.filter(|name| pattern.admits(name)).collect()
    }

    #[test]
    fn a_full_name_admits_that_definition_only() {
        for name in &DEFINITIONS[..5] {
            assert_eq!(admitted(name), [*name]);
        }
    }

    #[test]
    fn a_short_name_admits_every_definition_with_this_id() {
        let expected = [
            "definitions/order",
            "providers/shop/definitions/order",
            "providers/other/definitions/order",
        ];
        assert_eq!(admitted("order"), expected);
        assert_eq!(
            admitted("Order/run"),
            ["providers/shop/definitions/Order%2Frun"]
        );
        assert_eq!(admitted("orde"), [""; 0]);
        assert_eq!(admitted(""), [""]);
    }

    #[test]
    fn a_name_as_lists_show_it_admits_that_providers_own() {
        assert_eq!(admitted("shop/order"), ["providers/shop/definitions/order"]);
        assert_eq!(
            admitted("shop/Order/run"),
            ["providers/shop/definitions/Order%2Frun"]
        );
    }

    #[test]
    fn a_wildcard_is_tried_on_every_form_of_the_name() {
        let own = [
            "providers/shop/definitions/order",
            "providers/shop/definitions/Order%2Frun",
        ];
        assert_eq!(admitted("shop/*"), own);
        assert_eq!(admitted("shop/o*"), own[..1]);
        assert_eq!(admitted("providers/shop/*"), own);
        assert_eq!(admitted("order-*"), ["definitions/order-saga"]);
        assert_eq!(admitted("definitions/*").len(), 2);
        assert_eq!(admitted(r"shop/\*"), [""; 0]);
    }

    #[test]
    fn what_is_narrowed_admits_all_that_the_pattern_admits() {
        let providers: [ProviderId; 2] = ["shop", "other"].map(|id| id.parse().unwrap());
        let values = DEFINITIONS.into_iter().chain([
            "order",
            "order-saga",
            "shop/order",
            "other/order",
            "Order/run",
            "shop/Order/run",
            "nobody",
        ]);
        for value in values {
            let pattern = DefinitionPattern::new(value);
            for name in DEFINITIONS.into_iter().filter(|name| pattern.admits(name)) {
                let Ok(name) = name.parse::<DefinitionName>() else {
                    continue;
                };
                let narrowed = match &name.provider {
                    None => pattern.portable_id() == Some(&*name.id),
                    Some(of) => {
                        let of = providers.iter().find(|provider| *provider == of);
                        let mut ids = pattern.native_ids(of.unwrap());
                        ids.any(|id| *id == *name.id)
                    }
                };
                assert!(narrowed, "`{value}` admits {name}, which is left out");
            }
        }
    }
}
