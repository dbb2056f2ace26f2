//! The state machine whose executions are objects. Pure.
//!
//! An execution waits in the state `Gate` for its task token. A gateway completes the task with
//! an output, which is the input of the next visit to `Gate`: in this loop Step Functions stores every turn of the
//! object. A task token can be used once, so only one of two gateways that have read the same turn writes the next.
//!
//! The resource of the gate sends a heartbeat for its own token. The call has no effect, but its
//! parameter is the token, so that every gateway can read the token in the history.
//! A token may be used as soon as the history shows `TaskSubmitted`: before that, the heartbeat would fail.

/// The version in the names of the state machines. Another text of the machine needs another version.
const VERSION: u32 = 1;
/// The state in which an object waits.
pub(crate) const GATE: &str = "Gate";
/// The resource of the gate, as events name it.
pub(crate) const RESOURCE: &str = "sendTaskHeartbeat.waitForTaskToken";
/// The field of the gate's parameters that has the token.
pub(crate) const TOKEN: &str = "TaskToken";
/// The state in which an object starts its next generation.
pub(crate) const CONTINUE: &str = "Continue";

/// The object has succeeded.
pub(crate) const SUCCEEDED: &str = "Stateway.Succeeded";
/// The object has failed.
pub(crate) const FAILED: &str = "Stateway.Failed";
/// The object continues in its next generation.
pub(crate) const CONTINUED: &str = "Stateway.Continued";

/// The number of days after its start when an object continues in another generation. Step Functions ends an execution
/// after a year.
pub(crate) const MOST_DAYS: i64 = 300;

/// The name of the state machine of executions.
pub(crate) fn executions(prefix: &str) -> String {
    format!("{prefix}-executions-{VERSION}")
}

/// The name of the state machine of definitions.
pub(crate) fn definitions(prefix: &str) -> String {
    format!("{prefix}-definitions-{VERSION}")
}

/// The definition of both state machines.
pub(crate) const DEFINITION: &str = include_str!("machine-1.json");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_text_of_the_machine_has_the_names_that_are_used_here() {
        let read: Value = serde_json::from_str(DEFINITION).unwrap();
        let states = &read["States"];
        let gate = &states[GATE];
        let resource = gate["Resource"].as_str().unwrap();
        assert_eq!(resource, format!("arn:aws:states:::aws-sdk:sfn:{RESOURCE}"));
        assert_eq!(gate["Parameters"][format!("{TOKEN}.$")], "$$.Task.Token");
        let ends: Vec<_> = [SUCCEEDED, FAILED, CONTINUED].map(Value::from).into();
        assert_eq!(gate["Retry"][0]["ErrorEquals"], Value::Array(ends.clone()));
        for (nth, end) in ends.iter().enumerate() {
            assert_eq!(gate["Catch"][nth]["ErrorEquals"][0], *end);
        }
        assert_eq!(gate["Catch"][2]["Next"], CONTINUE);
        assert!(states[CONTINUE].is_object());
    }

    /// Executions run for months, and a state machine is not changed while they do: another text is another
    /// version, in a file of its own.
    #[test]
    fn the_text_of_the_machine_belongs_to_its_version() {
        let digest = stateway_hosted::digest(DEFINITION.as_bytes());
        assert_eq!((VERSION, &digest[..16]), (1, "659c64fec8611e3f"));
        assert_eq!(executions("stateway"), "stateway-executions-1");
        assert_eq!(definitions("stateway"), "stateway-definitions-1");
    }
}
