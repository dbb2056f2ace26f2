//! A form to start an execution, and what it is checked for before the API is asked.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_proto::v1::portability::Verdict;
use stateway_proto::v1::{
    Definition, ExecutionView, GetExecutionRequest, Payload, StartExecutionRequest,
    ValidateDefinitionRequest,
};

use super::action::object_of;
use super::name::DefinitionPath;
use super::{one, portability};
use crate::Site;
use crate::executions::{ExecutionPath, path_of, short_name};
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden, hidden_again, name_field};
use crate::layout::Section;
use crate::page::Page;
use crate::permission::reason;
use crate::problem::Problem;
use crate::providers::{self, id_of};
use crate::text::{said_within, set_out};
use crate::time::Now;
use crate::visitor::Visitor;

/// What was typed.
#[derive(Debug, Default)]
pub(super) struct Form {
    input: String,
    id: String,
    labels: String,
    provider: String,
    /// The execution that the fields were taken from; empty when they were not.
    like: String,
    /// The id under which it may have been started already; empty when it was not.
    request_id: String,
}

impl Form {
    pub(super) fn of(fields: &Fields) -> Self {
        Self {
            input: fields.get("input").to_owned(),
            id: fields.get("id").to_owned(),
            labels: fields.get("labels").to_owned(),
            provider: fields.get("provider").to_owned(),
            like: String::new(),
            request_id: String::new(),
        }
    }

    /// Fills the form with the input and the labels of another execution, by its address.
    pub(super) async fn fill(
        &mut self,
        site: &Site,
        visitor: &Visitor,
        like: &str,
    ) -> Result<(), Problem> {
        let Some(path) = ExecutionPath::at(like) else {
            return Ok(());
        };
        let request = GetExecutionRequest {
            name: path.name(),
            view: ExecutionView::Full.into(),
        };
        let mut api = site.api.executions();
        let found = api.get_execution(visitor.request(request)).await?;
        let found = found.into_inner();
        let input = found.input.as_ref().and_then(|input| set_out(&input.data));
        self.input = input.unwrap_or_default().into_owned();
        let mut labels: Vec<_> = found.labels.iter().collect();
        labels.sort();
        let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
        self.labels = labels.collect::<Vec<_>>().join("\n");
        self.provider = format!("providers/{}", path.provider);
        self.like = short_name(&found.name);
        Ok(())
    }

    /// What is asked of the API.
    fn request(
        &self,
        definition: &str,
        request_id: String,
    ) -> Result<StartExecutionRequest, Problem> {
        Ok(StartExecutionRequest {
            parent: self.provider.clone(),
            definition: definition.to_owned(),
            execution_id: self.id.clone(),
            input: payload(&self.input)?,
            labels: labels(&self.labels)?,
            request_id,
            ..StartExecutionRequest::default()
        })
    }
}

fn payload(text: &str) -> Result<Option<Payload>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(Problem::invalid(
            &format!("The input is not JSON: {error}."),
            "Text goes in double quotes, names too; no comma after the last value.",
        ));
    }
    Ok(Some(Payload {
        data: text.to_owned().into(),
        content_type: "application/json".into(),
    }))
}

fn labels(text: &str) -> Result<HashMap<String, String>, Problem> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs = lines.map(|line| match line.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(Problem::invalid(
            &format!("The label \u{201c}{line}\u{201d} has no value."),
            "One label on a line, as name=value.",
        )),
    });
    pairs.collect()
}

pub(super) async fn send(
    State(site): State<Site>,
    path: DefinitionPath,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let visitor = &submitted.visitor;
    let mut form = Form::of(&submitted.fields);
    let problem = match begin(&site, &submitted, &path, &form).await {
        Ok(name) => {
            let done = Flash::done("Started.");
            return Ok(submitted.redirect(&path_of(&name), &done));
        }
        Err(problem) => problem,
    };
    if problem.is_uncertain() {
        form.request_id = submitted.request_id();
    }
    let found = one::get(&site, visitor, &path.name).await?;
    let question = question(&site, visitor, &path, &found, &form, Some(&problem)).await;
    let providers = portability::card(&site, visitor, &found).await;
    let title = path.shown();
    let page = Page {
        section: Section::Definitions,
        title: &title,
        live: None,
        content: one::whole(&path, &found, (&question, &providers, visitor), Now::page()),
    };
    let status = match problem.status {
        StatusCode::INTERNAL_SERVER_ERROR => StatusCode::BAD_GATEWAY,
        status => status,
    };
    Ok(submitted.remember((status, page.show(visitor)).into_response()))
}

