//! The rules of a good table.

use std::collections::HashMap;

use stateway_model::MappingBasis;
use thiserror::Error;

use super::file::Parts;
use super::{Row, Table};

/// Why a text is not a state table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// Not TOML, an unknown key, or a word that is not in its list; with line and column.
    #[error("{0}")]
    Syntax(String),
    /// A version this build does not know.
    #[error("table version {found} is not known; this build reads version {known}")]
    Version {
        /// What the file says.
        found: u32,
        /// What would do.
        known: u32,
    },
    /// An overlay for another kind of provider.
    #[error("a table of kind `{kind}` cannot overlay a table of kind `{expected}`")]
    OtherKind {
        /// The overlay's.
        kind: String,
        /// The base's.
        expected: String,
    },
    /// A table without rows says nothing.
    #[error("a table needs at least one row")]
    Empty,
    /// A row breaks a rule.
    #[error("row {position} ({label}): {rule}")]
    Row {
        /// From 1, in the order of the file.
        position: usize,
        /// The row's state and qualifiers.
        label: String,
        /// The rule.
        rule: String,
    },
    /// Two rows could both hold, and neither is more qualified.
    #[error("rows {first} and {second} ({label}) can both match, and neither is more specific")]
    Ambiguous {
        /// From 1.
        first: usize,
        /// From 1.
        second: usize,
        /// The later row's state and qualifiers.
        label: String,
    },
}

pub(super) fn checked(parts: Parts) -> Result<Table, TableError> {
    if parts.rows.is_empty() {
        return Err(TableError::Empty);
    }
    for (index, row) in parts.rows.iter().enumerate() {
        if let Some(rule) = broken_rule(row, &parts) {
            return Err(TableError::Row {
                position: index + 1,
                label: row.label(),
                rule,
            });
        }
    }
    find_ambiguity(&parts.rows)?;

    let mut by_state = HashMap::<_, Vec<usize>>::new();
    for (position, row) in parts.rows.iter().enumerate() {
        by_state
            .entry(row.native.clone())
            .or_default()
            .push(position);
    }
    for positions in by_state.values_mut() {
        positions.sort_by_key(|position| std::cmp::Reverse(parts.rows[*position].when.len()));
    }
    Ok(Table {
        kind: parts.kind,
        title: parts.title,
        summary: parts.summary,
        qualifiers: parts.qualifiers,
        rows: parts.rows,
        by_state,
    })
}

fn broken_rule(row: &Row, parts: &Parts) -> Option<String> {
    if row.native.is_empty() {
        return Some("`native` is empty".into());
    }
    if row.source.is_empty() {
        return Some("`source` is empty: name the source of the row".into());
    }
    if row.terminal != row.sub_state.is_terminal() {
        return Some(format!(
            "`terminal = {}` does not fit {}",
            row.terminal, row.sub_state
        ));
    }
    if row.refine && row.terminal {
        return Some("a terminal state cannot be refined".into());
    }
    if row.basis == MappingBasis::Defaulted {
        return Some("DEFAULTED is for states that are in no table".into());
    }
    let undeclared = row
        .when
        .keys()
        .find(|name| !parts.qualifiers.contains_key(*name));
    undeclared.map(|name| format!("qualifier `{name}` is not declared under [qualifiers]"))
}

fn find_ambiguity(rows: &[Row]) -> Result<(), TableError> {
    for (second, row) in rows.iter().enumerate() {
        for (first, earlier) in rows[..second].iter().enumerate() {
            if may_both_hold(earlier, row) {
                let label = row.label();
                return Err(TableError::Ambiguous {
                    first: first + 1,
                    second: second + 1,
                    label,
                });
            }
        }
    }
    Ok(())
}

/// Equally qualified rows of one state are distinguished by a qualifier that both name with
/// different values.
fn may_both_hold(a: &Row, b: &Row) -> bool {
    let told_apart = |name: &String, value: &String| b.when.get(name).is_some_and(|b| b != value);
    a.scope == b.scope
        && a.native == b.native
        && a.when.len() == b.when.len()
        && !a.when.iter().any(|(name, value)| told_apart(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = 1\nkind = \"k\"\ntitle = \"K\"\nsummary = \"s\"\n";

    fn error(rest: &str) -> String {
        Table::parse(&format!("{HEAD}{rest}"))
            .unwrap_err()
            .to_string()
    }

    fn row(fields: &str) -> String {
        format!("[[rows]]\nsource = \"seen\"\n{fields}\n")
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let text = error(&row(
            "native = \"a\"\nsub_state = \"running\"\nterminal = false\nx = 1",
        ));
        assert!(
            text.contains("line 10") && text.contains("unknown field `x`"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_sub_state_is_refused_naming_the_six() {
        let text = error(&row(
            "native = \"a\"\nsub_state = \"done\"\nterminal = false",
        ));
        assert!(text.contains("backing-off"), "{text}");
    }

    #[test]
    fn terminal_must_fit_the_sub_state() {
        let text = error(&row(
            "native = \"a\"\nsub_state = \"failed\"\nterminal = false",
        ));
        assert_eq!(text, "row 1 (a): `terminal = false` does not fit failed");
    }

    #[test]
    fn a_terminal_state_cannot_be_refined() {
        let fields = "native = \"a\"\nsub_state = \"failed\"\nterminal = true\nrefine = true";
        assert_eq!(
            error(&row(fields)),
            "row 1 (a): a terminal state cannot be refined"
        );
    }

    #[test]
    fn qualifiers_must_be_declared() {
        let fields =
            "native = \"a\"\nwhen = { q = \"1\" }\nsub_state = \"running\"\nterminal = false";
        assert!(error(&row(fields)).contains("`q` is not declared"));
    }

    #[test]
    fn two_rows_that_could_both_hold_are_refused() {
        let qualified = |when: &str| {
            row(&format!(
                "native = \"a\"\nwhen = {{ {when} }}\nsub_state = \"running\"\nterminal = false"
            ))
        };
        let declared = "[qualifiers]\nq = \"\"\nr = \"\"\n";
        let both = [qualified("q = \"1\""), qualified("r = \"1\"")].concat();
        assert!(error(&format!("{declared}{both}")).contains("rows 1 and 2"));
        let apart = [qualified("q = \"1\""), qualified("q = \"2\"")].concat();
        assert!(Table::parse(&format!("{HEAD}{declared}{apart}")).is_ok());
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let text = HEAD.replace('1', "2");
        let error = Table::parse(&text).unwrap_err().to_string();
        assert_eq!(
            error,
            "table version 2 is not known; this build reads version 1"
        );
    }

    #[test]
    fn an_empty_table_is_refused() {
        assert_eq!(Table::parse(HEAD).unwrap_err(), TableError::Empty);
    }
}
