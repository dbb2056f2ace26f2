//! What `--help` and docs/cli.md say.

use std::path::Path;

use clap::CommandFactory;
use stateway_cli::arguments::Arguments;
use stateway_cli::exit;
use stateway_provider_api::filter::{FIELDS, Filter};

use crate::binary::run;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_command_is_in_the_documentation() {
    let page = page();
    for command in Arguments::command().get_subcommands() {
        let nested: Vec<_> = command.get_subcommands().collect();
        if nested.is_empty() {
            let line = format!("`stateway {}", command.get_name());
            assert!(page.contains(&line), "{line} is missing");
        }
        for inner in nested {
            let line = format!("`stateway {} {}", command.get_name(), inner.get_name());
            assert!(page.contains(&line), "{line} is missing");
        }
    }
}

#[test]
fn what_every_command_prints_as_json_is_in_the_documentation() {
    let page = page();
    let section = page.split("\n## JSON\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let words = section.split(|symbol: char| !symbol.is_ascii_alphabetic() && symbol != '-');
    let words: std::collections::BTreeSet<_> = words.collect();
    for command in Arguments::command().get_subcommands() {
        let nested: Vec<_> = command.get_subcommands().collect();
        for name in nested
            .iter()
            .map(|it| it.get_name())
            .chain([command.get_name()])
        {
            assert!(words.contains(name), "{} {name}", command.get_name());
        }
    }
}

#[test]
fn every_exit_code_is_in_the_documentation_and_in_the_help() {
    let (page, help) = (page(), run(&["--help"]).exits(0).out);
    assert!(help.contains(exit::HELP), "{help}");
    for line in exit::HELP.lines().skip(1) {
        let code = line.split_whitespace().next().unwrap();
        assert!(
            page.contains(&format!("\n| {code} | ")),
            "exit code {code} is missing"
        );
    }
}

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in Arguments::command().get_subcommands() {
        if command.has_subcommands() {
            continue;
        }
        let help = run(&[command.get_name(), "--help"]).exits(0).out;
        let example = format!("  stateway {}", command.get_name());
        assert!(
            help.contains(&example),
            "{} has no example:\n{help}",
            command.get_name()
        );
    }
}

/// The terminal wraps a paragraph to its width. A line break inside of a paragraph would stay, and leave a ragged
/// text.
#[test]
fn every_paragraph_of_a_help_text_is_one_line() {
    fn check(command: &clap::Command) {
        let texts = [command.get_after_help(), command.get_long_about()];
        for text in texts.into_iter().flatten().map(ToString::to_string) {
            let paragraphs = text.split("\n\n");
            let prose = paragraphs.filter(|it| it.lines().all(|line| !line.starts_with(' ')));
            for paragraph in prose {
                let name = command.get_name();
                assert_eq!(paragraph.lines().count(), 1, "{name}: {paragraph}");
            }
        }
        command.get_subcommands().for_each(check);
    }
    check(&Arguments::command());
}

/// The part of docs/filters.md about executions. The tests of the gateway check the rest.
fn filters() -> &'static str {
    let page = include_str!("../../../../docs/filters.md");
    let rest = "\n## Fields of approvals and escalations\n";
    page.split_once(rest).expect("the section exists").0
}

/// The operators that the documentation lists for a field.
fn documented(field: &str) -> Vec<&'static str> {
    let name = format!("`{field}`");
    let row = filters().lines().find_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        cells.next()?.contains(&name).then(|| cells.next())?
    });
    let row = row.unwrap_or_else(|| panic!("{field} is missing"));
    row.split(' ').map(|it| it.trim_matches('`')).collect()
}

#[test]
fn the_documentation_lists_every_field_of_a_filter_with_its_operators() {
    for field in FIELDS.iter().copied().chain(["labels"]) {
        let value = match field {
            "sub_state" => "RUNNING",
            "reason" => "CANCELLED",
            "mapping_basis" => "NATIVE",
            "waits" => "*",
            "waits.kind" => "SIGNAL",
            field if field.ends_with("_time") => "2026-11-16T00:00:00Z",
            _ => "1",
        };
        let takes = |operator: &&str| {
            let name = field.replace("<key>", "tenant");
            Filter::parse(&format!("{name} {operator} {value}")).is_ok()
        };
        let operators = ["=", "!=", "<", "<=", ">", ">=", ":"].into_iter();
        let taken: Vec<_> = operators.filter(takes).collect();
        assert_eq!(documented(field), taken, "{field}");
    }
    assert!(run(&["list", "--help"]).out.contains("docs/filters.md"));
}

#[test]
fn every_filter_in_the_documentation_is_one() {
    let blocks: Vec<_> = filters().split("```filter\n").skip(1).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        for example in block.split("\n```").next().unwrap().lines() {
            assert!(Filter::parse(example).is_ok(), "{example}");
        }
    }
    let explained = "labels.team = a AND (sub_state = ERROR OR sub_state = FAILED)";
    let short = "labels.team = a AND sub_state = ERROR OR sub_state = FAILED";
    assert!(filters().contains(explained) && filters().contains(short));
    assert_eq!(
        Filter::parse(short).unwrap(),
        Filter::parse(explained).unwrap()
    );
}

#[test]
fn nonsense_is_a_mistake() {
    run(&["fly"]).exits(2);
    run(&[]).exits(2);
    run(&["get"]).exits(2);
    run(&["get", "memory/a", "-o", "yaml"]).exits(2);
    run(&["get", "memory/a", "--timeout", "5"]).exits(2);
}
