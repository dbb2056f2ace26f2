//! The queries of the alerts and of the dashboard in `deploy/`: every metric in them is one of the product, and so
//! is every label.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics::{Metric, recorded};
use super::source::read;

const ALERTS: &str = "deploy/helm/stateway/files/rules.yaml";
const ALERT_TESTS: &str = "deploy/tests/rules.test.yaml";
const DASHBOARD: &str = "deploy/helm/stateway/files/dashboard.json";

/// Labels that Prometheus adds.
const ADDED: [&str; 3] = ["instance", "job", "le"];

/// The parts of a histogram.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The names that begin with `stateway_`, each with what follows it.
fn names(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("stateway_").filter_map(|(at, _)| {
        let is_inside =
            text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let rest = &text[at..];
        let is_part = |symbol: char| symbol.is_ascii_alphanumeric() || symbol == '_';
        let end = rest.find(|symbol| !is_part(symbol)).unwrap_or(rest.len());
        (!is_inside).then(|| rest.split_at(end))
    })
}

/// The metric of a name in a query, by its own name.
fn metric<'a>(name: &'a str, known: &'a BTreeMap<String, Metric>) -> Option<(&'a str, &'a Metric)> {
    let base = PARTS.iter().find_map(|part| name.strip_suffix(part));
    let (found, wanted) = match base.and_then(|base| Some((base, known.get(base)?))) {
        Some((base, metric)) => (Some((base, metric)), "histogram"),
        None => (known.get(name).map(|metric| (name, metric)), ""),
    };
    // A histogram has no series of its own name.
    found.filter(|(_, metric)| (metric.kind == "histogram") == (wanted == "histogram"))
}

/// The labels of the selector that follows a name.
fn labels(after: &str) -> Vec<&str> {
    let Some(selector) = after.strip_prefix('{') else {
        return Vec::new();
    };
    let selector = selector.split('}').next().unwrap_or_default();
    let labels = selector
        .split(',')
        .filter_map(|part| part.split(['=', '!']).next());
    labels
        .map(str::trim)
        .filter(|label| !label.is_empty())
        .collect()
}

/// What is wrong in a text, and the metrics that it names.
fn check<'a>(
    text: &'a str,
    known: &'a BTreeMap<String, Metric>,
) -> (Vec<String>, BTreeSet<&'a str>) {
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for (name, after) in names(text) {
        let Some((base, metric)) = metric(name, known) else {
            wrong.push(format!("`{name}` is not a metric"));
            continue;
        };
        named.insert(base);
        for label in labels(after) {
            let is_known = ADDED.contains(&label) || metric.labels.iter().any(|it| it == label);
            if !is_known {
                wrong.push(format!("`{name}` has no label `{label}`"));
            }
        }
    }
    (wrong, named)
}

#[test]
fn every_metric_and_label_of_the_alerts_and_the_dashboard_exists() {
    let known = recorded().unwrap_or_else(|error| panic!("{error}"));
    for file in [ALERTS, ALERT_TESTS, DASHBOARD] {
        let text = read(file).unwrap_or_else(|error| panic!("{error}"));
        let (wrong, named) = check(&text, &known);
        assert!(wrong.is_empty(), "{file}: {wrong:#?}");
        assert!(named.len() > 5, "{file}: {named:?}");
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let known = recorded().unwrap_or_else(|error| panic!("{error}"));
    let text = read(DASHBOARD).unwrap_or_else(|error| panic!("{error}"));
    let (_, named) = check(&text, &known);
    let missing: Vec<_> = known
        .keys()
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{DASHBOARD} does not show {missing:?}");
}

#[test]
fn a_name_or_a_label_that_does_not_exist_is_found() {
    let metric = |kind, labels: &[&str]| Metric {
        kind,
        labels: labels.iter().map(|it| (*it).to_owned()).collect(),
    };
    let known = BTreeMap::from([
        (
            "stateway_calls_total".to_owned(),
            metric("counter", &["code"]),
        ),
        (
            "stateway_seconds".to_owned(),
            metric("histogram", &["verb"]),
        ),
    ]);
    let wrong = |text: &str| check(text, &known).0;
    let good = r#"rate(stateway_calls_total{code!="OK", job="x"}[5m]) / stateway_seconds_bucket{le="1",verb=~"a|b"}"#;
    assert_eq!(wrong(good), Vec::<String>::new());
    assert_eq!(
        wrong("stateway_calls"),
        ["`stateway_calls` is not a metric"]
    );
    assert_eq!(
        wrong("stateway_seconds > 1"),
        ["`stateway_seconds` is not a metric"]
    );
    assert_eq!(
        wrong("stateway_calls_total_bucket"),
        ["`stateway_calls_total_bucket` is not a metric"]
    );
    assert_eq!(
        wrong(r#"stateway_calls_total{method="x"}"#),
        ["`stateway_calls_total` has no label `method`"]
    );
}
