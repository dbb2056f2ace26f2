//! `stateway definitions`: portable definitions, checked, stored, drawn, deleted, moved to another
//! provider and offered to running executions.

mod adopt;
mod delete;
mod migrate;

use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Call, v1};
use stateway_definition::{Definition, Parsed, Revision};
use stateway_model::{DefinitionName, ProviderId};
use stateway_phrases::visible;

use super::start::label;
use crate::arguments::{Globals, Output};
use crate::context::{Context, print, print_message, to_json};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::paging::{self, Paging};
use crate::screen::{Paint, Table, ago, stamp};
use crate::view;
use crate::write::RequestId;

/// The largest file that is read. The limit of a definition is lower.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Portable definitions.
#[derive(Debug, Subcommand)]
pub enum Definitions {
    /// Upload definitions; a changed file becomes the current revision
    #[command(after_help = "\
Examples:
  stateway definitions apply order.yaml
  stateway definitions apply --dry-run *.yaml
  stateway definitions apply order.asl.json --provider payments --name order --label team=payments
  generate | stateway definitions apply -")]
    Apply(Apply),
    /// List the definitions
    List(List),
    /// Show a definition
    #[command(after_help = "\
Examples:
  stateway definitions get order-saga
  stateway definitions get order-saga --source > order.yaml
  stateway definitions get order-saga --revision 1f3a09bc")]
    Get(Get),
    /// Delete a definition
    #[command(after_help = "\
The definition can no longer be started, and its schedule stops. Stored executions stay readable with their \
revision. While executions are open, the request is refused unless --keep-running is given. Applying a \
definition of the same name restores it.

Examples:
  stateway definitions delete order-saga
  stateway definitions delete order-saga --keep-running --yes")]
    Delete(delete::Delete),
    /// Start new executions of a definition on another provider
    #[command(after_help = "\
The provider gets the definition, and the definitions that its `workflow` steps start. From then on new \
executions start there when no provider is given, and the trigger starts executions only there. Open \
executions finish where they are. The command is refused if the provider cannot run the definition \
(`stateway definitions validate --for`). If the command is interrupted, the trigger may be disabled: run the \
command again.

Examples:
  stateway definitions migrate order-saga --to flows --dry-run
  stateway definitions migrate order-saga --to flows")]
    Migrate(migrate::Migrate),
    /// Offer another revision to running executions
    #[command(after_help = "\
A revision is compatible with an execution if it contains every step that has begun, unchanged and with an \
unchanged compensation, and if it keeps the open approvals, the escalation roles and the budgets. If the \
revision is not compatible, the execution pauses, and the reason names the differences; `stateway resume` \
continues under the old revision. With --filter the command shows a preview and asks for confirmation. Exits \
4 if an execution was paused or refused.

Examples:
  stateway definitions adopt builtin/order-17
  stateway definitions adopt builtin/order-17 --revision 1f3a09bc
  stateway definitions adopt --filter 'definition = \"definitions/order-saga\" AND labels.tenant = blue'")]
    Adopt(adopt::Adopt),
    /// Check files; no gateway is needed
    #[command(after_help = "\
Examples:
  stateway definitions validate order.yaml
  stateway definitions validate *.yaml -o json
  stateway definitions validate order.yaml --for flows

Problems are printed as file:line:column. Exits 2 when there is an error, or when a provider of --for \
cannot run a definition; warnings alone exit 0.")]
    Validate(Validate),
    /// Draw a definition; for a file no gateway is needed
    #[command(after_help = "\
Examples:
  stateway definitions graph order.yaml
  stateway definitions graph order-saga --format dot | dot -Tsvg > order.svg")]
    Graph(Graph),
}

