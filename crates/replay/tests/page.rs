//! The tables in docs/state-machine.md are generated from the code and the vocabularies;
//! `cargo xtask docs` writes them.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::fmt::Write as _;

use stateway_machine::{VerbName, admitting_states};
use stateway_replay::{EXECUTION_MOVES, Machine, STEP_MOVES, Vocabulary, vocabularies};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-machine.md");

/// The text between two markers replaced.
fn replaced(page: &str, part: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- generated: {part} -->\n"),
        "<!-- end -->".to_owned(),
    );
    let from = page.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
    let to = from
        + page[from..]
            .find(&end)
            .unwrap_or_else(|| panic!("no end of {part}"));
    format!("{}\n{table}\n{}", &page[..from], &page[to..])
}

fn verbs() -> String {
    let mut table = String::from("| verb | considered in |\n|---|---|\n");
    for verb in VerbName::ALL {
        let states: Vec<_> = admitting_states(*verb)
            .iter()
            .map(|state| state.as_str())
            .collect();
        let states = if states.is_empty() {
            "before creation only".into()
        } else {
            states.join(", ")
        };
        writeln!(table, "| `{verb}` | {states} |").unwrap();
    }
    table
}

fn moves<S: std::fmt::Display>(rows: &[(S, &[S])]) -> String {
    let mut table = String::from("| from | to |\n|---|---|\n");
    for (from, to) in rows {
        let to: Vec<_> = to.iter().map(ToString::to_string).collect();
        let to = if to.is_empty() {
            "(terminal)".into()
        } else {
            to.join(", ")
        };
        writeln!(table, "| `{from}` | {to} |").unwrap();
    }
    table
}

fn outside(words: &Vocabulary) -> Vec<String> {
    fn of<S>(machine: &Machine<S>, what: &str, name: &str) -> Vec<String> {
        let rows = machine.outside.iter();
        rows.map(|row| {
            format!(
                "| `{name}` | {what} | {} → {} | {} |",
                row.from, row.to, row.why
            )
        })
        .collect()
    }
    let name = &words.name;
    let mut rows = of(&words.execution, "execution", name);
    if let Some(step) = &words.step {
        rows.extend(of(step, "step", name));
    }
    if let Some(why) = &words.execution.reopening {
        rows.push(format!(
            "| `{name}` | execution | any end → reopened | {why} |"
        ));
    }
    rows
}

fn summary(all: &[Vocabulary]) -> String {
    let mut table = String::from(
        "| vocabulary | used by | states | moves | forbidden | states of steps |\n|---|---|---|---|---|---|\n",
    );
    for words in all {
        let machine = &words.execution;
        let steps = words.step.as_ref().map_or(0, |step| step.state.len());
        writeln!(
            table,
            "| `{}` | {} | {} | {} | {} | {steps} |",
            words.name,
            words.system,
            machine.state.len(),
            machine.transition.len(),
            machine.forbidden.len()
        )
        .unwrap();
    }
    table
}

fn exceptions(all: &[Vocabulary]) -> String {
    let mut table = String::from("| vocabulary | of | move | reason |\n|---|---|---|---|\n");
    for row in all.iter().flat_map(outside) {
        writeln!(table, "{row}").unwrap();
    }
    table
}

#[test]
fn the_page_has_the_present_tables() {
    let all = vocabularies().unwrap();
    let page = std::fs::read_to_string(PAGE).unwrap();
    let current = [
        ("execution moves", moves(EXECUTION_MOVES)),
        ("step moves", moves(STEP_MOVES)),
        ("verbs", verbs()),
        ("vocabularies", summary(&all)),
        ("moves outside", exceptions(&all)),
    ]
    .iter()
    .fold(page.clone(), |page, (part, table)| {
        replaced(&page, part, table)
    });
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, &current).unwrap();
        return;
    }
    assert!(
        page == current,
        "docs/state-machine.md is not current; run `cargo xtask docs`"
    );
}
