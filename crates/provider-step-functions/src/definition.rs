//! A state machine's definition, as far as it determines what follows a failure and how long a Wait
//! takes. Not a validator: what cannot be understood is left out, and then nothing is claimed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::retrier::Retrier;

/// How deep Parallel and Map states may lie within each other before the rest is left out.
const DEEPEST: usize = 64;

/// What is known of a state machine's states.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definition {
    /// By name; names are unique within a state machine.
    states: BTreeMap<String, State>,
}

/// One state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// `Task`, `Wait` and so on.
    pub kind: String,
    /// The Parallel or Map state around it; none at the top.
    pub container: Option<String>,
    /// In the order in which they are asked.
    pub retriers: Vec<Retrier>,
    /// What each catcher takes.
    pub catchers: Vec<Vec<String>>,
    /// How long a Wait takes, where the definition says.
    pub wait: Option<WaitTime>,
    /// The error of a Fail state, where the definition says.
    pub error: Option<String>,
    /// The cause of a Fail state, where the definition says.
    pub cause: Option<String>,
    /// Where in a task's parameters its token is to be found.
    pub token_path: Option<Vec<String>>,
    /// What a task calls, where the definition says.
    pub resource: Option<String>,
    /// Whether and how its parameters say whose task it is.
    pub address: Option<Addressing>,
    /// A signal answers it.
    pub for_people: bool,
}

/// What the member `stateway` of a task's parameters has beside the execution and the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addressing {
    /// The iteration of the Map around it.
    pub index: bool,
}

/// How long a Wait takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WaitTime {
    /// From the moment it is entered.
    Seconds(f64),
    /// Until then.
    Until(Timestamp),
}

impl Definition {
    /// Reads a definition. What is no definition has no states.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut definition = Self::default();
        if let Ok(Value::Object(machine)) = serde_json::from_str(text) {
            definition.read_states(&machine, None, 0);
        }
        definition
    }

    /// The same, when people answer the tasks of these activities. Only what says whose it is can
    /// be answered.
    #[must_use]
    pub fn with_people(mut self, activities: &[String]) -> Self {
        for state in self.states.values_mut() {
            let resource = state.resource.as_ref();
            let named = resource.is_some_and(|resource| activities.contains(resource));
            state.for_people = named && state.address.is_some();
        }
        self
    }

    /// The state of this name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.get(name)
    }

    /// Whether the state lies in no Parallel or Map. When such a state is entered, whatever came
    /// before it is over: the top of a state machine is one sequence.
    #[must_use]
    pub fn is_top(&self, name: &str) -> bool {
        self.state(name)
            .is_some_and(|state| state.container.is_none())
    }

    fn read_states(&mut self, machine: &Map<String, Value>, container: Option<&str>, depth: usize) {
        let Some(Value::Object(states)) = machine.get("States") else {
            return;
        };
        for (name, state) in states {
            let Value::Object(state) = state else {
                continue;
            };
            self.states
                .insert(name.clone(), read_state(state, container));
            if depth == DEEPEST {
                continue;
            }
            let branches = state.get("Branches").and_then(Value::as_array);
            let inner = branches.into_iter().flatten();
            let inner = inner.chain(state.get("ItemProcessor"));
            for part in inner.chain(state.get("Iterator")) {
                // The items of a distributed map are executions of their own.
                let mode = part
                    .pointer("/ProcessorConfig/Mode")
                    .and_then(Value::as_str);
                if let (Value::Object(part), false) = (part, mode == Some("DISTRIBUTED")) {
                    self.read_states(part, Some(name), depth + 1);
                }
            }
        }
    }
}

fn read_state(state: &Map<String, Value>, container: Option<&str>) -> State {
    let text = |key: &str| state.get(key).and_then(Value::as_str);
    let literal = |key: &str| {
        let found = text(key).filter(|text| !is_expression(text));
        found.map(str::to_owned)
    };
    let list = |key: &str| {
        let found = state.get(key).and_then(Value::as_array);
        found.map(Vec::as_slice).unwrap_or_default()
    };
    State {
        kind: text("Type").unwrap_or_default().to_owned(),
        container: container.map(str::to_owned),
        retriers: list("Retry").iter().map(Retrier::read).collect(),
        catchers: list("Catch").iter().map(error_equals).collect(),
        wait: wait_time(state),
        error: literal("Error"),
        cause: literal("Cause"),
        token_path: ["Parameters", "Arguments"]
            .iter()
            .find_map(|key| token_path(state.get(*key)?, 0)),
        resource: literal("Resource"),
        address: ["Parameters", "Arguments"]
            .iter()
            .find_map(|key| addressing(state.get(*key)?.get("stateway")?)),
        for_people: false,
    }
}

/// How the member `stateway` passes on whose task it is, in either query language.
fn addressing(told: &Value) -> Option<Addressing> {
    let passes = |member: &str, of: &str| {
        let json_path = told.get(format!("{member}.$")).and_then(Value::as_str);
        let jsonata = told.get(member).and_then(Value::as_str);
        json_path.is_some_and(|text| text.strip_prefix("$$.") == Some(of))
            || jsonata.is_some_and(|text| context_path(text) == Some(of))
    };
    let whole = passes("execution", "Execution.Id") && passes("state", "State.Name");
    whole.then(|| Addressing {
        index: passes("index", "Map.Item.Index"),
    })
}