/// Applies files.
#[derive(Debug, Args)]
#[command(mut_arg("request_id", |it| it.help("Idempotency key: repeating the request with the same key has no further effect; with one file only")))]
pub struct Apply {
    /// YAML or JSON, or - for standard input
    #[arg(required = true)]
    files: Vec<String>,
    /// Only check the definitions with the rules of the gateway; upload nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    key: RequestId,
    /// Apply a native definition of this provider, in its engine's language; with one file only
    #[arg(long, value_name = "PROVIDER", requires = "name")]
    provider: Option<ProviderId>,
    /// Name of the native definition in the provider's engine
    #[arg(long, value_name = "NAME", requires = "provider", value_parser = input::non_empty)]
    name: Option<String>,
    /// Label of the native definition; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "provider", value_parser = label)]
    labels: Vec<(String, String)>,
}

/// Lists definitions.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    paging: Paging,
    /// Only native definitions of this provider
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderId>,
}

/// Shows a definition.
#[derive(Debug, Args)]
pub struct Get {
    /// Name of the definition, in full or without `definitions/`
    name: String,
    /// The revision, or at least its first 8 digits (default: the current revision)
    #[arg(long, value_name = "REVISION", value_parser = input::non_empty)]
    revision: Option<String>,
    /// Print only the source, as it was applied
    #[arg(long)]
    source: bool,
    /// A native definition of this provider
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderId>,
}

/// Checks files.
#[derive(Debug, Args)]
pub struct Validate {
    /// YAML or JSON, or - for standard input
    #[arg(required = true)]
    files: Vec<String>,
    /// Validate with this provider's engine, in its own language; needs a gateway
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderId>,
    /// Report whether this provider can run the definitions (exact, emulated or impossible) and why; may be
    /// given several times; needs a gateway
    #[arg(long = "for", value_name = "PROVIDER", conflicts_with = "provider")]
    targets: Vec<ProviderId>,
}

/// Draws a definition.
#[derive(Debug, Args)]
pub struct Graph {
    /// A file, or the name of a definition
    what: String,
    /// Format of the graph
    #[arg(long, value_name = "LANGUAGE", default_value = "mermaid")]
    format: Language,
}

/// The language of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// For Markdown documents.
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// What `validate -o json` prints, for each file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    valid: bool,
    name: Option<String>,
    revision: Option<String>,
    diagnostics: Vec<view::Diagnostic>,
    omitted_count: usize,
    /// Only with `--for`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    portability: Vec<view::Portability>,
}

impl Definitions {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        match self {
            Self::Apply(command) => command.run(&Context::new(globals)?).await,
            Self::List(command) => command.run(&Context::new(globals)?).await,
            Self::Get(command) => command.run(&Context::new(globals)?).await,
            Self::Delete(command) => command.run(&Context::new(globals)?).await,
            Self::Migrate(command) => command.run(&Context::new(globals)?).await,
            Self::Adopt(command) => command.run(&Context::new(globals)?).await,
            Self::Validate(command) => command.run(globals).await,
            Self::Graph(command) => command.run(globals).await,
        }
    }
}

impl Apply {
    async fn run(self, context: &Context) -> Outcome {
        if self.key.is_given() && self.files.len() > 1 {
            return Err(Failure::usage("--request-id requires exactly one file"));
        }
        if self.provider.is_some() && self.files.len() > 1 {
            return Err(Failure::usage("--name requires exactly one file"));
        }
        let mut applied = Vec::new();
        for file in &self.files {
            let call = client::ApplyDefinition::from_message(v1::ApplyDefinitionRequest {
                source: read(file)?,
                source_name: file.clone(),
                validate_only: self.dry_run,
                parent: parent(self.provider.as_ref()),
                definition_id: self.name.clone().unwrap_or_default(),
                labels: self.labels.iter().cloned().collect(),
                ..v1::ApplyDefinitionRequest::default()
            });
            let call = context.call(self.key.clone().apply(call));
            let answer = context.client.apply_definition(call).await?;
            let shown = view::Applied::from(&answer);
            for warning in &shown.warnings {
                warn(warning);
            }
            applied.push(shown);
        }
        context.show(&applied, || {
            let mut table = Table::new(&["NAME", "REVISION", ""], context.paint);
            for one in &applied {
                let said = match (self.dry_run, one.changed) {
                    (true, _) => "valid",
                    (false, true) => "applied",
                    (false, false) => "unchanged",
                };
                table.row(vec![
                    one.definition.name.to_string(),
                    short(&one.definition.revision),
                    said.into(),
                ]);
            }
            table.text()
        })?;
        Ok(Exit::Ok)
    }
}

