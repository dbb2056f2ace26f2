//! What starts an execution by itself: an event that fits, or a time that comes.
//!
//! Only described here. A receiver of events calls [`Trigger::admits`], a scheduler uses the trigger's
//! [`Schedule`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, Schedule};

/// What starts an execution by itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Trigger {
    /// The event's name; empty when no event starts it.
    pub event: String,
    /// The condition on the event: a condition over `${event…}`, the event's payload.
    pub condition: Option<Condition>,
    /// When it is started.
    pub schedule: Option<Schedule>,
}

impl Trigger {
    /// Whether an event of the right name, with this payload, starts an execution.
    ///
    /// # Errors
    /// A lower-case fragment: values that cannot be compared, or an answer that is no boolean.
    pub fn admits(&self, payload: &Value) -> Result<bool, String> {
        let holds = |condition: &Condition| {
            condition.holds(&|reference| reference.follow(payload).cloned())
        };
        self.condition.as_ref().map_or(Ok(true), holds)
    }
}

/// The form in which a definition is kept: as the file has it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<Condition>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    schedule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
}

impl From<Trigger> for Written {
    fn from(trigger: Trigger) -> Self {
        let schedule = trigger.schedule.as_ref();
        Self {
            schedule: schedule.map_or_else(String::new, |schedule| schedule.source().to_owned()),
            timezone: schedule.and_then(Schedule::timezone).map(ToOwned::to_owned),
            event: trigger.event,
            condition: trigger.condition,
        }
    }
}

impl TryFrom<Written> for Trigger {
    type Error = crate::ScheduleError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let schedule = match written.schedule.as_str() {
            "" => None,
            source => Some(Schedule::parse(source, written.timezone.as_deref())?),
        };
        Ok(Self {
            event: written.event,
            condition: written.condition,
            schedule,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trigger(condition: &str) -> Trigger {
        Trigger {
            event: "order.placed".into(),
            condition: Some(Condition::parse(condition).unwrap()),
            schedule: None,
        }
    }

    #[test]
    fn an_event_is_judged_by_its_payload() {
        let large = trigger("${event.total} > 100 && ${event.country} in ['de', 'fr']");
        assert_eq!(
            large.admits(&json!({"total": 200, "country": "de"})),
            Ok(true)
        );
        assert_eq!(
            large.admits(&json!({"total": 200, "country": "us"})),
            Ok(false)
        );
        assert!(large.admits(&json!({"total": "many"})).is_err());
        assert_eq!(trigger("${event} == 7").admits(&json!(7)), Ok(true));
    }

    #[test]
    fn without_a_condition_every_event_fits() {
        assert_eq!(Trigger::default().admits(&json!(null)), Ok(true));
    }

    #[test]
    fn it_is_kept_as_it_was_written() {
        let kept = json!({
            "event": "tick", "condition": "${event.a} == 1",
            "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin",
        });
        let trigger: Trigger = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(serde_json::to_value(&trigger).unwrap(), kept);
        let wrong = json!({"schedule": "never"});
        assert!(serde_json::from_value::<Trigger>(wrong).is_err());
    }
}
