//! `stateway access`: which rule decides, and tables of expected decisions. Needs no gateway.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_access::cases::{self, Case, Expected, Question};
use stateway_access::{Explanation, OneOrMany, Rules, Verdict};
use stateway_model::Labels;

use super::config::refused;
use crate::arguments::{Globals, Output};
use crate::config::{Config, Overrides, load};
use crate::context::{print, print_message, to_json};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Explains and tests access rules.
#[derive(Debug, Subcommand)]
pub enum AccessCommand {
    /// Show which rule allows a request, or what each rule lacks
    Explain(Explain),
    /// Check a table of expected decisions
    Test(Test),
}

/// The rules.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Configuration file (default: `stateway.toml` in this folder, if it exists)
    #[arg(long, env = "STATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Explains a decision.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway access explain --as ada --role developer start definitions/order --label tenant=acme
  stateway access explain --as ada --tenant acme read providers/shop/executions/17 --label tenant=acme
  stateway access explain --as worker-7 --role worker work providers/builtin --task-role billing

The caller is --as, --role and --tenant. The command reads the configuration and needs no gateway, so the definition and the labels of an execution have to be given. The exit code is 0 if the request is allowed and 4 if it is denied.")]
pub struct Explain {
    #[command(flatten)]
    place: Place,
    /// Permission, for example `start`
    permission: String,
    /// Definition, execution or provider, for example `definitions/order` or `providers/shop`
    object: String,
    /// Tenant of the caller
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Provider of the object, if the name of the object does not contain one (default: the only configured provider)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Definition of an execution
    #[arg(long, value_name = "DEFINITION")]
    definition: Option<String>,
    /// Label of the object, as key=value; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Role of the task, for `work`
    #[arg(long, value_name = "ROLE")]
    task_role: Option<String>,
}

/// Checks expected decisions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway access test cases.toml
  stateway access test cases.toml --config stateway.toml -o json

docs/access.md describes the file. The exit code is 0 if every decision is as expected and 8 if one is not.")]
pub struct Test {
    #[command(flatten)]
    place: Place,
    /// File with the expected decisions
    file: PathBuf,
}

/// What `explain -o json` prints.
#[derive(Debug, Serialize)]
struct Explained {
    allowed: bool,
    permission: &'static str,
    rule: Option<String>,
    rules: Vec<ExplainedRule>,
}

#[derive(Debug, Serialize)]
struct ExplainedRule {
    rule: String,
    allows: bool,
    finding: String,
}

/// What `test -o json` prints for each case.
#[derive(Debug, Serialize)]
struct Tested {
    case: usize,
    request: String,
    expected: &'static str,
    decision: &'static str,
    rule: Option<String>,
    passed: bool,
}

impl AccessCommand {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        match self {
            Self::Explain(command) => command.run(globals),
            Self::Test(command) => command.run(globals.output),
        }
    }
}

impl Place {
    fn read(self) -> Result<(Config, Rules), Failure> {
        let overrides = Overrides {
            config: self.config,
            ..Overrides::default()
        };
        let config = load(&overrides).map_err(|error| refused(&error))?;
        // The path of a file is complete in a configuration that was read.
        let rules = config.access.rules(Path::new(""));
        let rules = rules.map_err(|errors| Failure::usage(errors.join("\n")))?;
        // Without both, the gateway asks no rule.
        if rules.is_empty() && !config.settings.authentication.is_required() {
            return Err(match &config.file {
                Some(_) => Failure::usage(
                    "the configuration has no [authentication]: the gateway allows every request",
                ),
                None => Failure::usage("there is no stateway.toml in this folder")
                    .hint("Give --config FILE."),
            });
        }
        Ok((config, rules))
    }
}

impl Explain {
    fn run(self, globals: &Globals) -> Outcome {
        let (config, rules) = self.place.read()?;
        let Some(subject) = globals.actor.clone() else {
            return Err(Failure::usage("the caller is missing").hint("Name it with --as NAME."));
        };
        let case = Case {
            subject,
            role: OneOrMany::Many(globals.roles.clone()),
            tenant: self.tenant,
            may: self.permission,
            on: self.object,
            provider: self.provider,
            definition: self.definition,
            labels: labels(&self.labels)?,
            task_role: self.task_role,
            ..Case::default()
        };
        let question = question(&case, &config)?;
        let object = question.object();
        let explained = rules.explain(&question.caller, question.permission, &object);
        match globals.output {
            Output::Json => print(&to_json(&Explained::of(&explained))?)?,
            Output::Table => print(&lines(&explained, &case, rules.is_empty()))?,
        }
        Ok(if explained.decision.allowed {
            Exit::Ok
        } else {
            Exit::Refused
        })
    }
}

