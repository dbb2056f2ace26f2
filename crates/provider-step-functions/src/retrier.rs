//! What `Retry` and `Catch` make of failures: the Amazon States Language's rules, pure.

use std::time::Duration;

use serde_json::Value;

use crate::definition::error_equals;

/// The longest pause between attempts that is believed; AWS allows a year.
const LONGEST_SECONDS: f64 = 31_622_400.0;

/// One retrier of a state.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrier {
    /// The errors it takes.
    pub errors: Vec<String>,
    /// The pause before the first retry.
    pub interval_seconds: f64,
    /// By what each pause is longer than the one before it.
    pub backoff_rate: f64,
    /// How often it retries.
    pub max_attempts: u32,
    /// No pause is longer than this.
    pub max_delay_seconds: Option<f64>,
    /// Whether the pause is drawn at random between none and the whole (`FULL`).
    pub full_jitter: bool,
}

/// A retry that the definition promises.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    /// How many retries the retrier will have made with this one, from 1.
    pub retry: u32,
    /// How many it makes at most.
    pub max_retries: u32,
    /// The pause before it.
    pub delay: Duration,
    /// Whether the pause is only the upper bound.
    pub full_jitter: bool,
}

/// What retriers say to a failure.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It is tried again.
    Retry(Promise),
    /// The retrier that takes the error has no attempt left. No other retrier is asked.
    Exhausted,
    /// No retrier takes the error.
    NotRetried,
}

impl Retrier {
    pub(crate) fn read(rule: &Value) -> Self {
        let number = |key: &str| {
            let found = rule.get(key).and_then(Value::as_f64);
            found.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let attempts = rule.get("MaxAttempts").and_then(Value::as_u64);
        Self {
            errors: error_equals(rule),
            interval_seconds: number("IntervalSeconds").unwrap_or(1.0),
            backoff_rate: number("BackoffRate").unwrap_or(2.0),
            max_attempts: attempts.map_or(3, |most| u32::try_from(most).unwrap_or(u32::MAX)),
            max_delay_seconds: number("MaxDelaySeconds"),
            full_jitter: rule.get("JitterStrategy").and_then(Value::as_str) == Some("FULL"),
        }
    }

    /// The pause before the retry after `retries` of them.
    fn delay(&self, retries: u32) -> Duration {
        let power = i32::try_from(retries).unwrap_or(i32::MAX);
        let seconds = self.interval_seconds * self.backoff_rate.powi(power);
        let capped = self
            .max_delay_seconds
            .map_or(seconds, |most| seconds.min(most));
        Duration::try_from_secs_f64(capped.min(LONGEST_SECONDS)).unwrap_or_default()
    }
}

/// What the retriers say to the last of these failures, oldest first. Each retrier counts on its
/// own, and the first one that takes an error decides alone.
#[must_use]
pub fn answer<'e>(retriers: &[Retrier], failures: impl Iterator<Item = Option<&'e str>>) -> Answer {
    let mut made = vec![0_u32; retriers.len()];
    let mut answer = Answer::NotRetried;
    for error in failures {
        let taker = retriers
            .iter()
            .position(|retrier| takes(&retrier.errors, error));
        answer = match taker {
            None => Answer::NotRetried,
            Some(taker) if made[taker] < retriers[taker].max_attempts => {
                let retrier = &retriers[taker];
                made[taker] += 1;
                Answer::Retry(Promise {
                    retry: made[taker],
                    max_retries: retrier.max_attempts,
                    delay: retrier.delay(made[taker] - 1),
                    full_jitter: retrier.full_jitter,
                })
            }
            Some(_) => Answer::Exhausted,
        };
    }
    answer
}

/// Whether a retrier or catcher that names these errors takes this one. An error whose name is
/// not known is taken by the wildcards only.
#[must_use]
pub fn takes(names: &[String], error: Option<&str>) -> bool {
    names.iter().any(|name| match (name.as_str(), error) {
        ("States.ALL", error) => {
            !matches!(error, Some("States.DataLimitExceeded" | "States.Runtime"))
        }
        ("States.TaskFailed", error) => !error.is_some_and(is_timeout),
        (name, Some(error)) => name == error || (is_timeout(name) && is_timeout(error)),
        (_, None) => false,
    })
}

/// A missed heartbeat is written down as a timeout, so the two are one.
fn is_timeout(error: &str) -> bool {
    matches!(error, "States.Timeout" | "States.HeartbeatTimeout")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn retriers(rules: &Value) -> Vec<Retrier> {
        rules
            .as_array()
            .unwrap()
            .iter()
            .map(Retrier::read)
            .collect()
    }

    fn ask(retriers: &[Retrier], failures: &[&str]) -> Answer {
        answer(retriers, failures.iter().map(|error| Some(*error)))
    }

    fn delay(answer: &Answer) -> u64 {
        match answer {
            Answer::Retry(promise) => promise.delay.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_figures_there_are_three_retries_after_one_two_and_four_seconds() {
        let rules = retriers(&json!([{"ErrorEquals": ["States.ALL"]}]));
        assert_eq!(delay(&ask(&rules, &["a"])), 1);
        assert_eq!(delay(&ask(&rules, &["a", "b"])), 2);
        assert_eq!(delay(&ask(&rules, &["a", "b", "c"])), 4);
        assert_eq!(ask(&rules, &["a", "b", "c", "d"]), Answer::Exhausted);
    }

    #[test]
    fn a_pause_is_capped_and_never_overflows() {
        let rules = retriers(&json!([{
            "ErrorEquals": ["States.ALL"], "IntervalSeconds": 60, "MaxDelaySeconds": 90,
            "MaxAttempts": 99_999_999
        }]));
        assert_eq!(delay(&ask(&rules, &["a", "a"])), 90);
        let wild = retriers(&json!([{
            "ErrorEquals": ["a"], "IntervalSeconds": 9e300, "BackoffRate": 9e300, "MaxAttempts": 9
        }]));
        assert_eq!(delay(&ask(&wild, &["a", "a", "a"])), 31_622_400);
    }

    #[test]
    fn each_retrier_counts_on_its_own_and_the_first_that_takes_the_error_decides() {
        let rules = retriers(&json!([
            {"ErrorEquals": ["x"], "MaxAttempts": 1, "IntervalSeconds": 7},
            {"ErrorEquals": ["States.ALL"], "MaxAttempts": 2, "IntervalSeconds": 3}
        ]));
        assert_eq!(delay(&ask(&rules, &["y", "x"])), 7);
        assert_eq!(delay(&ask(&rules, &["x", "y"])), 3);
        assert_eq!(ask(&rules, &["x", "x"]), Answer::Exhausted);
        let never = retriers(&json!([{"ErrorEquals": ["x"], "MaxAttempts": 0}]));
        assert_eq!(ask(&never, &["x"]), Answer::Exhausted);
        assert_eq!(ask(&never, &["y"]), Answer::NotRetried);
    }

    #[test]
    fn wildcards_take_what_the_language_says() {
        let takes = |name: &str, error: &str| takes(&[name.to_owned()], Some(error));
        assert!(takes("States.ALL", "anything") && takes("States.ALL", "States.Timeout"));
        assert!(!takes("States.ALL", "States.Runtime"));
        assert!(!takes("States.ALL", "States.DataLimitExceeded"));
        assert!(takes("States.TaskFailed", "anything"));
        assert!(!takes("States.TaskFailed", "States.Timeout"));
        assert!(takes("States.HeartbeatTimeout", "States.Timeout"));
        assert!(!takes("a", "b"));
        assert!(!super::takes(&["a".to_owned()], None));
    }
}