/// What of the context object an expression is.
fn context_path(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{%")?.strip_suffix("%}")?;
    inside.trim().strip_prefix("$states.context.")
}

fn is_expression(text: &str) -> bool {
    text.starts_with("{%")
}

fn wait_time(state: &Map<String, Value>) -> Option<WaitTime> {
    if let Some(seconds) = state.get("Seconds").and_then(Value::as_f64) {
        return (seconds >= 0.0).then_some(WaitTime::Seconds(seconds));
    }
    let until = state.get("Timestamp")?.as_str()?;
    until.parse().ok().map(WaitTime::Until)
}

/// The errors that a retrier or catcher names.
pub(crate) fn error_equals(rule: &Value) -> Vec<String> {
    let names = rule.get("ErrorEquals").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Where the parameters pass the task's token on, in either query language.
fn token_path(parameters: &Value, depth: usize) -> Option<Vec<String>> {
    let Value::Object(fields) = parameters else {
        return None;
    };
    fields.iter().find_map(|(key, value)| match value {
        Value::String(text) => {
            let json_path = key.ends_with(".$") && text == "$$.Task.Token";
            let jsonata = context_path(text) == Some("Task.Token");
            let plain = key.strip_suffix(".$").unwrap_or(key);
            (json_path || jsonata).then(|| vec![plain.to_owned()])
        }
        inner if depth < DEEPEST => {
            let mut path = token_path(inner, depth + 1)?;
            path.insert(0, key.clone());
            Some(path)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_states_know_their_container() {
        let definition = Definition::parse(
            r#"{"StartAt":"P","States":{"P":{"Type":"Parallel","Branches":[
                {"StartAt":"M","States":{"M":{"Type":"Map","ItemProcessor":
                    {"StartAt":"T","States":{"T":{"Type":"Task"}}}}}}]},
                "W":{"Type":"Wait","Seconds":5}}}"#,
        );
        let container = |name: &str| definition.state(name).unwrap().container.clone();
        assert_eq!(container("T").as_deref(), Some("M"));
        assert_eq!(container("M").as_deref(), Some("P"));
        assert_eq!(container("P"), None);
        assert!(definition.is_top("W") && !definition.is_top("T") && !definition.is_top("X"));
        let wait = definition.state("W").unwrap().wait;
        assert_eq!(wait, Some(WaitTime::Seconds(5.0)));
    }

    #[test]
    fn the_items_of_a_distributed_map_are_not_its_states() {
        let definition = Definition::parse(
            r#"{"States":{"M":{"Type":"Map","ItemProcessor":{"ProcessorConfig":
                {"Mode":"DISTRIBUTED"},"States":{"T":{"Type":"Task"}}}}}}"#,
        );
        assert_eq!(definition.state("T"), None);
    }

    #[test]
    fn tokens_are_found_in_both_query_languages() {
        let path = |state: &str| {
            let text = format!(r#"{{"States":{{"T":{state}}}}}"#);
            Definition::parse(&text)
                .state("T")
                .unwrap()
                .token_path
                .clone()
        };
        let found = Some(vec!["MessageBody".to_owned(), "token".to_owned()]);
        assert_eq!(
            path(r#"{"Parameters":{"MessageBody":{"token.$":"$$.Task.Token"}}}"#),
            found
        );
        assert_eq!(
            path(r#"{"Arguments":{"MessageBody":{"token":"{% $states.context.Task.Token %}"}}}"#),
            found
        );
        assert_eq!(path(r#"{"Parameters":{"MessageBody.$":"$"}}"#), None);
    }

    #[test]
    fn a_task_that_says_whose_it_is_can_be_for_people() {
        let people = ["arn:people".to_owned()];
        let state = |resource: &str, parameters: &str| {
            let text = format!(
                r#"{{"States":{{"T":{{"Type":"Task","Resource":"{resource}",{parameters}}}}}}}"#
            );
            let definition = Definition::parse(&text).with_people(&people);
            let state = definition.state("T").unwrap();
            (state.address, state.for_people)
        };
        let json_path = r#""Parameters":{"stateway":{"execution.$":"$$.Execution.Id",
            "state.$":"$$.State.Name","index.$":"$$.Map.Item.Index"}}"#;
        let jsonata = r#""Arguments":{"stateway":{"execution":"{% $states.context.Execution.Id %}",
            "state":"{%$states.context.State.Name%}"}}"#;
        let half = r#""Parameters":{"stateway":{"execution.$":"$$.Execution.Id"}}"#;
        let indexed = Some(Addressing { index: true });
        let plain = Some(Addressing { index: false });
        assert_eq!(state("arn:people", json_path), (indexed, true));
        assert_eq!(state("arn:people", jsonata), (plain, true));
        assert_eq!(state("arn:workers", jsonata), (plain, false));
        assert_eq!(state("arn:people", half), (None, false));
    }

    #[test]
    fn what_is_no_definition_has_no_states() {
        for text in [
            "",
            "[]",
            "{\"States\":3}",
            "{\"States\":{\"T\":3}}",
            "nonsense",
        ] {
            assert_eq!(Definition::parse(text), Definition::default(), "{text}");
        }
    }
}
