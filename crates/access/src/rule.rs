//! One rule: who may what where.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_identity::{Glob, Identity};
use stateway_provider_api::filter::Filter;

use crate::condition::{self, Test, Written};
use crate::{Permission, Permissions};

/// The longest name of a rule, in bytes.
const LONGEST_NAME: usize = 64;

/// A rule as it is written in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The name in explanations, errors and records.
    pub name: String,
    /// The identities.
    pub who: WhoSpec,
    /// Permissions and presets.
    pub may: OneOrMany,
    /// The condition; without one the rule holds everywhere.
    #[serde(default, rename = "where", skip_serializing_if = "String::is_empty")]
    pub condition: String,
}

impl RuleSpec {
    /// The name of a rule in errors: its number if it has none.
    pub(crate) fn label(&self, number: usize) -> String {
        if self.name.is_empty() {
            number.to_string()
        } else {
            self.name.clone()
        }
    }
}

/// A setting of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setting {
    Name,
    Who,
    May,
    Where,
}

/// What is wrong with a setting.
type Wrong = (Setting, String);

/// `who`: every key that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WhoSpec {
    /// Patterns for the subject.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub subject: OneOrMany,
    /// Patterns for the roles; one role that matches is enough.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub role: OneOrMany,
    /// Patterns for the tenant. A caller without a tenant matches none.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub tenant: OneOrMany,
}

/// A text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One text.
    One(String),
    /// Any number of texts.
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    /// The texts.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts().is_empty()
    }
}

/// A rule that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(crate) name: Arc<str>,
    who: Who,
    pub(crate) may: Permissions,
    pub(crate) filter: Filter<Written>,
    /// The condition as it is written.
    pub(crate) condition: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Who {
    subjects: Vec<Glob>,
    roles: Vec<Glob>,
    tenants: Vec<Glob>,
}

impl Rule {
    /// The rule behind a text, or everything that is wrong with it.
    pub(crate) fn new(spec: &RuleSpec) -> Result<Self, Vec<Wrong>> {
        let mut wrong = Vec::new();
        let is_plain = |byte: u8| byte.is_ascii_graphic();
        if !(1..=LONGEST_NAME).contains(&spec.name.len()) || !spec.name.bytes().all(is_plain) {
            let message = format!(
                "`name` must be 1 to {LONGEST_NAME} printable ASCII characters without blanks"
            );
            wrong.push((Setting::Name, message));
        }
        let who = Who::new(&spec.who);
        wrong.extend(Who::wrong(&spec.who));
        let (may, unknown) = permissions(&spec.may);
        wrong.extend(unknown.into_iter().map(|why| (Setting::May, why)));
        let filter: Option<Filter<Written>> = match Filter::parse_as(&spec.condition) {
            Ok(filter) => Some(filter),
            Err(error) => {
                let message = format!("`where`: {error}. {}", error.hint);
                wrong.push((Setting::Where, message.trim_end().to_owned()));
                None
            }
        };
        let (Some(filter), true) = (filter, wrong.is_empty()) else {
            return Err(wrong);
        };
        let rule = Self {
            name: spec.name.as_str().into(),
            who,
            may,
            filter,
            condition: spec.condition.clone(),
        };
        match rule.check_work() {
            Ok(()) => Ok(rule),
            Err(message) => Err(vec![(Setting::Where, message)]),
        }
    }

    /// A worker offers roles and a tenant before it receives tasks: only these can be told apart.
    fn check_work(&self) -> Result<(), String> {
        let tests = |test: &dyn Fn(&condition::Field) -> bool| {
            self.filter
                .any(&|written| written.field().is_some_and(test))
        };
        let names_role = tests(&|field| *field == condition::Field::Role);
        if names_role && !self.may.is_only(Permission::Work) {
            return Err(
                "`where`: `role` is the role of a task, which only rules with may = \"work\" can \
                 test"
                    .to_owned(),
            );
        }
        if self.may.has(Permission::Work) && tests(&|field| !field.is_of_offers()) {
            return Err(
                "`where`: a rule for `work` can test `provider`, `role` and `labels.tenant` only; \
                 write a second rule for the other permissions"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether the rule is about an identity.
    #[must_use]
    pub fn is_for(&self, caller: &Identity) -> bool {
        let Who {
            subjects,
            roles,
            tenants,
        } = &self.who;
        let fits = |globs: &[Glob], text: &str| globs.iter().any(|glob| glob.fits(text));
        let has_role = || caller.roles.iter().any(|role| fits(roles, role));
        let has_tenant = || caller.tenant.as_ref().is_some_and(|it| fits(tenants, it));
        (subjects.is_empty() || fits(subjects, &caller.subject))
            && (roles.is_empty() || has_role())
            && (tenants.is_empty() || has_tenant())
    }

    /// The condition with the values of a caller; none if the caller lacks one of them.
    pub(crate) fn resolved(&self, caller: &Identity) -> Option<Filter<Test>> {
        condition::resolved(&self.filter, caller)
    }
}

/// The permissions of a rule, and the words that are none.
fn permissions(may: &OneOrMany) -> (Permissions, Vec<String>) {
    let words = || {
        may.texts()
            .iter()
            .map(|word| (word, Permissions::parse([word])))
    };
    let unknown = words().filter_map(|(_, parsed)| parsed.err());
    let mut wrong: Vec<String> = unknown.map(|error| format!("`may`: {error}")).collect();
    if may.is_empty() {
        wrong.push("`may` must have at least one permission".to_owned());
    }
    let known = words()
        .filter(|(_, parsed)| parsed.is_ok())
        .map(|(word, _)| word);
    (Permissions::parse(known).unwrap_or_default(), wrong)
}

impl Who {
    fn new(spec: &WhoSpec) -> Self {
        let globs = |texts: &OneOrMany| texts.texts().iter().map(Glob::new).collect();
        Self {
            subjects: globs(&spec.subject),
            roles: globs(&spec.role),
            tenants: globs(&spec.tenant),
        }
    }

    /// What is wrong with `who`.
    fn wrong(spec: &WhoSpec) -> Vec<Wrong> {
        let keys = [
            ("subject", &spec.subject),
            ("role", &spec.role),
            ("tenant", &spec.tenant),
        ];
        if keys.iter().all(|(_, texts)| texts.is_empty()) {
            let message = "`who` must have a `subject`, a `role` or a `tenant`; write \
                           { subject = \"*\" } for every caller";
            return vec![(Setting::Who, message.to_owned())];
        }
        let has_empty = |texts: &OneOrMany| texts.texts().iter().any(String::is_empty);
        let empty = keys.into_iter().filter(|(_, texts)| has_empty(texts));
        let message = |key: &str| format!("`who.{key}` must not be empty");
        empty.map(|(key, _)| (Setting::Who, message(key))).collect()
    }
}
