//! Policy rules of the configuration. The engine asks them before it hands out a task or calls an
//! HTTP step, and records what they decide.

mod condition;
mod read;
mod rule;

use stateway_engine::{Policy, PolicyQuestion, Ruling};

pub use condition::{Amount, PolicyCondition, PolicyField};
pub use rule::Rule;

/// The most rules of one provider: each task that is handed out is compared with all of them.
const MOST_RULES: usize = 1_000;

/// The rules of one provider, in the order in which they are checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Whether there is no rule, so that nothing has to be asked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Policy for Rules {
    fn decide(&self, question: &PolicyQuestion<'_>) -> Option<Ruling> {
        let rule = self.0.iter().find(|rule| rule.applies_to(question))?;
        Some(rule.ruling())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stateway_engine::PolicyVerdict;
    use stateway_model::Usage;

    use super::*;
    use crate::Config;

    fn decide(text: &str, change: impl FnOnce(&mut PolicyQuestion<'_>)) -> Option<Ruling> {
        let config: Config = toml::from_str(text).unwrap();
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let mut question = PolicyQuestion {
            execution: "e-1",
            definition: "deploy",
            step: "promote",
            kind: "task",
            role: "deployer",
            skill: "kubernetes",
            action: "promote the release".to_owned(),
            labels: &labels,
            tenant: "acme",
            initiator: "ada",
            attempt: 2,
            usage: Usage {
                input_tokens: 700,
                output_tokens: 300,
                cost_micros: 2_500_000,
            },
        };
        change(&mut question);
        config.policy.decide(&question)
    }

    fn holds(when: &str) -> bool {
        let text = format!("policy = [{{ name = \"r\", when = '{when}', decision = \"allow\" }}]");
        decide(&text, |_| {}).is_some()
    }

    #[test]
    fn every_field_can_be_asked_for() {
        for when in [
            "definition = deploy",
            "definition = \"definitions/deploy\"",
            "definition != release",
            "definition = dep*",
            "action = \"promote*\"",
            "labels.env = p*",
            "labels.env:*",
            "labels:*",
            "role:*",
            "step = promote",
            "kind = task",
            "role = deployer",
            "skill = kubernetes",
            "action = \"promote the release\"",
            "labels.env = prod",
            "labels:env",
            "labels.team != a",
            "tenant = acme",
            "initiator = ada",
            "attempt >= 2",
            "cost >= 2.5",
            "cost < 2.500001",
            "tokens = 1000",
            "definition = deploy AND labels.env = prod AND step = promote",
        ] {
            assert!(holds(when), "{when}");
            assert!(!holds(&format!("NOT ({when})")), "NOT ({when})");
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides_and_none_decides_nothing() {
        let text = r#"
            [[policy]]
            name = "small"
            when = "cost < 1"
            decision = "allow"
            [[policy]]
            name = "no-prod"
            when = 'labels.env = "prod"'
            decision = "deny"
            message = "production is frozen"
            [[policy]]
            name = "rest"
            decision = "require-approval"
            role = "release-managers"
            expires_after = "4h"
        "#;
        let rule = |rule: &str, verdict| {
            Some(Ruling {
                rule: rule.into(),
                verdict,
            })
        };
        let message = "production is frozen".into();
        let denied = rule("no-prod", PolicyVerdict::Deny { message });
        assert_eq!(decide(text, |_| {}), denied);
        let cheap = |question: &mut PolicyQuestion<'_>| question.usage = Usage::default();
        assert_eq!(decide(text, cheap), rule("small", PolicyVerdict::Allow));
        let none = BTreeMap::new();
        let config: Config = toml::from_str(text).unwrap();
        let asks = config.policy.decide(&PolicyQuestion {
            execution: "e-1",
            definition: "other",
            step: "s",
            kind: "http",
            role: "",
            skill: "",
            action: "GET https://example.com/".to_owned(),
            labels: &none,
            tenant: "",
            initiator: "",
            attempt: 1,
            usage: Usage {
                cost_micros: 1_000_000,
                ..Usage::default()
            },
        });
        let approval = PolicyVerdict::RequireApproval {
            role: "release-managers".into(),
            expires_after: Some(std::time::Duration::from_secs(4 * 3_600)),
        };
        assert_eq!(asks, rule("rest", approval));
        assert_eq!(decide("policy = []", |_| {}), None);
    }

    #[test]
    fn the_documentation_names_every_field_and_its_rules_are_valid() {
        let page = include_str!("../../../docs/builtin.md");
        let section = page
            .split("\n## Policy rules and budgets\n")
            .nth(1)
            .unwrap();
        let section = section.split("\n## ").next().unwrap();
        for field in <PolicyCondition as stateway_provider_api::filter::Condition>::FIELDS {
            assert!(section.contains(&format!("`{field}`")), "{field}");
        }
        let block = section.split("```toml\n").nth(1).unwrap();
        let block = block.split("```").next().unwrap();
        let rules = block.replace("providers.builtin.", "");
        let config: Config = toml::from_str(&rules).unwrap();
        assert_eq!(config.policy.0.len(), 3);
        let example = include_str!("../../../docs/stateway.example.toml");
        let rule = example.split("#[[providers.builtin.policy]]\n").nth(1);
        let rule = rule.and_then(|rest| rest.split("\n\n").next()).unwrap();
        let keys = rule.lines().filter(|line| !line.starts_with("# "));
        let keys: Vec<_> = keys.map(|line| line.trim_start_matches('#')).collect();
        let rule = format!("[[policy]]\n{}", keys.join("\n"));
        let config: Config = toml::from_str(&rule).unwrap();
        assert_eq!(config.policy.0.len(), 1);
    }
}
