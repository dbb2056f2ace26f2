//! SECURITY.md names the test that shows each of its claims: every one of them exists.

use super::source::read;

const PAGE: &str = "SECURITY.md";

/// The tests that a text names, as (file, test).
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|it| it.split_once("::")).collect()
}

/// Whether the file has a test of this name: in Rust below an attribute `test`, in Python by its own name.
fn has_test(source: &str, file: &str, test: &str) -> bool {
    if file.ends_with(".py") {
        return test.starts_with("test_") && source.contains(&format!("\ndef {test}("));
    }
    let Some((before, _)) = source.split_once(&format!("fn {test}(")) else {
        return false;
    };
    // The attributes are the lines above, up to the item before.
    let above = before.rsplit_once('\n').map_or("", |(above, _)| above);
    let mut attributes = above.lines().rev().take_while(|line| {
        let line = line.trim();
        line.starts_with("#[") || line.starts_with("//")
    });
    attributes.any(|line| line.contains("test"))
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let page = read(PAGE).unwrap_or_else(|error| panic!("{error}"));
    let named = named(&page);
    assert!(named.len() > 40, "{}", named.len());
    for (file, test) in named {
        let source = read(file).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
        assert!(
            has_test(&source, file, test),
            "{PAGE}: {file} has no test `{test}`"
        );
    }
}

#[test]
fn every_row_of_the_threat_model_names_a_test() {
    let page = read(PAGE).unwrap_or_else(|error| panic!("{error}"));
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<_> = rows.filter(|line| !line.starts_with("| who |")).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        assert!(!named(row).is_empty(), "{PAGE} names no test: {row}");
    }
}

#[test]
fn a_function_that_is_no_test_does_not_count() {
    let source = "#[tokio::test]\nasync fn it_holds() {}\n\nfn helper() {}\n\n#[test]\n/// Why.\nfn so_does_this() {}\n#[test]\nfn this_too() {}\n";
    for (test, exists) in [
        ("it_holds", true),
        ("so_does_this", true),
        ("this_too", true),
        ("helper", false),
        ("it", false),
    ] {
        assert_eq!(has_test(source, "x.rs", test), exists, "{test}");
    }
    assert!(has_test("\ndef test_it() -> None:", "x.py", "test_it"));
    assert!(!has_test("\ndef it() -> None:", "x.py", "it"));
}
