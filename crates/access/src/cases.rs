//! A table of expected decisions, to test rules like code.

use serde::Deserialize;
use stateway_identity::{Identity, Method, Unfit};
use stateway_model::{DefinitionName, ExecutionName, Labels};
use thiserror::Error;

use crate::{KnownLabels, Object, OneOrMany, Permission, RuleError, UnknownPermission};

/// A request as a person writes it: in a file of expected decisions, or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// The subject.
    #[serde(rename = "as")]
    pub subject: String,
    /// The roles.
    pub role: OneOrMany,
    /// The tenant.
    pub tenant: Option<String>,
    /// The permission.
    pub may: String,
    /// A definition, an execution or a provider: `definitions/order`, `providers/shop`,
    /// `providers/shop/definitions/Order`, `providers/shop/executions/17`.
    pub on: String,
    /// The id of the provider, where `on` does not name it.
    pub provider: Option<String>,
    /// The definition of an execution.
    pub definition: Option<String>,
    /// The labels. Without them a start has none, and those of anything else are not known.
    pub labels: Option<Labels>,
    /// The role of a task, for `work`.
    pub task_role: Option<String>,
    /// The expected decision.
    pub expect: Option<Expected>,
    /// The rule that is expected to allow it.
    pub rule: Option<String>,
}

/// An expected decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// A rule allows it.
    Allow,
    /// No rule allows it.
    Deny,
}

/// Why a case is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CaseError {
    /// The caller.
    #[error(transparent)]
    Caller(#[from] Unfit),
    /// The permission.
    #[error(transparent)]
    Permission(#[from] UnknownPermission),
    /// The object.
    #[error(
        "`{0}` is not an object; write definitions/ID, providers/ID, providers/ID/definitions/ID or \
         providers/ID/executions/ID"
    )]
    Object(String),
    /// The object names another provider.
    #[error("the object belongs to another provider than `{0}`")]
    Provider(String),
}

/// A case that can be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Who asks.
    pub caller: Identity,
    /// What for.
    pub permission: Permission,
    provider: Option<String>,
    definition: Option<String>,
    labels: Option<Labels>,
    role: Option<String>,
}

impl Case {
    /// The question behind the words.
    ///
    /// # Errors
    /// A word that does not fit.
    pub fn question(&self) -> Result<Question, CaseError> {
        let roles = self.role.texts();
        let caller = Identity::new(Method::ApiKey, &self.subject, roles, self.tenant.as_deref())?;
        let permission: Permission = self.may.parse()?;
        let (of_object, definition) = object(&self.on)?;
        if let (Some(one), Some(other)) = (&of_object, &self.provider)
            && one != other
        {
            return Err(CaseError::Provider(other.clone()));
        }
        let full = |text: &String| {
            if text.contains('/') {
                text.clone()
            } else {
                format!("definitions/{text}")
            }
        };
        let labels = match (&self.labels, permission) {
            // A start says which labels it has.
            (None, Permission::Start) => Some(Labels::new()),
            (labels, _) => labels.clone(),
        };
        Ok(Question {
            caller,
            permission,
            provider: of_object.or_else(|| self.provider.clone()),
            definition: definition.or_else(|| self.definition.as_ref().map(full)),
            labels,
            role: self.task_role.clone(),
        })
    }
}

impl Question {
    /// What the caller wants to touch.
    #[must_use]
    pub fn object(&self) -> Object<'_> {
        Object {
            provider: self.provider.as_deref(),
            definition: self.definition.as_deref(),
            labels: match &self.labels {
                Some(labels) => KnownLabels::All(labels),
                None => KnownLabels::Unknown,
            },
            role: self.role.as_deref(),
        }
    }

    /// Takes a provider as given if none is.
    pub fn default_provider(&mut self, provider: &str) {
        self.provider.get_or_insert_with(|| provider.to_owned());
    }
}

/// The provider and the definition of an object.
fn object(text: &str) -> Result<(Option<String>, Option<String>), CaseError> {
    if text.is_empty() {
        return Ok((None, None));
    }
    if let Ok(name) = text.parse::<ExecutionName>() {
        return Ok((Some(name.provider.to_string()), None));
    }
    if let Ok(name) = text.parse::<DefinitionName>() {
        let provider = name.provider.as_ref().map(ToString::to_string);
        return Ok((provider, Some(name.to_string())));
    }
    let provider = text.strip_prefix("providers/");
    let provider = provider.filter(|id| !id.is_empty() && !id.contains('/'));
    match provider {
        Some(id) => Ok((Some(id.to_owned()), None)),
        None => Err(CaseError::Object(text.to_owned())),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cases: Vec<Case>,
}

/// The cases of a file.
///
/// # Errors
/// A text that is no TOML, has other keys, or has no case.
pub fn parse(text: &str) -> Result<Vec<Case>, RuleError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line
            .map(|line| format!("line {line}: "))
            .unwrap_or_default();
        RuleError::File(format!("{line}{}", error.message()))
    })?;
    if file.cases.is_empty() {
        return Err(RuleError::File("the file has no [[cases]]".to_owned()));
    }
    if let Some(at) = file.cases.iter().position(|case| case.expect.is_none()) {
        let number = at + 1;
        return Err(RuleError::File(format!(
            "case {number} has no `expect`; write \"allow\" or \"deny\""
        )));
    }
    Ok(file.cases)
}
