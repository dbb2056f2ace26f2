//! Policy rules as they are written in the configuration. Every mistake has the place of the value
//! that is wrong, or of the rule where two values contradict each other.

use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stateway_engine::PolicyVerdict;
use stateway_provider_api::filter::Filter;
use stateway_provider_api::nearest;

use super::{MOST_RULES, PolicyCondition, Rule, Rules};
use crate::config::duration;

/// The longest name of a rule or a role, in bytes.
const LONGEST_NAME: usize = 100;
/// The longest message, in bytes: it becomes part of an event.
const LONGEST_MESSAGE: usize = 1_000;

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(rename = "policy rule", deny_unknown_fields)]
struct Written {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default = "everything", deserialize_with = "filter")]
    when: Filter<PolicyCondition>,
    #[serde(deserialize_with = "decision")]
    decision: Decision,
    #[serde(default, deserialize_with = "message")]
    message: Option<String>,
    #[serde(default, deserialize_with = "role")]
    role: Option<String>,
    #[serde(default, deserialize_with = "expiry")]
    expires_after: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Allow,
    Deny,
    RequireApproval,
}

impl Decision {
    const ALL: [Self; 3] = [Self::Allow, Self::Deny, Self::RequireApproval];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require-approval",
        }
    }
}

impl Written {
    /// The rule, if its keys fit its decision and no rule before it has its name.
    fn rule(self, before: &[Rule]) -> Result<Rule, String> {
        let Self {
            name,
            when,
            decision,
            message,
            role,
            expires_after,
        } = self;
        if before.iter().any(|rule| *rule.name == *name) {
            return Err(format!("two policy rules have the name `{name}`"));
        }
        let belongs = [
            ("message", message.is_some(), Decision::Deny),
            ("role", role.is_some(), Decision::RequireApproval),
            (
                "expires_after",
                expires_after.is_some(),
                Decision::RequireApproval,
            ),
        ];
        for (key, given, to) in belongs {
            if given && decision != to {
                let (to, decision) = (to.as_str(), decision.as_str());
                return Err(format!(
                    "policy rule `{name}`: `{key}` belongs to the decision `{to}`, not `{decision}`"
                ));
            }
        }
        let verdict = match (decision, role) {
            (Decision::Allow, _) => PolicyVerdict::Allow,
            (Decision::Deny, _) => PolicyVerdict::Deny {
                message: message.unwrap_or_default().into(),
            },
            (Decision::RequireApproval, Some(role)) => PolicyVerdict::RequireApproval {
                role: role.into(),
                expires_after,
            },
            (Decision::RequireApproval, None) => {
                return Err(format!(
                    "policy rule `{name}` needs `role`: the role that may approve"
                ));
            }
        };
        Ok(Rule {
            name: name.into(),
            when,
            verdict,
        })
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Rules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of policy rules")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Rules, A::Error> {
                let mut rules = Vec::new();
                while let Some(rule) = from.next_element_seed(Next { before: &rules })? {
                    rules.push(rule);
                }
                Ok(Rules(rules))
            }
        }
        from.deserialize_seq(List)
    }
}

/// The rule after these.
struct Next<'r> {
    before: &'r [Rule],
}

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = Rule;

    /// As a newtype, so that a mistake of the rule as a whole is shown at the place of the rule.
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Rule, D::Error> {
        from.deserialize_newtype_struct("policy rule", self)
    }
}

impl<'de> Visitor<'de> for Next<'_> {
    type Value = Rule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy rule")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Rule, D::Error> {
        let written = Written::deserialize(from)?;
        if self.before.len() >= MOST_RULES {
            let message = format!("a provider has at most {MOST_RULES} policy rules");
            return Err(D::Error::custom(message));
        }
        written.rule(self.before).map_err(D::Error::custom)
    }
}

fn text<'de, D: Deserializer<'de>>(from: D, key: &str, longest: usize) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom(format!("`{key}` must not be empty")));
    }
    if text.len() > longest {
        let message = format!("`{key}` must have at most {longest} bytes");
        return Err(D::Error::custom(message));
    }
    Ok(text)
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    text(from, "name", LONGEST_NAME)
}

