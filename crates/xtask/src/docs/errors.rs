//! docs/reference/errors.md: every reason of an error. The names are compared with the texts in UPPER_SNAKE_CASE
//! in the source; codes, meanings and advice come from data/errors.toml.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use toml::{Table, Value};

use super::page::with_part;
use super::source::{Source, product, read};

pub(super) const PAGE: &str = "docs/reference/errors.md";
const WORDS: &str = include_str!("../../data/errors.toml");

/// Crates whose texts in UPPER_SNAKE_CASE are no reasons: they show what the gateway answers.
const SHOWING: [&str; 2] = ["cli", "dashboard"];
/// The reasons of sub-states, which the reference of the API lists.
const SUB_STATE_REASONS: &str = "crates/model/src/reason.rs";
/// A shorter word is no reason.
const SHORTEST: usize = 4;

/// Which crates contain a text.
type Found = BTreeMap<String, BTreeSet<String>>;

pub(super) fn current() -> Result<String, String> {
    let mut found = Found::new();
    for source in product()? {
        collect(&source, &mut found);
    }
    let words: Table = toml::from_str(WORDS).map_err(|error| format!("errors.toml: {error}"))?;
    complete(&words, &found)?;
    let mut page = read(PAGE)?;
    for (part, heading) in [
        ("reasons", "reason | gRPC code | from"),
        ("worker", "reason | message"),
        ("failures", "code | category"),
    ] {
        let rows = rows(&words, part, heading, &found)?;
        page = with_part(&page, part, &rows)?;
    }
    Ok(page)
}

fn collect(source: &Source, found: &mut Found) {
    if SHOWING.contains(&source.package.as_str()) || source.path == SUB_STATE_REASONS {
        return;
    }
    let lines = source.text.lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    for text in code.flat_map(|line| line.split('"')) {
        let is_reason = text.len() >= SHORTEST
            && text.starts_with(|first: char| first.is_ascii_uppercase())
            && !text.ends_with('_')
            && text
                .chars()
                .all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
        if is_reason {
            let packages = found.entry(text.to_owned()).or_default();
            packages.insert(source.package.clone());
        }
    }
}

/// Every text with an underscore is explained, and every explained one is in the source.
fn complete(words: &Table, found: &Found) -> Result<(), String> {
    let mut explained = BTreeSet::new();
    for part in ["reasons", "worker", "failures"] {
        explained.extend(part_of(words, part)?.keys().cloned());
    }
    let ignored = words.get("ignored").and_then(|it| it.get("names"));
    let ignored = ignored.and_then(Value::as_array).into_iter().flatten();
    explained.extend(ignored.filter_map(Value::as_str).map(ToOwned::to_owned));
    let unexplained = found
        .keys()
        .find(|name| name.contains('_') && !explained.contains(*name));
    if let Some(name) = unexplained {
        return Err(format!(
            "`{name}` is in the source but not in crates/xtask/data/errors.toml: explain it there, or list it under \
             `ignored` if it is no reason of an error"
        ));
    }
    match explained.iter().find(|name| !found.contains_key(*name)) {
        Some(name) => Err(format!("errors.toml: no source file has `{name}`")),
        None => Ok(()),
    }
}

fn part_of<'w>(words: &'w Table, part: &str) -> Result<&'w Table, String> {
    let table = words.get(part).and_then(Value::as_table);
    table.ok_or_else(|| format!("errors.toml: no table [{part}]"))
}

fn rows(words: &Table, part: &str, heading: &str, found: &Found) -> Result<String, String> {
    let columns = heading.split(" | ").count();
    let mut rows = format!(
        "| {heading} | meaning | what to do |\n|{}\n",
        "---|".repeat(columns + 2)
    );
    for (name, value) in part_of(words, part)? {
        let texts: Vec<_> = value.as_array().into_iter().flatten().collect();
        let texts: Vec<_> = texts.iter().filter_map(|text| text.as_str()).collect();
        let [first, meaning, advice] = texts.as_slice() else {
            return Err(format!("errors.toml: `{name}` must have three texts"));
        };
        let origin = match found.get(name) {
            Some(packages) if columns == 3 => format!(" {} |", origin(packages)),
            _ => String::new(),
        };
        writeln!(
            rows,
            "| `{name}` | {first} |{origin} {meaning} | {advice} |"
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(rows)
}

/// What answers with a reason, as far as one part alone has it.
fn origin(packages: &BTreeSet<String>) -> String {
    let parts: BTreeSet<_> = packages.iter().map(|package| part(package)).collect();
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next()) {
        (Some(only), None) => only.to_owned(),
        _ => "any".to_owned(),
    }
}

fn part(package: &str) -> &str {
    match package {
        "engine" | "machine" | "provider-builtin" => "built-in engine",
        "model" | "provider-api" => "any",
        other => other.strip_prefix("provider-").unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(package: &str, text: &str) -> Source {
        Source {
            package: package.to_owned(),
            path: format!("crates/{package}/src/x.rs"),
            text: text.to_owned(),
        }
    }

    fn found(text: &str) -> Found {
        let mut found = Found::new();
        collect(&source("engine", text), &mut found);
        found
    }

    #[test]
    fn the_page_is_current() {
        let current = current().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            read(PAGE).is_ok_and(|page| page == current),
            "{PAGE} is not current; run `cargo xtask docs`"
        );
    }

    #[test]
    fn only_quoted_texts_of_code_count() {
        let text = "// \"IN_COMMENT\"\nconst A: &str = \"A_REASON\";\nlet b = (Kind, \"ESCALATED\", \"Not_One\");";
        let names: Vec<_> = found(text).into_keys().collect();
        assert_eq!(names, ["A_REASON", "ESCALATED"]);
    }

    #[test]
    fn a_reason_without_an_explanation_is_an_error_and_so_is_the_reverse() {
        let words = "[reasons]\nONE_A = [\"c\", \"m\", \"a\"]\n[worker]\n[failures]\n[ignored]\nnames = [\"ONE_B\"]";
        let words: Table = toml::from_str(words).expect("TOML");
        assert_eq!(complete(&words, &found("\"ONE_A\" \"ONE_B\"")), Ok(()));
        let unexplained = complete(&words, &found("\"ONE_A\" \"ONE_B\" \"ONE_C\""));
        assert!(unexplained.is_err_and(|error| error.contains("`ONE_C`")));
        let absent = complete(&words, &found("\"ONE_B\""));
        assert!(absent.is_err_and(|error| error.contains("`ONE_A`")));
    }

    #[test]
    fn a_reason_of_one_adapter_names_it() {
        let only = BTreeSet::from(["provider-restate".to_owned()]);
        assert_eq!(origin(&only), "restate");
        let several = BTreeSet::from(["gateway".to_owned(), "provider-restate".to_owned()]);
        assert_eq!(origin(&several), "any");
    }
}
