//! docs/reference/metrics.md: every metric, with kind and labels from the source and a meaning from data/metrics.toml.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::Table;

use super::page::with_part;
use super::source::{Source, product, read};

pub(super) const PAGE: &str = "docs/reference/metrics.md";
const WORDS: &str = include_str!("../../data/metrics.toml");

/// A metric as the source records it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) kind: &'static str,
    pub(super) labels: Vec<String>,
}

/// Every metric of the product, by its name.
pub(super) fn recorded() -> Result<BTreeMap<String, Metric>, String> {
    let mut recorded = BTreeMap::new();
    for source in product()? {
        collect(&source, &mut recorded)?;
    }
    Ok(recorded)
}

pub(super) fn current() -> Result<String, String> {
    let mut recorded = recorded()?;
    let words: Table = toml::from_str(WORDS).map_err(|error| format!("metrics.toml: {error}"))?;
    let mut page = read(PAGE)?;
    for part in ["gateway", "engine"] {
        let words = words.get(part).and_then(toml::Value::as_table);
        let words = words.ok_or_else(|| format!("metrics.toml: no table [{part}]"))?;
        page = with_part(&page, part, &table(words, &mut recorded)?)?;
    }
    match recorded.first_key_value() {
        None => Ok(page),
        Some((name, _)) => Err(format!(
            "the metric `{name}` has no meaning: add it to crates/xtask/data/metrics.toml"
        )),
    }
}

/// The rows of the metrics in `words`, which are taken from `recorded`.
fn table(words: &Table, recorded: &mut BTreeMap<String, Metric>) -> Result<String, String> {
    let mut rows = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
    for (name, meaning) in words {
        let metric = recorded
            .remove(name)
            .ok_or_else(|| format!("metrics.toml: no source file records `{name}`"))?;
        let meaning = meaning
            .as_str()
            .ok_or_else(|| format!("metrics.toml: the meaning of `{name}` is not a text"))?;
        let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let labels = labels.join(", ");
        writeln!(
            rows,
            "| `{name}` | {} | {labels} | {meaning} |",
            metric.kind
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(rows)
}

/// Adds the metrics of one file.
fn collect(source: &Source, recorded: &mut BTreeMap<String, Metric>) -> Result<(), String> {
    for kind in ["counter", "gauge", "histogram"] {
        let call = format!("{kind}!(");
        for rest in source.text.split(&call).skip(1) {
            let arguments = arguments(rest);
            let mut texts = texts(arguments);
            let name = texts.next().map(|(text, _)| text).unwrap_or_default();
            if !name.starts_with("stateway_") {
                return Err(format!(
                    "{}: the first argument of `{kind}!` must be a name with `stateway_`",
                    source.path
                ));
            }
            let labels = texts.filter(|(_, after)| after.trim_start().starts_with("=>"));
            let metric = recorded.entry(name.to_owned()).or_insert(Metric {
                kind,
                labels: Vec::new(),
            });
            for (label, _) in labels {
                if !metric.labels.iter().any(|known| known == label) {
                    metric.labels.push(label.to_owned());
                }
            }
        }
    }
    Ok(())
}

/// The text up to the parenthesis that closes the call.
fn arguments(rest: &str) -> &str {
    let mut depth = 0_usize;
    for (at, symbol) in rest.char_indices() {
        match symbol {
            '(' => depth += 1,
            ')' if depth == 0 => return &rest[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    rest
}

/// The quoted texts, each with what follows it.
fn texts(arguments: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = arguments;
    std::iter::from_fn(move || {
        let (_, from) = rest.split_once('"')?;
        let (text, after) = from.split_once('"')?;
        rest = after;
        Some((text, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source {
            package: "gateway".to_owned(),
            path: "crates/gateway/src/x.rs".to_owned(),
            text: text.to_owned(),
        }
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
    fn kind_and_labels_come_from_the_source() {
        let text = r#"
            metrics::counter!(
                "stateway_calls_total", "verb" => verb.as_str(), "outcome" => "ok"
            ).increment(1);
            counter!("stateway_calls_total", "verb" => (a), "code" => b);
            gauge!("stateway_open").set(1.0);
        "#;
        let mut recorded = BTreeMap::new();
        collect(&source(text), &mut recorded).expect("the file is good");
        let labels = |labels: &[&str]| labels.iter().map(|it| (*it).to_owned()).collect();
        let expected = BTreeMap::from([
            (
                "stateway_calls_total".to_owned(),
                Metric {
                    kind: "counter",
                    labels: labels(&["verb", "outcome", "code"]),
                },
            ),
            (
                "stateway_open".to_owned(),
                Metric {
                    kind: "gauge",
                    labels: labels(&[]),
                },
            ),
        ]);
        assert_eq!(recorded, expected);
    }

    #[test]
    fn a_metric_whose_name_is_no_text_is_refused() {
        assert!(collect(&source("counter!(NAME)"), &mut BTreeMap::new()).is_err());
    }

    #[test]
    fn a_meaning_of_no_metric_is_an_error() {
        let words: Table = toml::from_str("stateway_gone = \"x\"").expect("TOML");
        assert!(table(&words, &mut BTreeMap::new()).is_err());
    }
}
