//! Why a request is allowed or denied: the rule that decides, or what each rule lacks.

use std::fmt;
use std::sync::Arc;

use stateway_identity::Identity;

use crate::condition::{Examined, missing};
use crate::{Decision, Object, Permission, Rule, Rules};

/// A decision and what every rule says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// Every rule, in the order of the configuration.
    pub findings: Vec<Finding>,
}

/// The result of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule.
    pub rule: Arc<str>,
    /// Whether it allows the request, or what it lacks.
    pub verdict: Verdict,
}

/// The result of a rule for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It allows the request.
    Allows,
    /// It is about other callers; it gives the permission.
    OtherCallers,
    /// The rule matches the caller, but does not give the permission.
    NotPermitted {
        /// What it gives.
        may: Vec<Permission>,
    },
    /// It uses a value that the caller does not have.
    CallerLacks(&'static str),
    /// Its condition does not hold.
    ConditionFails(String),
    /// Its condition depends on parts of the object that are not known.
    ConditionUnknown(String),
    /// It is about other callers, and does not give the permission either.
    Unrelated,
}

impl Verdict {
    /// Whether a refusal is better understood with it: the rule is about the caller, or gives the
    /// permission.
    #[must_use]
    pub fn is_near(&self) -> bool {
        *self != Self::Unrelated
    }
}

impl Rules {
    /// The result of every rule for a request.
    #[must_use]
    pub fn explain(
        &self,
        caller: &Identity,
        permission: Permission,
        object: &Object<'_>,
    ) -> Explanation {
        let findings = self.iter().map(|rule| Finding {
            rule: Arc::clone(&rule.name),
            verdict: rule.verdict(caller, permission, object),
        });
        Explanation {
            decision: self.grants(caller).decide(permission, object),
            findings: findings.collect(),
        }
    }
}

impl Rule {
    fn verdict(&self, caller: &Identity, permission: Permission, object: &Object<'_>) -> Verdict {
        match (self.is_for(caller), self.may.has(permission)) {
            (false, false) => return Verdict::Unrelated,
            (false, true) => return Verdict::OtherCallers,
            (true, false) => {
                let may = self.may.iter().collect();
                return Verdict::NotPermitted { may };
            }
            (true, true) => {}
        }
        let Some(filter) = self.resolved(caller) else {
            return Verdict::CallerLacks(missing(&self.filter, caller).unwrap_or_default());
        };
        let examined = Examined::new(object);
        if filter.must_hold(&|test| test.holds(&examined)) {
            Verdict::Allows
        } else if filter.may_hold(&|test| test.holds(&examined)) {
            Verdict::ConditionUnknown(self.condition.clone())
        } else {
            Verdict::ConditionFails(self.condition.clone())
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allows => f.write_str("allows it"),
            Self::OtherCallers => {
                f.write_str("gives the permission to other callers: `who` does not match")
            }
            Self::NotPermitted { may } => {
                let may: Vec<_> = may.iter().map(|one| one.as_str()).collect();
                write!(f, "matches the caller, but gives only {}", may.join(", "))
            }
            Self::CallerLacks(what) => {
                write!(f, "uses caller.{what}, and the caller has no {what}")
            }
            Self::ConditionFails(condition) => {
                write!(f, "the condition does not hold: {condition}")
            }
            Self::ConditionUnknown(condition) => write!(
                f,
                "the condition depends on something that is not given: {condition}"
            ),
            Self::Unrelated => f.write_str("matches neither the caller nor the permission"),
        }
    }
}