impl List {
    async fn run(self, context: &Context) -> Outcome {
        let parent = parent(self.provider.as_ref());
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListDefinitionsRequest {
                page_size,
                page_token,
                parent: parent.clone(),
            });
            let page = context.client.definitions_page(context.call(call)).await?;
            let rows = page.definitions.iter().map(view::Definition::from);
            Ok(paging::List::page(rows, page.next_page_token))
        };
        let list = self.paging.list(page).await?;
        context.show_list(&list, |rows| rows_table(rows, context.paint))?;
        Ok(Exit::Ok)
    }
}

fn rows_table(definitions: &[view::Definition], paint: Paint) -> String {
    let now = jiff::Timestamp::now();
    let headings = ["NAME", "REVISION", "AGE", "TRIGGER", "DESCRIPTION"];
    let mut table = Table::new(&headings, paint);
    for definition in definitions {
        let age = definition.create_time.map(|time| ago(time, now));
        table.row(vec![
            definition.name.to_string(),
            short(&definition.revision),
            age.unwrap_or_default(),
            trigger(definition),
            definition.description.to_string(),
        ]);
    }
    table.text()
}

impl Get {
    async fn run(self, context: &Context) -> Outcome {
        let whole = match &self.provider {
            Some(provider) => DefinitionName::native(provider.clone(), &self.name)
                .map_err(|error| Failure::usage(error.to_string()))?
                .to_string(),
            None => self.name,
        };
        let found = fetch(context, &whole, self.revision.as_deref()).await?;
        if self.source {
            print(&found.source)?;
            return Ok(Exit::Ok);
        }
        let shown = view::Definition::from(&found);
        context.show(&shown, || {
            let mut table = Table::new(&[], context.paint);
            table.row(vec!["name".into(), shown.name.to_string()]);
            table.row(vec!["revision".into(), shown.revision.to_string()]);
            if !shown.description.is_empty() {
                table.row(vec!["description".into(), shown.description.to_string()]);
            }
            if let Some(time) = shown.create_time {
                table.row(vec!["applied".into(), stamp(time)]);
            }
            if !shown.default_provider.is_empty() {
                let provider = shown.default_provider.to_string();
                table.row(vec!["default provider".into(), provider]);
            }
            if shown.deleted {
                let deleted = "yes; the definition can no longer be started";
                table.row(vec!["deleted".into(), deleted.into()]);
            }
            if let Some(trigger) = &shown.trigger {
                table.row(vec!["trigger".into(), trigger.summary()]);
                if let Some(disabled) = &trigger.disabled {
                    table.row(vec!["disabled".into(), disabled.by_whom()]);
                }
                if let Some(next) = trigger.next_start_time {
                    table.row(vec!["next start".into(), stamp(next)]);
                }
            }
            let joined = |texts: Vec<String>| texts.join(", ");
            if !shown.revisions.is_empty() {
                let revisions = shown.revisions.iter().map(ToString::to_string);
                table.row(vec!["revisions".into(), joined(revisions.collect())]);
            }
            if !shown.labels.is_empty() {
                let labels = shown.labels.iter();
                let labels = labels.map(|(key, value)| format!("{key}={value}"));
                table.row(vec!["labels".into(), joined(labels.collect())]);
            }
            let lines: Vec<_> = found.source.lines().map(visible).collect();
            format!("{}\n\n{}", table.text(), lines.join("\n"))
        })?;
        Ok(Exit::Ok)
    }
}

