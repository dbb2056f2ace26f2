//! State tables as text.

use stateway_model::MappingBasis;
use stateway_provider_api::Table;
use stateway_provider_api::table::{Row, Scope};
use toml::Value;

/// The table as TOML, in the format of `provider-tables/`. Reading it gives the same table.
#[must_use]
pub fn table_text(table: &Table) -> String {
    let mut file = toml::Table::new();
    file.insert("version".into(), 1.into());
    file.insert("kind".into(), table.kind.clone().into());
    file.insert("title".into(), table.title.clone().into());
    file.insert("summary".into(), table.summary.clone().into());
    let qualifiers = table.qualifiers.iter();
    let qualifiers = qualifiers.map(|(name, from)| (name.clone(), Value::from(from.clone())));
    file.insert("qualifiers".into(), Value::Table(qualifiers.collect()));
    let rows = table.rows().iter().map(row).map(Value::Table).collect();
    file.insert("rows".into(), Value::Array(rows));
    file.to_string()
}

fn row(row: &Row) -> toml::Table {
    let mut file = toml::Table::new();
    if row.scope == Scope::Step {
        file.insert("scope".into(), row.scope.as_str().into());
    }
    file.insert("native".into(), row.native.clone().into());
    let when = row.when.iter();
    let when = when.map(|(name, value)| (name.clone(), Value::from(value.clone())));
    file.insert("when".into(), Value::Table(when.collect()));
    file.insert("sub_state".into(), row.sub_state.as_str().into());
    if let Some(reason) = row.reason {
        file.insert("reason".into(), reason.as_str().into());
    }
    file.insert("terminal".into(), row.terminal.into());
    file.insert("refine".into(), row.refine.into());
    if row.basis != MappingBasis::Native {
        file.insert("basis".into(), row.basis.as_str().into());
    }
    file.insert("source".into(), row.source.clone().into());
    file.insert("note".into(), row.note.clone().into());
    file
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::table::{COMPILED_IN, compiled_in};

    use super::*;

    #[test]
    fn every_table_comes_back_as_it_was() {
        for (kind, _) in COMPILED_IN {
            let table = compiled_in(kind).unwrap();
            let text = table_text(&table);
            assert_eq!(Table::parse(&text).as_ref(), Ok(&*table), "{kind}");
            assert!(text.len() < crate::MAX_TABLE_BYTES, "{kind}");
        }
    }
}
