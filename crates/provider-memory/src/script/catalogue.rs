//! The scripts of the provider, one for each kind of behaviour.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Script;

/// Each by the name it is started with. `script` is not among them: its script is its input.
const CATALOGUE: &[(&str, &str)] = &[
    (
        "hello",
        r#"{"steps": [{"name": "greet", "takes": "200ms"}], "output": {"hello": "world"}}"#,
    ),
    (
        "flaky",
        r#"{"steps": [
            {"name": "charge", "takes": "1s", "fails": 2,
             "error": {"message": "card gateway timed out", "category": "timeout"},
             "retry": {"max_attempts": 5, "delay": "4s", "factor": 2.0}},
            {"name": "ship", "takes": "1s"}],
            "output": {"charged": true}}"#,
    ),
    (
        "approval",
        r#"{"steps": [
            {"name": "prepare", "takes": "500ms", "compensation": "500ms"},
            {"name": "approval", "waits_for": {"signal": "approve", "expires_after": "24h"}},
            {"name": "publish", "takes": "1s"}],
            "output": {"published": true}}"#,
    ),
    (
        "stuck",
        r#"{"steps": [
            {"name": "import", "takes": "500ms", "fails": 3, "when_exhausted": "stick",
             "error": {"message": "row 17 has no customer", "category": "validation"},
             "retry": {"max_attempts": 3, "delay": "1s", "factor": 2.0}}],
            "output": {"imported": 1042}}"#,
    ),
    (
        "doomed",
        r#"{"steps": [
            {"name": "reserve", "takes": "500ms", "compensation": "1s"},
            {"name": "pay", "takes": "500ms", "fails": 1,
             "error": {"message": "card is blocked", "category": "external",
                       "fails_for_good": true}}]}"#,
    ),
    (
        "fan-out",
        r#"{"steps": [
            {"name": "split", "takes": "500ms"},
            {"parallel": [
                {"name": "resize", "takes": "20s"},
                {"name": "scan", "takes": "1s", "fails": 3,
                 "error": {"message": "scanner is busy", "category": "transient"},
                 "retry": {"max_attempts": 5, "delay": "5s", "factor": 2.0}},
                {"name": "review", "waits_for": {"signal": "reviewed"}},
                {"name": "encode", "waits_for": {"capacity": "15s"}, "takes": "5s"}]},
            {"name": "merge", "takes": "500ms"}]}"#,
    ),
    (
        "long",
        r#"{"steps": [
            {"name": "set-up", "takes": "1s", "compensation": "3s"},
            {"name": "crunch", "takes": "1h"}]}"#,
    ),
];

pub(crate) fn catalogue() -> BTreeMap<String, Arc<Script>> {
    let read = |(name, text): &(&str, &str)| {
        let script = Script::from_json(text.as_bytes());
        let script = script.expect("the test `every_script_of_the_catalogue_is_good` reads each");
        ((*name).to_owned(), Arc::new(script))
    };
    CATALOGUE.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_of_the_catalogue_is_good() {
        assert_eq!(catalogue().len(), CATALOGUE.len());
    }
}