impl Test {
    fn run(self, output: Output) -> Outcome {
        let (config, rules) = self.place.read()?;
        let path = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("{path} cannot be read: {error}")))?;
        let cases = cases::parse(&text);
        let cases = cases.map_err(|error| Failure::usage(format!("{path}: {error}")))?;
        let mut tested = Vec::new();
        for (case, number) in cases.iter().zip(1..) {
            let question = question(case, &config).map_err(|mut failure| {
                failure.message = format!("{path}: case {number}: {}", failure.message);
                failure
            })?;
            let object = question.object();
            let grants = rules.grants(&question.caller);
            let decision = grants.decide(question.permission, &object);
            let rule = decision.rule.map(|rule| rule.to_string());
            let is_expected = decision.allowed == (case.expect == Some(Expected::Allow));
            let is_rule = case.rule.is_none() || case.rule == rule;
            tested.push(Tested {
                case: number,
                request: request(case),
                expected: word(case.expect == Some(Expected::Allow)),
                decision: word(decision.allowed),
                rule,
                passed: is_expected && is_rule,
            });
        }
        let failed = tested.iter().filter(|case| !case.passed).count();
        match output {
            Output::Json => print(&to_json(&tested)?)?,
            Output::Table => print(&table(&tested))?,
        }
        print_message(&format!("{} cases, {failed} failed", tested.len()));
        Ok(if failed == 0 { Exit::Ok } else { Exit::Found })
    }
}

/// The question of a case. The only provider of a configuration is meant where none is named.
fn question(case: &Case, config: &Config) -> Result<Question, Failure> {
    let question = case.question();
    let mut question = question.map_err(|error| Failure::usage(error.to_string()))?;
    if let [only] = config.providers.as_slice() {
        question.default_provider(only.id.as_str());
    }
    Ok(question)
}

fn labels(sent: &[String]) -> Result<Option<Labels>, Failure> {
    if sent.is_empty() {
        return Ok(None);
    }
    let pairs = sent.iter().map(|text| {
        let pair = text
            .split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Failure::usage(format!("`{text}` is not of the form key=value")))
    });
    pairs.collect::<Result<_, _>>().map(Some)
}

impl Explained {
    fn of(explained: &Explanation) -> Self {
        let decision = &explained.decision;
        Self {
            allowed: decision.allowed,
            permission: decision.permission.as_str(),
            rule: decision.rule.as_ref().map(ToString::to_string),
            rules: explained
                .findings
                .iter()
                .map(|finding| ExplainedRule {
                    rule: finding.rule.to_string(),
                    allows: finding.verdict == Verdict::Allows,
                    finding: finding.verdict.to_string(),
                })
                .collect(),
        }
    }
}

/// The decision, and for a refusal what each rule lacks that is about the caller or the permission.
fn lines(explained: &Explanation, case: &Case, is_empty: bool) -> String {
    let request = request(case);
    if let Some(rule) = &explained.decision.rule {
        return format!("allowed by rule `{rule}`: {request}");
    }
    let mut lines = vec![format!("denied: {request}")];
    let near = explained.findings.iter().filter(|it| it.verdict.is_near());
    lines.extend(near.map(|finding| format!("  rule `{}`: {}", finding.rule, finding.verdict)));
    if is_empty {
        lines.push("  there is no rule; without rules everything is denied".to_owned());
    } else if lines.len() == 1 {
        lines.push("  no rule matches this caller or gives this permission".to_owned());
    }
    lines.join("\n")
}

/// The request of a case in one line.
fn request(case: &Case) -> String {
    let tenant = match &case.tenant {
        Some(tenant) => format!(" of tenant {tenant}"),
        None => String::new(),
    };
    format!("{}{tenant} {} {}", case.subject, case.may, case.on)
}

fn table(tested: &[Tested]) -> String {
    let lines = tested.iter().map(|case| {
        let mark = if case.passed { "ok    " } else { "FAILED" };
        let by = match &case.rule {
            Some(rule) => format!(" by rule `{rule}`"),
            None => String::new(),
        };
        format!(
            "{mark} {}: {} ({}{by}, expected {})",
            case.case, case.request, case.decision, case.expected
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

const fn word(allowed: bool) -> &'static str {
    if allowed { "allow" } else { "deny" }
}
