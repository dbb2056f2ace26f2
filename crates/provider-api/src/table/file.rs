//! The file form of a table, version 1. Unknown keys are refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use stateway_model::{MappingBasis, Reason, SubState};

use super::check::TableError;
use super::{Row, Scope};

/// A table as read, before it is checked.
pub(super) struct Parts {
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) qualifiers: BTreeMap<String, String>,
    pub(super) rows: Vec<Row>,
}

/// The only version there is.
const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    kind: String,
    title: String,
    summary: String,
    #[serde(default)]
    qualifiers: BTreeMap<String, String>,
    #[serde(default)]
    rows: Vec<FileRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    #[serde(default = "execution")]
    scope: Scope,
    native: String,
    #[serde(default)]
    when: BTreeMap<String, String>,
    sub_state: SubState,
    #[serde(default)]
    reason: Option<Reason>,
    terminal: bool,
    #[serde(default)]
    refine: bool,
    #[serde(default = "native")]
    basis: MappingBasis,
    source: String,
    #[serde(default)]
    note: String,
}

fn execution() -> Scope {
    Scope::Execution
}

fn native() -> MappingBasis {
    MappingBasis::Native
}

pub(super) fn read(text: &str) -> Result<Parts, TableError> {
    let file: File = toml::from_str(text).map_err(|error| TableError::Syntax(error.to_string()))?;
    if file.version != VERSION {
        return Err(TableError::Version {
            found: file.version,
            known: VERSION,
        });
    }
    Ok(Parts {
        kind: file.kind,
        title: file.title,
        summary: file.summary,
        qualifiers: file.qualifiers,
        rows: file.rows.into_iter().map(Row::from).collect(),
    })
}

impl From<FileRow> for Row {
    fn from(row: FileRow) -> Self {
        Self {
            scope: row.scope,
            native: row.native,
            when: row.when,
            sub_state: row.sub_state,
            reason: row.reason,
            terminal: row.terminal,
            refine: row.refine,
            basis: row.basis,
            source: row.source,
            note: row.note,
        }
    }
}
