//! What one identity may do: the rules that concern it, with its own values in them.

use std::sync::Arc;

use stateway_provider_api::filter::{DefinitionPattern, Equality, Filter};

use crate::condition::{Examined, Field, Test};
use crate::{Object, Permission};

/// The permissions of one identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    by_permission: [Vec<Grant>; Permission::ALL.len()],
}

/// One rule that gives the identity a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    rule: Arc<str>,
    filter: Filter<Test>,
}

/// The answer to a request for one permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether a rule allows it.
    pub allowed: bool,
    /// The name of the rule that allows it: the first one of the configuration that does.
    pub rule: Option<Arc<str>>,
    /// The request.
    pub permission: Permission,
}

/// What every object has for which a permission is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Required {
    /// The definition, if there is only one.
    pub definition: Option<DefinitionPattern>,
    /// Labels with their values.
    pub labels: Vec<(String, String)>,
}

impl Required {
    /// The conditions of one rule.
    fn by(filter: &Filter<Test>) -> Self {
        let mut required = Self::default();
        for test in filter.required() {
            match test {
                Test::Definition(Equality::Is, patterns) => {
                    if let [one] = patterns.as_slice()
                        && !one.has_wildcard()
                    {
                        required.definition = Some(one.clone());
                    }
                }
                Test::Text(Field::Label(key), Equality::Is, patterns) => {
                    if let [one] = patterns.as_slice()
                        && let Some(value) = one.literal()
                    {
                        required.labels.push((key.clone(), value.to_owned()));
                    }
                }
                Test::Definition(..) | Test::Text(..) | Test::Has(_) | Test::HasLabels => {}
            }
        }
        required
    }

    /// The conditions that two rules have in common.
    fn common(mut self, other: &Self) -> Self {
        if self.definition != other.definition {
            self.definition = None;
        }
        self.labels.retain(|label| other.labels.contains(label));
        self
    }
}

impl Grants {
    pub(crate) fn add(&mut self, permission: Permission, rule: &Arc<str>, filter: &Filter<Test>) {
        self.by_permission[permission.index()].push(Grant {
            rule: Arc::clone(rule),
            filter: filter.clone(),
        });
    }

    /// Whether a rule certainly allows this: a condition on a part of the object that is not known does
    /// not hold.
    #[must_use]
    pub fn decide(&self, permission: Permission, object: &Object<'_>) -> Decision {
        let examined = Examined::new(object);
        let grants = self.of(permission).iter();
        let rule = grants
            .filter(|grant| grant.filter.must_hold(&|test| test.holds(&examined)))
            .map(|grant| Arc::clone(&grant.rule))
            .next();
        Decision {
            allowed: rule.is_some(),
            rule,
            permission,
        }
    }

    /// The same as [`decide`](Self::decide), without the name of the rule.
    #[must_use]
    pub fn allows(&self, permission: Permission, object: &Object<'_>) -> bool {
        let examined = Examined::new(object);
        let mut grants = self.of(permission).iter();
        grants.any(|grant| grant.filter.must_hold(&|test| test.holds(&examined)))
    }

    /// Whether a rule can allow this, whatever the parts are that are not known.
    #[must_use]
    pub fn may_allow(&self, permission: Permission, object: &Object<'_>) -> bool {
        let examined = Examined::new(object);
        let mut grants = self.of(permission).iter();
        grants.any(|grant| grant.filter.may_hold(&|test| test.holds(&examined)))
    }

    /// Whether any rule gives this permission for anything.
    #[must_use]
    pub fn has(&self, permission: Permission) -> bool {
        !self.of(permission).is_empty()
    }

    /// Whether the identity has any permission for something that may be this.
    #[must_use]
    pub fn concern(&self, object: &Object<'_>) -> bool {
        let mut all = Permission::ALL.into_iter();
        all.any(|permission| self.may_allow(permission, object))
    }

    /// What everything of this provider must have for the permission, as far as each rule that gives it says
    /// so. A provider may narrow its query to it.
    #[must_use]
    pub fn required(&self, permission: Permission, provider: &str) -> Required {
        let object = Object::of_provider(provider);
        let examined = Examined::new(&object);
        let grants = self.of(permission).iter();
        let able = grants.filter(|grant| grant.filter.may_hold(&|test| test.holds(&examined)));
        let each = able.map(|grant| Required::by(&grant.filter));
        each.reduce(|all, one| all.common(&one)).unwrap_or_default()
    }

    fn of(&self, permission: Permission) -> &[Grant] {
        &self.by_permission[permission.index()]
    }
}
