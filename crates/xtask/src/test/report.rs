//! What a run found: the time and the counts of each part, and the names of the tests that failed. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::part::Part;
use crate::tally::Tally;

/// What a run found so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    failures: Vec<Failure>,
    /// Tests that failed and passed when they were repeated.
    unstable: Vec<Failure>,
}

/// A line of the table of times.
#[derive(Debug)]
struct Row {
    what: String,
    took: Duration,
    tally: Tally,
}

/// A test that failed, or a part that could not run.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    part: Part,
    /// The name of the test; none if the whole part failed.
    test: Option<String>,
    /// The first line of the list says it.
    what: String,
}

impl Report {
    /// Adds a part, or a step before the parts.
    pub(super) fn add(&mut self, what: &str, took: Duration, tally: Tally) {
        let what = what.to_owned();
        self.rows.push(Row { what, took, tally });
    }

    /// Adds tests that failed.
    pub(super) fn failed(&mut self, part: Part, tests: Vec<String>) {
        self.failures.extend(named(part, tests));
    }

    /// Adds tests that failed and passed when they were repeated.
    pub(super) fn unstable(&mut self, part: Part, tests: Vec<String>) {
        self.unstable.extend(named(part, tests));
    }

    /// Adds a part that could not run, or that failed without the name of a test.
    pub(super) fn broken(&mut self, part: Part, what: String) {
        let test = None;
        self.failures.push(Failure { part, test, what });
    }

    pub(super) fn has_failures(&self, part: Part) -> bool {
        self.failures.iter().any(|failure| failure.part == part)
    }

    /// How many tests ran.
    pub(super) fn count(&self) -> u64 {
        let tallies = self.rows.iter().map(|row| &row.tally);
        tallies.map(|it| it.passed + it.failed + it.skipped).sum()
    }

    /// The remarks of the tests, the time and the counts of each part, and those of the run, whose parts overlap.
    pub(super) fn table(&self, took: Duration) -> String {
        let mut text = String::new();
        for remark in self.rows.iter().flat_map(|row| &row.tally.remarks) {
            let _ = writeln!(text, "{remark}");
        }
        let _ = writeln!(text, "\n    time  passed  failed  skipped");
        let mut all = Row {
            what: "all".to_owned(),
            took,
            tally: Tally::default(),
        };
        for row in &self.rows {
            text.push_str(&row.line());
            all.tally.passed += row.tally.passed;
            all.tally.failed += row.tally.failed;
            all.tally.skipped += row.tally.skipped;
        }
        text.push_str(&all.line());
        for test in &self.unstable {
            let _ = write!(
                text,
                "\nunstable: failed, then passed alone: {}\n    {}\n",
                test.what,
                test.command()
            );
        }
        text
    }

    /// Nothing, or the failures: each with the command that runs it again.
    pub(super) fn outcome(&self) -> Result<(), String> {
        let mut text = match self.failures.len() {
            0 => return Ok(()),
            1 => "1 failure; to run it again:".to_owned(),
            count => format!("{count} failures; to run each again:"),
        };
        for failure in &self.failures {
            let _ = write!(text, "\n\n{}\n    {}", failure.what, failure.command());
        }
        Err(text)
    }
}

fn named(part: Part, tests: Vec<String>) -> impl Iterator<Item = Failure> {
    tests.into_iter().map(move |test| Failure {
        part,
        what: test.clone(),
        test: Some(test),
    })
}

impl Row {
    fn line(&self) -> String {
        let (tally, seconds) = (&self.tally, self.took.as_secs_f64());
        format!(
            "{seconds:>6.1} s {:>7} {:>7} {:>8}  {}\n",
            tally.passed, tally.failed, tally.skipped, self.what
        )
    }
}

impl Failure {
    /// The command that runs this again.
    fn command(&self) -> String {
        let part = self.part.name();
        match &self.test {
            Some(test) => format!("cargo xtask test --only {part} {}", quoted(test)),
            None => format!("cargo xtask test --only {part}"),
        }
    }
}

/// A word as the shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_:-./".contains(it);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, failed: u64, skipped: u64, remarks: &[&str]) -> Tally {
        Tally {
            passed,
            failed,
            skipped,
            remarks: remarks.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    #[test]
    fn the_table_has_the_time_and_the_counts_of_each_part() {
        let mut report = Report::default();
        report.add("build", Duration::from_millis(61_250), Tally::default());
        report.add(
            "rust",
            Duration::from_secs(100),
            tally(1_200, 1, 2, &["temporal: 3"]),
        );
        let expected = "temporal: 3\n\
            \n    time  passed  failed  skipped\
            \n  61.2 s       0       0        0  build\
            \n 100.0 s    1200       1        2  rust\
            \n 130.0 s    1200       1        2  all\n";
        assert_eq!(report.table(Duration::from_secs(130)), expected);
        assert_eq!(report.count(), 1_203);
    }

    #[test]
    fn an_unstable_test_is_listed_and_does_not_fail_the_run() {
        let mut report = Report::default();
        report.add("rust", Duration::from_secs(9), tally(3, 0, 0, &[]));
        report.unstable(Part::Rust, vec!["watch::a_watch_ends".to_owned()]);
        let expected = "\n    time  passed  failed  skipped\
            \n   9.0 s       3       0        0  rust\
            \n   9.0 s       3       0        0  all\
            \n\nunstable: failed, then passed alone: watch::a_watch_ends\
            \n    cargo xtask test --only rust watch::a_watch_ends\n";
        assert_eq!(report.table(Duration::from_secs(9)), expected);
        assert_eq!(report.outcome(), Ok(()));
    }

    #[test]
    fn every_failure_is_listed_with_the_command_that_runs_it_again() {
        let mut report = Report::default();
        assert_eq!(report.outcome(), Ok(()));
        report.failed(Part::Rust, vec!["watch::a_watch_ends".to_owned()]);
        report.failed(Part::Rust, vec!["src/lib.rs - it's (line 7)".to_owned()]);
        report.broken(
            Part::StepFunctions,
            "no Python\nhint: Install it.".to_owned(),
        );
        let expected = "3 failures; to run each again:\
            \n\nwatch::a_watch_ends\
            \n    cargo xtask test --only rust watch::a_watch_ends\
            \n\nsrc/lib.rs - it's (line 7)\
            \n    cargo xtask test --only rust 'src/lib.rs - it'\\''s (line 7)'\
            \n\nno Python\nhint: Install it.\
            \n    cargo xtask test --only step-functions";
        assert_eq!(report.outcome(), Err(expected.to_owned()));
        assert!(report.has_failures(Part::StepFunctions));
        assert!(!report.has_failures(Part::Docs));
    }
}
