//! The rules of a good script.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Script, StepScript};

/// The most steps of a script.
pub const MOST_STEPS: usize = 100;
/// The most attempts of a step.
pub const MOST_ATTEMPTS: u32 = 100;

/// Why a script cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// Not a script at all.
    #[error("{0}")]
    Syntax(String),
    /// Nothing to do.
    #[error("a script needs steps, or a pose")]
    Empty,
    /// Both to do something and to do nothing.
    #[error("a script has either steps or a pose")]
    Both,
    /// Too much to do.
    #[error("a script has at most {MOST_STEPS} steps")]
    TooLong,
    /// A step breaks a rule.
    #[error("step `{step}`: {rule}")]
    Step {
        /// Its name.
        step: String,
        /// The rule.
        rule: &'static str,
    },
}

impl Script {
    /// Reads and checks a script from JSON.
    ///
    /// # Errors
    /// Syntax, unknown fields, or a rule that is broken.
    pub fn from_json(text: &[u8]) -> Result<Self, ScriptError> {
        let script: Self =
            serde_json::from_slice(text).map_err(|error| ScriptError::Syntax(error.to_string()))?;
        script.check()?;
        Ok(script)
    }

    /// Checks a script that was read elsewhere.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ScriptError> {
        match (self.steps.is_empty(), &self.pose) {
            (true, None) => return Err(ScriptError::Empty),
            (false, Some(_)) => return Err(ScriptError::Both),
            _ => {}
        }
        let steps = || self.steps.iter().flat_map(|stage| stage.steps());
        if steps().count() > MOST_STEPS {
            return Err(ScriptError::TooLong);
        }
        if self.steps.iter().any(|stage| stage.steps().is_empty()) {
            return Err(ScriptError::Empty);
        }
        let mut names = BTreeSet::new();
        for step in steps() {
            let broken = match broken_rule(step) {
                None if !names.insert(&step.name) => Some("the name is used twice"),
                rule => rule,
            };
            if let Some(rule) = broken {
                let step = step.name.clone();
                return Err(ScriptError::Step { step, rule });
            }
        }
        Ok(())
    }
}

fn broken_rule(step: &StepScript) -> Option<&'static str> {
    if step.name.is_empty() {
        return Some("the name is empty");
    }
    if !(1..=MOST_ATTEMPTS).contains(&step.retry.max_attempts) {
        return Some("`max_attempts` is 1 to 100");
    }
    if !(1.0..=100.0).contains(&step.retry.factor) {
        return Some("`factor` is 1 to 100");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Script::from_json(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_script_that_cannot_be_followed_is_refused_with_the_rule() {
        assert_eq!(refused("{}"), "a script needs steps, or a pose");
        assert_eq!(
            refused(r#"{"steps":[{"parallel":[]}]}"#),
            "a script needs steps, or a pose"
        );
        assert_eq!(
            refused(r#"{"steps":[{"name":"a"},{"name":"a"}]}"#),
            "step `a`: the name is used twice"
        );
        assert_eq!(
            refused(r#"{"steps":[{"name":"a","retry":{"max_attempts":0}}]}"#),
            "step `a`: `max_attempts` is 1 to 100"
        );
        assert!(refused(r#"{"steps":[{"name":"a","speed":1}]}"#).contains("unknown field `speed`"));
        assert!(
            refused(r#"{"steps":[{"name":"a","takes":"-1s"}]}"#).contains("duration of 0 or more")
        );
    }
}
