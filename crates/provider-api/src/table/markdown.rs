//! A table as documentation: what a provider's page shows between its markers.

use std::fmt::Write;

use super::{Row, Scope, Table};

/// The table's part of the provider's documentation page.
#[must_use]
pub fn markdown(table: &Table) -> String {
    let mut page = String::new();
    let sections = [(Scope::Execution, "Executions"), (Scope::Step, "Steps")];
    for (scope, heading) in sections {
        let rows: Vec<&Row> = table
            .rows()
            .iter()
            .filter(|row| row.scope == scope)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(page, "### {heading}\n");
        page.push_str("| native state | when | sub-state | reason | final | source | note |\n");
        page.push_str("|---|---|---|---|---|---|---|\n");
        for row in rows {
            line(&mut page, row);
        }
        page.push('\n');
    }
    if !table.qualifiers.is_empty() {
        page.push_str("### Qualifiers\n\n| name | where it comes from |\n|---|---|\n");
        for (name, origin) in &table.qualifiers {
            let _ = writeln!(page, "| `{name}` | {} |", cell(origin));
        }
        page.push('\n');
    }
    page.push_str(
        "A state marked * is the default for the native state; open steps, attempts and waits \
         can change it.\nA native state that is in no row shows as `running` with basis `DEFAULTED`.\n",
    );
    page
}

fn line(page: &mut String, row: &Row) {
    let when: Vec<_> = row
        .when
        .iter()
        .map(|(name, value)| format!("`{name}` = `{value}`"))
        .collect();
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "| `{}` | {} | {}{} | {} | {} | {} | {} |",
        cell(&row.native),
        cell(&when.join(", ")),
        row.sub_state,
        if row.refine { " *" } else { "" },
        row.reason
            .map(|reason| reason.to_string())
            .unwrap_or_default(),
        if row.terminal { "yes" } else { "" },
        cell(&row.source),
        cell(&row.note),
    );
}

fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
