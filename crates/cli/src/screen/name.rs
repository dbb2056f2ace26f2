//! Names in the short form that every command takes.

use stateway_model::{DefinitionName, ExecutionName};

/// `provider/id`.
#[must_use]
pub fn short_name(full: &str) -> String {
    match full.parse::<ExecutionName>() {
        Ok(name) => format!("{}/{}", name.provider, name.id),
        Err(_) => full.to_owned(),
    }
}

/// `provider/definition`; a portable definition keeps its full name.
#[must_use]
pub fn short_definition(full: &str) -> String {
    match full.parse::<DefinitionName>() {
        Ok(DefinitionName {
            provider: Some(provider),
            id,
        }) => format!("{provider}/{id}"),
        _ => full.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource;

    #[test]
    fn what_is_shown_can_be_typed() {
        let full = "providers/shop/executions/Order%2F17";
        assert_eq!(short_name(full), "shop/Order/17");
        assert_eq!(resource::execution(&short_name(full)).unwrap(), full);
        let full = "providers/shop/definitions/Order%2Frun";
        assert_eq!(short_definition(full), "shop/Order/run");
        assert_eq!(
            resource::definition(&short_definition(full), None)
                .unwrap()
                .definition,
            full
        );
        assert_eq!(short_definition("definitions/saga"), "definitions/saga");
    }
}