async fn begin(
    site: &Site,
    submitted: &Submitted,
    path: &DefinitionPath,
    form: &Form,
) -> Result<String, Problem> {
    if submitted.visitor.acting.actor.is_empty() {
        return Err(unnamed());
    }
    let request = form.request(&path.name, submitted.request_id())?;
    let mut api = site.api.executions();
    let request = submitted.visitor.request(request);
    let started = api.start_execution(request).await?;
    Ok(started.into_inner().name)
}

/// The person who starts an execution must not approve its steps, so a start needs a name.
fn unnamed() -> Problem {
    Problem::forbidden(
        "A start needs your name.",
        "Enter your name in the form. Behind a proxy, the proxy has to send it.",
    )
}

/// The providers that can run it, as `providers/{provider}`.
async fn runners(
    site: &Site,
    visitor: &Visitor,
    path: &DefinitionPath,
    found: &Definition,
) -> Vec<String> {
    if let Some(provider) = path.provider() {
        let all = providers::all(site, visitor).await.unwrap_or_default();
        let able = all.into_iter().filter(|one| {
            id_of(&one.name) == provider && one.capabilities.is_some_and(|can| can.start)
        });
        return able.map(|one| one.name).collect();
    }
    let request = ValidateDefinitionRequest {
        source: found.source.clone(),
        ..ValidateDefinitionRequest::default()
    };
    let mut api = site.api.definitions();
    let answer = api.validate_definition(visitor.request(request)).await;
    let portability = answer.map(|answer| answer.into_inner().portability);
    let able = portability
        .unwrap_or_default()
        .into_iter()
        .filter(|one| one.verdict() != Verdict::Impossible);
    able.map(|one| one.provider).collect()
}

/// The form, with what was typed and what was wrong with it.
pub(super) async fn question(
    site: &Site,
    visitor: &Visitor,
    path: &DefinitionPath,
    found: &Definition,
    form: &Form,
    problem: Option<&Problem>,
) -> Markup {
    let runners = runners(site, visitor, path, found).await;
    html! {
        section aria-labelledby="start-title" {
            h2 #start-title { "Start" }
            @if !visitor.may("start", &object_of(found)) {
                p.nothing { (reason("start")) }
                @if let Some(problem) = problem { div #start-problem { (problem.render()) } }
            } @else if runners.is_empty() {
                p.nothing { "No configured provider can run it." }
            } @else {
                details.start #start-form open[problem.is_some() || !form.like.is_empty()] {
                    summary { "Start an execution of this definition" }
                    @if !form.like.is_empty() {
                        p.muted { "With the input and the labels of " b { (said_within(&form.like, 120)) } "." }
                    }
                    @if let Some(problem) = problem { div #start-problem { (problem.render()) } }
                    (fields(visitor, path, form, &runners, problem.is_some()))
                }
            }
        }
    }
}

fn fields(
    visitor: &Visitor,
    path: &DefinitionPath,
    form: &Form,
    runners: &[String],
    wrong: bool,
) -> Markup {
    html! {
        form method="post" action={ (path.path()) "/start" } {
            @if form.request_id.is_empty() { (hidden(visitor)) }
            @else { (hidden_again(visitor, &form.request_id)) }
            label { "Input, as JSON"
                textarea name="input" spellcheck="false" placeholder="{}"
                    aria-describedby=[wrong.then_some("start-problem")] { (form.input) }
            }
            label { "Id (default: a generated id)"
                input name="id" value=(form.id) maxlength="256" autocomplete="off" spellcheck="false";
            }
            label { "Labels, one name=value on a line"
                textarea.short name="labels" spellcheck="false" { (form.labels) }
            }
            @if runners.len() > 1 {
                label { "Provider"
                    select name="provider" {
                        @for name in runners {
                            option value=(name) selected[*name == form.provider] { (id_of(name)) }
                        }
                    }
                }
            } @else {
                @for name in runners { input type="hidden" name="provider" value=(name); }
            }
            (name_field(visitor))
            div.buttons { button.primary { "Start" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_is_refused_with_its_place() {
        let problem = payload("{\"a\": 1,}").unwrap_err();
        assert!(problem.message.contains("line 1 column 9"), "{problem:?}");
        assert_eq!(payload(""), Ok(None));
        assert!(payload("[1, {\"a\": null}]").is_ok());
    }

    #[test]
    fn labels_are_lines() {
        let found = labels(" a=b \n\nc=d=e").unwrap();
        assert_eq!(found["a"], "b");
        assert_eq!(found["c"], "d=e");
        assert!(labels("nothing").is_err());
    }
}
