//! `stateway man`.

use clap::CommandFactory;
use stateway_cli::arguments::Arguments;

use crate::binary::{command, finish, run};

/// The macros that the pages may use: those of `man(7)` and of the preamble.
const MACROS: [&str; 13] = [
    "TH", "SH", "SS", "TP", "RS", "RE", "PP", "br", "ie", "el", "nf", "fi", "IP",
];

/// Every line is text or a macro that is known; quotes and sections are in order.
#[track_caller]
fn is_sound(page: &str, title: &str) {
    let heading = format!(".TH {title} 1");
    assert!(page.contains(&heading), "no `{heading}` in\n{page}");
    for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
        assert_eq!(page.matches(section).count(), 1, "{title}: {section}");
    }
    for line in page.lines() {
        assert!(!line.starts_with('\''), "{title}: {line}");
        if let Some(request) = line.strip_prefix('.') {
            let name = request.split_whitespace().next().unwrap_or_default();
            assert!(MACROS.contains(&name), "{title}: {line}");
            continue;
        }
        // A backslash begins an escape, so one that is meant is written `\\`.
        let bare = line.replace("\\\\", "");
        for after in bare.split('\\').skip(1) {
            let known = after.starts_with(['-', 'f', '&', '(', '*', 'e', '.']);
            assert!(known, "{title}: {line}");
        }
    }
}

#[test]
fn the_program_has_a_page() {
    let page = run(&["man"]).exits(0).out;
    is_sound(&page, "stateway");
    assert!(page.contains("stateway\\-retry\\-now(1)"), "{page}");
}

#[test]
fn every_command_has_a_page_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut man = command(folder.path());
    finish(man.args(["man", "new/man1"]), "").exits(0);
    let pages = folder.path().join("new/man1");
    let mut expected = vec!["stateway".to_owned()];
    for command in Arguments::command().get_subcommands() {
        let name = format!("stateway-{}", command.get_name());
        let inner = command.get_subcommands();
        expected.extend(inner.map(|inner| format!("{name}-{}", inner.get_name())));
        expected.push(name);
    }
    let mut written = Vec::new();
    for entry in std::fs::read_dir(&pages).unwrap() {
        let path = entry.unwrap().path();
        let title = path.file_stem().unwrap().to_str().unwrap().to_owned();
        is_sound(&std::fs::read_to_string(&path).unwrap(), &title);
        written.push(title);
    }
    written.sort();
    expected.sort();
    assert_eq!(written, expected);
}

#[test]
fn a_folder_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let mut man = command(folder.path());
    let answer = finish(man.args(["man", "file"]), "").exits(4);
    assert!(answer.err.contains("hint:"), "{}", answer.err);
}
