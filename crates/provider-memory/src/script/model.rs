//! A script as it is written down: JSON in an input, TOML in a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use stateway_model::ErrorCategory;

/// What an execution does: stages one after the other.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The stages, in order.
    #[serde(default)]
    pub steps: Vec<Stage>,
    /// What it answers in the end.
    #[serde(default)]
    pub output: Option<serde_json::Value>,
    /// Instead of stages: an execution that shows these words and never changes by itself.
    #[serde(default)]
    pub pose: Option<Pose>,
}

/// One step, or several side by side.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// One step.
    One(StepScript),
    /// Several in parallel.
    Parallel(Vec<StepScript>),
}

impl Stage {
    /// The steps of the stage.
    #[must_use]
    pub fn steps(&self) -> &[StepScript] {
        match self {
            Self::One(step) => std::slice::from_ref(step),
            Self::Parallel(steps) => steps,
        }
    }
}

/// A step: it may wait for something, then it works, perhaps failing a few times.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepScript {
    /// Unique within the script.
    pub name: String,
    /// What must come before the work.
    #[serde(default)]
    pub waits_for: Option<WaitFor>,
    /// How long each attempt takes.
    #[serde(default)]
    pub takes: Pause,
    /// How many attempts fail before one succeeds.
    #[serde(default)]
    pub fails: u32,
    /// How they fail.
    #[serde(default)]
    pub error: StepError,
    /// How often it is tried.
    #[serde(default)]
    pub retry: RetryScript,
    /// What happens after the last attempt.
    #[serde(default)]
    pub when_exhausted: WhenExhausted,
    /// How long its compensation takes; a step without it is not compensated.
    #[serde(default)]
    pub compensation: Option<Pause>,
}

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum WaitFor {
    /// A signal.
    Signal {
        /// Its name.
        signal: String,
        /// The step fails when it has not come by then.
        #[serde(default)]
        expires_after: Option<Pause>,
    },
    /// A time.
    Timer {
        /// How long.
        timer: Pause,
    },
    /// A free worker.
    Capacity {
        /// How long until there is one.
        capacity: Pause,
    },
}

/// How an attempt fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepError {
    /// One line.
    pub message: String,
    /// The kind of failure.
    #[serde(default)]
    pub category: Option<ErrorCategory>,
    /// No further attempt helps.
    #[serde(default)]
    pub fails_for_good: bool,
}

impl Default for StepError {
    fn default() -> Self {
        Self {
            message: "scripted failure".into(),
            category: None,
            fails_for_good: false,
        }
    }
}

/// How often a step is tried, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryScript {
    /// In all, the first one included.
    pub max_attempts: u32,
    /// Before the second attempt.
    pub delay: Pause,
    /// Each further delay is this many times longer.
    pub factor: f64,
}

impl Default for RetryScript {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            delay: Pause(Duration::from_secs(1)),
            factor: 2.0,
        }
    }
}

/// What a step does after its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenExhausted {
    /// It fails, and the execution with it.
    #[default]
    Fail,
    /// It is stuck until someone resumes it.
    Stick,
}

/// Native states that an execution of a script reports, with any meaning: for tests of state tables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pose {
    /// The native state.
    pub state: String,
    /// What qualifies it.
    #[serde(default)]
    pub qualifiers: BTreeMap<String, String>,
    /// Its steps.
    #[serde(default)]
    pub steps: Vec<PosedStep>,
}

/// Words for a step to show.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PosedStep {
    /// Its name.
    pub name: String,
    /// The native state.
    pub state: String,
    /// What qualifies it.
    #[serde(default)]
    pub qualifiers: BTreeMap<String, String>,
}

/// A length of time as people write it: `500ms`, `2s`, `1h 30m`, `PT5M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause(pub Duration);

impl<'de> Deserialize<'de> for Pause {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let parsed: SignedDuration = text.parse().map_err(D::Error::custom)?;
        let length = Duration::try_from(parsed);
        length
            .map(Self)
            .map_err(|_| D::Error::custom(format!("`{text}` is not a duration of 0 or more")))
    }
}

impl<'de> Deserialize<'de> for Stage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parallel {
            parallel: Vec<StepScript>,
        }
        // Distinguished manually, because an untagged enum does not report what is wrong.
        let value = serde_json::Value::deserialize(from)?;
        if value.get("parallel").is_some() {
            let stage: Parallel = serde_json::from_value(value).map_err(D::Error::custom)?;
            return Ok(Self::Parallel(stage.parallel));
        }
        let step = serde_json::from_value(value).map_err(D::Error::custom)?;
        Ok(Self::One(step))
    }
}