impl Validate {
    async fn run(self, globals: &Globals) -> Outcome {
        let mut checked = Vec::new();
        for file in &self.files {
            let source = read(file)?;
            checked.push(match &self.provider {
                None if self.targets.is_empty() => check(file, &source),
                None => {
                    let mut checked = check(file, &source);
                    if checked.valid {
                        let context = Context::new(globals)?;
                        checked.portability =
                            portability(&context, &self.targets, (file, source)).await?;
                    }
                    checked
                }
                Some(provider) => asked(&Context::new(globals)?, provider, (file, source)).await?,
            });
        }
        match globals.output {
            Output::Json => print(&to_json(&checked)?)?,
            Output::Table => {
                let lines: Vec<_> = checked.iter().map(Checked::lines).collect();
                print(&lines.join("\n"))?;
            }
        }
        let runs = |checked: &Checked| checked.portability.iter().all(view::Portability::runs);
        Ok(
            if checked.iter().all(|checked| checked.valid && runs(checked)) {
                Exit::Ok
            } else {
                Exit::Usage
            },
        )
    }
}

impl Graph {
    async fn run(self, globals: &Globals) -> Outcome {
        let definition = self.definition(globals).await?;
        print(&match self.format {
            Language::Mermaid => stateway_definition::mermaid(&definition),
            Language::Dot => stateway_definition::dot(&definition),
        })?;
        Ok(Exit::Ok)
    }

    async fn definition(&self, globals: &Globals) -> Result<Definition, Failure> {
        let (text, file) = if is_file(&self.what) {
            (read(&self.what)?, self.what.clone())
        } else {
            let context = Context::new(globals)?;
            let found = fetch(&context, &self.what, None).await?;
            (found.source, found.name)
        };
        match stateway_definition::parse(&text, &file) {
            Ok(parsed) => Ok(parsed.definition),
            Err(invalid) => {
                let mut failure = Failure::usage(format!("{file} is not a valid definition"))
                    .hint("`stateway definitions validate` lists every problem.");
                let lines = invalid.diagnostics.iter().map(view::Diagnostic::from);
                let lines: Vec<_> = lines.map(|found| found.to_string()).collect();
                // A hint is a line of its own.
                let lines = lines.iter().flat_map(|found| found.lines());
                failure.details = lines.map(str::to_owned).collect();
                Err(failure)
            }
        }
    }
}

impl Checked {
    fn lines(&self) -> String {
        let mut lines: Vec<_> = self.diagnostics.iter().map(ToString::to_string).collect();
        if self.omitted_count > 0 {
            lines.push(format!(
                "{}: and {} more",
                visible(&self.file),
                self.omitted_count
            ));
        }
        if self.valid {
            let file = visible(&self.file);
            let name = self.name.as_deref();
            let name = visible(name.unwrap_or("a definition without a name"));
            lines.push(match self.revision.as_deref() {
                Some(revision) => {
                    let short = revision.get(..12).unwrap_or(revision);
                    format!("{file}: {name} is valid, revision {short}")
                }
                // An engine that was asked names no revision before it is applied.
                None => format!("{file}: is valid"),
            });
            lines.extend(self.portability.iter().flat_map(|found| found.lines(&file)));
        }
        lines.join("\n")
    }
}

fn parent(provider: Option<&ProviderId>) -> String {
    provider.map(ProviderId::resource_name).unwrap_or_default()
}

/// The result of a provider's engine for a file.
async fn asked(
    context: &Context,
    provider: &ProviderId,
    (file, source): (&str, String),
) -> Result<Checked, Failure> {
    let call = Call::from_message(v1::ValidateDefinitionRequest {
        source,
        source_name: file.to_owned(),
        parent: provider.resource_name(),
    });
    let told = context.client.validate_definition(context.call(call));
    let told = told.await?;
    let diagnostics: Vec<_> = told
        .diagnostics
        .iter()
        .map(view::Diagnostic::from)
        .collect();
    Ok(Checked {
        file: file.to_owned(),
        valid: !diagnostics.iter().any(|found| found.severity == "error"),
        name: None,
        revision: None,
        diagnostics,
        omitted_count: usize::try_from(told.omitted_count).unwrap_or(usize::MAX),
        portability: Vec::new(),
    })
}

