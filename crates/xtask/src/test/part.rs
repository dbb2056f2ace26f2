//! The parts of `cargo xtask test`, and which of them a run has. Pure.

use clap::ValueEnum;

/// A part of the tests, by the name that `--only` takes. They start in this order: long programs first, so that both
/// cores have work until the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Generated documentation and links
    Docs,
    /// The Python package
    PythonPackage,
    /// The dashboard in a browser
    Browser,
    /// The real Temporal server
    Temporal,
    /// The real Restate servers
    Restate,
    /// Real PostgreSQL servers
    Postgres,
    /// An emulator of Step Functions
    StepFunctions,
    /// Image, unit, Helm chart and alerts
    Deploy,
    /// A generated client in Python
    PythonClient,
    /// Kills of the gateway under load
    Crash,
    /// Rust tests that need nothing else
    Rust,
}

impl Part {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The tests of this part and what they need besides Rust, if they need anything.
    pub(crate) fn needs(self) -> Option<&'static str> {
        match self {
            Self::Docs | Self::Rust | Self::Crash => None,
            Self::Restate => Some("crates/cli/tests/restate (the real Restate server, needs npm)"),
            Self::Temporal => Some(
                "provider-temporal/tests/live.rs, contract_live.rs, host-temporal/tests/live.rs and crates/cli/tests/temporal \
                 (the real Temporal server, needs Python 3.10, PyPI and npm)",
            ),
            Self::Postgres => Some(
                "engine/tests/postgres.rs, crates/cli/tests/postgres and the suite of the stores (real PostgreSQL servers, \
                 needs the Debian package postgresql-15, and npm)",
            ),
            Self::StepFunctions => Some(
                "provider-step-functions/tests/live.rs (an emulator, needs Python 3.13 and PyPI)",
            ),
            Self::Browser => Some(
                "tests/browser (the dashboard in a browser, needs Chromium and its driver; sign-in at \
                 a real OpenID provider, needs Node.js and npm)",
            ),
            Self::Deploy => Some(
                "deploy/tests (image, unit, Helm chart and alerts, needs Python 3.10, PyPI and Debian \
                 packages)",
            ),
            Self::PythonClient => {
                Some("tests/python (a client in another language, needs python3 and PyPI)")
            }
            Self::PythonPackage => Some(
                "sdk/python (the Python package and its providers, needs Python 3.10 and PyPI)",
            ),
        }
    }

    /// Whether the part has several tests, with names.
    fn has_names(self) -> bool {
        !matches!(self, Self::Docs | Self::Crash)
    }

    /// The part that the tests of a Rust program belong to.
    pub(super) fn of_program(package: &str, target: &str) -> Self {
        match (package, target) {
            ("stateway-cli", "restate") => Self::Restate,
            ("stateway-cli", "temporal")
            | ("stateway-provider-temporal", "live" | "contract_live")
            | ("stateway-host-temporal", "live") => Self::Temporal,
            ("stateway-cli" | "stateway-engine", "postgres") => Self::Postgres,
            ("stateway-provider-step-functions", "live") => Self::StepFunctions,
            ("stateway-tests", "browser") => Self::Browser,
            _ => Self::Rust,
        }
    }

    /// The test targets of cargo that this part needs, if it does not need all of them.
    pub(super) fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Restate => &["restate"],
            Self::Temporal => &["temporal", "live", "contract_live"],
            Self::Postgres => &["postgres"],
            Self::StepFunctions => &["live"],
            Self::Browser => &["browser"],
            _ => &[],
        }
    }
}

/// The parts of a run, in their order. A filter leaves out parts whose tests have no names.
///
/// # Errors
/// A part that was asked for is left out by `--hermetic` or by the filter.
pub(super) fn select(
    only: &[Part],
    hermetic: bool,
    filter: Option<&str>,
) -> Result<Vec<Part>, String> {
    let needy = only.iter().find(|part| part.needs().is_some());
    if let (true, Some(part)) = (hermetic, needy) {
        let name = part.name();
        return Err(format!(
            "the part `{name}` needs more than Rust\nhint: Run `cargo xtask test --only {name}` without `--hermetic`."
        ));
    }
    let nameless = only.iter().find(|part| !part.has_names());
    if let (Some(filter), Some(part)) = (filter, nameless) {
        let name = part.name();
        return Err(format!(
            "the part `{name}` is one test and takes no filter\nhint: Leave out `{filter}` or `--only {name}`."
        ));
    }
    let is_meant = |part: &Part| only.is_empty() || only.contains(part);
    let is_possible = |part: &Part| !hermetic || part.needs().is_none();
    let is_named = |part: &Part| filter.is_none() || part.has_names();
    let parts = Part::value_variants().iter().copied();
    let parts = parts.filter(is_meant).filter(is_possible);
    Ok(parts.filter(is_named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_every_part_runs() {
        assert_eq!(
            select(&[], false, None),
            Ok(Part::value_variants().to_vec())
        );
    }

    #[test]
    fn hermetic_leaves_out_the_parts_that_need_more_than_rust() {
        let parts = vec![Part::Docs, Part::Crash, Part::Rust];
        assert_eq!(select(&[], true, None), Ok(parts));
    }

    #[test]
    fn only_the_named_parts_run_in_the_usual_order() {
        let asked = [Part::Browser, Part::Docs, Part::Browser];
        assert_eq!(
            select(&asked, false, None),
            Ok(vec![Part::Docs, Part::Browser])
        );
    }

    #[test]
    fn a_part_that_hermetic_leaves_out_cannot_be_asked_for() {
        let refused = select(&[Part::Rust, Part::Restate], true, None);
        let expected = "the part `restate` needs more than Rust\n\
                        hint: Run `cargo xtask test --only restate` without `--hermetic`.";
        assert_eq!(refused, Err(expected.to_owned()));
    }

    #[test]
    fn a_filter_leaves_out_parts_that_are_one_test() {
        assert_eq!(select(&[], true, Some("watch")), Ok(vec![Part::Rust]));
        let refused = select(&[Part::Crash], false, Some("watch"));
        let expected = "the part `crash` is one test and takes no filter\n\
                        hint: Leave out `watch` or `--only crash`.";
        assert_eq!(refused, Err(expected.to_owned()));
    }

    #[test]
    fn the_targets_of_a_part_belong_to_it() {
        let package = |part: Part| match part {
            Part::Restate | Part::Temporal | Part::Postgres => "stateway-cli",
            Part::StepFunctions => "stateway-provider-step-functions",
            _ => "stateway-tests",
        };
        for part in Part::value_variants() {
            let of_peers = part.targets().first();
            let found = of_peers.map(|target| Part::of_program(package(*part), target));
            assert_eq!(found.unwrap_or(*part), *part);
        }
    }
}
