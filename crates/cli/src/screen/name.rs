//! Names in the short form that every command takes.

use stateway_model::{DefinitionName, ExecutionName};
use stateway_phrases::visible;

use crate::view::Text;

/// `provider/id`. An id that cannot be shown as it is keeps its full name, where it is encoded.
#[must_use]
pub fn short_name(full: &Text) -> String {
    match full.raw().parse::<ExecutionName>() {
        Ok(name) => short(format!("{}/{}", name.provider, name.id), full),
        Err(_) => full.to_string(),
    }
}

/// `provider/definition`; a portable definition keeps its full name.
#[must_use]
pub fn short_definition(full: &Text) -> String {
    match full.raw().parse::<DefinitionName>() {
        Ok(DefinitionName {
            provider: Some(provider),
            id,
        }) => short(format!("{provider}/{id}"), full),
        _ => full.to_string(),
    }
}

/// The number at the end of a branch's full name.
#[must_use]
pub fn branch_number(full: &Text) -> String {
    let number = full.raw().rsplit('/').next().unwrap_or_default();
    visible(number).into_owned()
}

fn short(short: String, full: &Text) -> String {
    if visible(&short) == short {
        short
    } else {
        full.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource;

    #[test]
    fn what_is_shown_can_be_typed() {
        let full = "providers/shop/executions/Order%2F17";
        assert_eq!(short_name(&full.into()), "shop/Order/17");
        assert_eq!(
            resource::execution(&short_name(&full.into())).unwrap(),
            full
        );
        let full = "providers/shop/definitions/Order%2Frun";
        assert_eq!(short_definition(&full.into()), "shop/Order/run");
        assert_eq!(
            resource::definition(&short_definition(&full.into()), None)
                .unwrap()
                .definition,
            full
        );
        assert_eq!(
            short_definition(&"definitions/saga".into()),
            "definitions/saga"
        );
    }

    #[test]
    fn an_id_that_would_act_on_the_terminal_is_shown_encoded() {
        let full = "providers/shop/executions/a%0A%1B%5B2J";
        assert_eq!(short_name(&full.into()), full);
        assert_eq!(short_name(&"a\n\u{1b}".into()), "a\\n\\u{1b}");
    }
}