fn role<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "role", LONGEST_NAME).map(Some)
}

fn message<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "message", LONGEST_MESSAGE).map(Some)
}

fn expiry<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let after = duration(from)?;
    if after.is_zero() {
        return Err(D::Error::custom(
            "`expires_after` must be greater than zero",
        ));
    }
    Ok(Some(after))
}

fn decision<'de, D: Deserializer<'de>>(from: D) -> Result<Decision, D::Error> {
    let word = String::deserialize(from)?;
    let mut known = Decision::ALL.into_iter();
    if let Some(decision) = known.find(|decision| decision.as_str() == word) {
        return Ok(decision);
    }
    let words = Decision::ALL.map(Decision::as_str);
    let meant = nearest(&word, words).map(|meant| format!("; did you mean `{meant}`?"));
    let known = format!("; known: {}", words.join(", "));
    let hint = meant.unwrap_or(known);
    Err(D::Error::custom(format!(
        "`{word}` is not a decision{hint}"
    )))
}

fn everything() -> Filter<PolicyCondition> {
    Filter::And(Vec::new())
}

/// The column in the file is computed from the position of the text; the column inside the text is part of the
/// message.
fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<Filter<PolicyCondition>, D::Error> {
    let text = String::deserialize(from)?;
    Filter::parse_as(&text).map_err(|error| {
        let hint = match error.hint.as_str() {
            "" => String::new(),
            hint => format!(" ({hint})"),
        };
        D::Error::custom(format!("`when`: {error}{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use crate::Config;

    /// Line of the mistake and its message.
    #[track_caller]
    fn mistake(text: &str) -> (usize, String) {
        let error = toml::from_str::<Config>(text).expect_err("it is wrong");
        let at = error.span().map_or(0, |span| span.start);
        let line = text[..at].matches('\n').count() + 1;
        (line, error.message().to_owned())
    }

    fn rule(more: &str) -> String {
        format!("[[policy]]\nname = \"r\"\n{more}\n")
    }

    #[test]
    fn a_mistake_in_a_value_has_the_place_of_the_value() {
        for (more, line, words) in [
            ("decision = \"denny\"", 3, "did you mean `deny`?"),
            ("decision = \"maybe\"", 3, "known: allow, deny"),
            (
                "decision = \"deny\"\nwhen = 'setp = a'",
                4,
                "`when`: `setp` is not a field at column 1 (Did you mean `step`?",
            ),
            (
                "decision = \"deny\"\nmesage = 'x'",
                4,
                "unknown field `mesage`",
            ),
            (
                "decision = \"deny\"\nmessage = ''",
                4,
                "`message` must not be empty",
            ),
            (
                "decision = \"require-approval\"\nrole = 'x'\nexpires_after = '0s'",
                5,
                "greater than zero",
            ),
        ] {
            let (at, message) = mistake(&rule(more));
            assert!(message.contains(words), "{message}");
            assert_eq!(at, line, "{message}");
        }
    }

    #[test]
    fn a_mistake_of_the_rule_has_the_place_of_the_rule() {
        let good = rule("decision = \"allow\"");
        for (more, words) in [
            ("decision = \"allow\"", "two policy rules have the name `r`"),
            ("", "missing field `decision`"),
        ] {
            let (line, message) = mistake(&format!("{good}{}", rule(more)));
            assert!(message.contains(words), "{message}");
            assert_eq!(line, 4, "{message}");
        }
        for (more, words) in [
            (
                "decision = \"require-approval\"",
                "policy rule `r` needs `role`",
            ),
            (
                "decision = \"allow\"\nmessage = \"no\"",
                "`message` belongs to the decision `deny`, not `allow`",
            ),
            (
                "decision = \"deny\"\nrole = \"x\"",
                "`role` belongs to the decision `require-approval`, not `deny`",
            ),
        ] {
            let (line, message) = mistake(&rule(more));
            assert!(message.contains(words), "{message}");
            assert_eq!(line, 1, "{message}");
        }
    }
}