/// Whether providers can run a definition, in the order in which they were named.
async fn portability(
    context: &Context,
    targets: &[ProviderId],
    (file, source): (&str, String),
) -> Result<Vec<view::Portability>, Failure> {
    let call = Call::from_message(v1::ValidateDefinitionRequest {
        source,
        source_name: file.to_owned(),
        parent: String::new(),
    });
    let report = context.client.validate_definition(context.call(call));
    let report = report.await?.portability;
    let found = targets.iter().map(|target| {
        let name = target.resource_name();
        let found = report.iter().find(|found| found.provider == name);
        let found = found.ok_or_else(|| {
            let message = format!("the gateway has no provider `{target}`");
            Failure::usage(message).hint("`stateway providers list` shows the providers.")
        });
        found.map(view::Portability::from)
    });
    found.collect()
}

fn check(file: &str, text: &str) -> Checked {
    let mut checked = Checked {
        file: file.to_owned(),
        valid: false,
        name: None,
        revision: None,
        diagnostics: Vec::new(),
        omitted_count: 0,
        portability: Vec::new(),
    };
    match stateway_definition::parse(text, file) {
        Ok(Parsed {
            definition,
            warnings,
        }) => {
            checked.valid = true;
            checked.revision = Some(Revision::of(&definition).to_string());
            checked.name = definition.name;
            checked.diagnostics = warnings.iter().map(view::Diagnostic::from).collect();
        }
        Err(invalid) => {
            let found = invalid.diagnostics.iter();
            checked.diagnostics = found.map(view::Diagnostic::from).collect();
            checked.omitted_count = invalid.left_off;
        }
    }
    checked
}

async fn fetch(
    context: &Context,
    name: &str,
    revision: Option<&str>,
) -> Result<v1::Definition, Failure> {
    let mut name = full_name(name)?;
    if let Some(revision) = revision {
        name = format!("{name}/revisions/{revision}");
    }
    let call = Call::from_message(v1::GetDefinitionRequest { name });
    Ok(context.client.definition(context.call(call)).await?)
}

/// The full name of a definition that is given in full or without `definitions/`.
pub(super) fn full_name(name: &str) -> Result<String, Failure> {
    if name.starts_with("definitions/") || name.starts_with("providers/") {
        return Ok(name.to_owned());
    }
    DefinitionName::portable(name)
        .map(|name| name.to_string())
        .map_err(|error| Failure::usage(error.to_string()))
}

/// The column TRIGGER of a list.
fn trigger(definition: &view::Definition) -> String {
    match &definition.trigger {
        None => String::new(),
        Some(trigger) if trigger.disabled.is_some() => "disabled".to_owned(),
        Some(trigger) if trigger.schedule.is_empty() => "event".to_owned(),
        Some(_) => "schedule".to_owned(),
    }
}

fn warn(warning: &view::Diagnostic) {
    for line in warning.to_string().lines() {
        print_message(line);
    }
}

fn short(revision: &view::Text) -> String {
    revision.to_string().chars().take(12).collect()
}

/// A name has no dot and no slash; a file of that name would be meant all the same.
fn is_file(text: &str) -> bool {
    text == "-"
        || Path::new(text).exists()
        || (text.contains('.') && !text.contains("definitions/"))
}

fn read(file: &str) -> Result<String, Failure> {
    let wrong =
        |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", shown(file)));
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin()
            .lock()
            .take(LARGEST)
            .read_to_string(&mut text),
        path => {
            let opened = std::fs::File::open(path).map_err(wrong)?;
            opened.take(LARGEST).read_to_string(&mut text)
        }
    };
    read.map_err(wrong)?;
    Ok(text)
}

fn shown(file: &str) -> &str {
    match file {
        "-" => "standard input",
        file => file,
    }
}
