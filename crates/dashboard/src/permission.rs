//! Buttons that the access rules refuse.

use maud::{Markup, html};

/// A button that cannot be pressed, with the permission that is missing.
pub(crate) fn refused(title: &str, permission: &str) -> Markup {
    html! {
        button disabled title=(reason(permission)) {
            (title) span.hidden { ". " (reason(permission)) }
        }
    }
}

/// Why a visitor may not do something.
pub(crate) fn reason(permission: &str) -> String {
    format!("No access rule gives you the permission \u{201c}{permission}\u{201d} for this.")
}

/// The id of the provider in the name of a resource.
pub(crate) fn provider_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("providers/")?;
    rest.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_the_second_part_of_a_name() {
        assert_eq!(provider_of("providers/b/executions/17"), Some("b"));
        assert_eq!(provider_of("definitions/order"), None);
    }
}
