//! What test programs print: counts, the names of the tests that failed, and which lines a person needs. Pure.

use crate::tally::Tally;

/// What was read from one program.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) tally: Tally,
    /// The names of the tests that failed.
    pub(super) failed: Vec<String>,
    /// The names of the tests that failed and passed when they were repeated.
    pub(super) unstable: Vec<String>,
    place: Place,
    /// The names of the list that is being read. Libtest prints two lists, and the last one has names only.
    listed: Vec<String>,
    /// Whether the program has no test to run.
    is_empty: bool,
}

/// Where in the output of libtest a line is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Tests,
    /// What passing tests print. Only the remarks in it are used.
    Successes,
    Failures,
}

impl Output {
    /// Runs each failed test once more. One that passes then is unstable, and counts as passed.
    pub(super) fn repeat(&mut self, run: impl Fn(&str) -> Result<Self, String>) {
        let passes = |test: &String| {
            run(test).is_ok_and(|again| again.failed.is_empty() && again.tally.passed > 0)
        };
        let (unstable, failed): (Vec<_>, Vec<_>) = self.failed.drain(..).partition(passes);
        let count = unstable.len().try_into().unwrap_or(u64::MAX);
        self.tally.failed = self.tally.failed.saturating_sub(count);
        self.tally.passed += count;
        (self.unstable, self.failed) = (unstable, failed);
    }

    /// Takes a line. Whether a person needs it.
    pub(super) fn read(&mut self, line: &str) -> bool {
        self.tally.read(line);
        if let Some(name) = failed_python(line) {
            self.failed.push(name);
        }
        let is_closing = line.starts_with("test result: ");
        match line {
            "running 0 tests" => self.is_empty = true,
            "successes:" => self.place = Place::Successes,
            "failures:" => {
                self.place = Place::Failures;
                self.listed.clear();
            }
            _ if is_closing => {
                self.place = Place::Tests;
                self.failed.append(&mut self.listed);
            }
            _ if self.place == Place::Failures => {
                if let Some(name) = line.strip_prefix("    ") {
                    self.listed.push(name.to_owned());
                }
            }
            _ => {}
        }
        self.place != Place::Successes && !(self.is_empty && is_quiet(line))
    }
}

/// A line that says that nothing ran.
fn is_quiet(line: &str) -> bool {
    line.is_empty() || line == "running 0 tests" || line.starts_with("test result: ok. 0 passed")
}

/// The name of a test in a line of pytest's closing list, or of tests/python/run.py.
fn failed_python(line: &str) -> Option<String> {
    let own = line.strip_prefix("test python::");
    if let Some(name) = own.and_then(|rest| rest.strip_suffix(" ... FAILED")) {
        return Some(name.to_owned());
    }
    let listed = line
        .strip_prefix("FAILED ")
        .or(line.strip_prefix("ERROR "))?;
    let (_, name) = listed.split_once(".py::")?;
    let name = name.split(" - ").next().unwrap_or(name);
    // `-k` does not take the values of a parameter.
    let name = name.split('[').next().unwrap_or(name);
    Some(name.rsplit("::").next().unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Output, Vec<&str>) {
        let mut output = Output::default();
        let shown = text.lines().filter(|line| output.read(line)).collect();
        (output, shown)
    }

    #[test]
    fn the_names_of_failed_tests_are_those_of_the_last_list() {
        let (output, shown) = read(
            "\
running 3 tests
test a::one ... ok
test b::two ... FAILED
test c ... FAILED

failures:

---- b::two stdout ----
    an indented line of the test
---- c stdout ----
no

failures:
    b::two
    c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
",
        );
        assert_eq!(output.failed, ["b::two", "c"]);
        assert_eq!((output.tally.passed, output.tally.failed), (1, 2));
        assert!(shown.contains(&"    an indented line of the test"));
    }

    #[test]
    fn what_passing_tests_print_is_not_shown_but_their_remarks_count() {
        let (output, shown) = read(
            "\
running 1 test
test a ... ok

successes:

---- a stdout ----
many words
summary: 12 calls

successes:
    a

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
",
        );
        assert_eq!(output.tally.remarks, ["12 calls"]);
        assert!(!shown.contains(&"many words"));
        assert!(
            shown
                .last()
                .is_some_and(|line| line.starts_with("test result: ok."))
        );
    }

    #[test]
    fn a_program_without_tests_shows_nothing() {
        let (output, shown) =
            read("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 9 filtered out\n");
        // The blank line before the count comes before anything is known.
        assert_eq!(shown, [""]);
        assert_eq!(output.tally, Tally::default());
    }

    #[test]
    fn a_failed_test_that_passes_alone_is_unstable_and_another_one_stays_failed() {
        let (mut output, _) = read(
            "failures:\n    a\n    b\n    c\n    d\ntest result: FAILED. 3 passed; 4 failed; 0 ignored",
        );
        output.repeat(|test| match test {
            "a" => Ok(read("test result: ok. 1 passed; 0 failed; 0 ignored").0),
            "b" => {
                Ok(read("failures:\n    b\ntest result: FAILED. 0 passed; 1 failed; 0 ignored").0)
            }
            "c" => Ok(read("test result: ok. 0 passed; 0 failed; 0 ignored").0),
            _ => Err("it does not start".to_owned()),
        });
        assert_eq!(output.unstable, ["a"]);
        assert_eq!(output.failed, ["b", "c", "d"]);
        assert_eq!((output.tally.passed, output.tally.failed), (4, 3));
    }

    #[test]
    fn failed_tests_in_python_are_named_as_a_filter_takes_them() {
        let (output, _) = read(
            "\
sdk/python/tests/test_watch.py::test_it_ends[slow] FAILED     [ 10%]
FAILED sdk/python/tests/test_watch.py::test_it_ends[slow] - AssertionError: no - really
ERROR deploy/tests/test_unit.py::TestUnit::test_starts
test python::test_start ... FAILED
test python::test_get ... ok
",
        );
        assert_eq!(output.failed, ["test_it_ends", "test_starts", "test_start"]);
    }
}
