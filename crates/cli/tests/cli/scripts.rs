//! What the executions of these tests do.

/// Succeeds at once.
pub(crate) const GOOD: &str = r#"{"steps": [{"name": "work"}], "output": {"done": true}}"#;

/// Fails at once, for good.
pub(crate) const BAD: &str = r#"{"steps": [{"name": "pay", "fails": 1,
    "error": {"message": "card is blocked", "fails_for_good": true}}]}"#;

/// Fails once and then backs off for an hour.
pub(crate) const BACKING_OFF: &str = r#"{"steps": [{"name": "charge", "fails": 1,
    "error": {"message": "gateway timed out"},
    "retry": {"max_attempts": 5, "delay": "1h"}}], "output": {"charged": true}}"#;

/// Waits for the signal `go`.
pub(crate) const WAITING: &str =
    r#"{"steps": [{"name": "gate", "waits_for": {"signal": "go"}}], "output": {"went": true}}"#;

/// Works for an hour.
pub(crate) const LONG: &str = r#"{"steps": [{"name": "crunch", "takes": "1h"}]}"#;

/// Fails for good with a stack trace of Python.
pub(crate) const TRACE: &str = r#"{"steps": [{"name": "pay", "fails": 1, "error": {"message":
    "Traceback (most recent call last):\n  File \"pay.py\", line 3, in <module>\n\tcharge()\nKeyError: 'items'\n",
    "fails_for_good": true}}]}"#;

/// Uses up its one attempt and is stuck.
pub(crate) const STUCK: &str = r#"{"steps": [{"name": "import", "fails": 1,
    "error": {"message": "row 17 has no customer"},
    "retry": {"max_attempts": 1}, "when_exhausted": "stick"}]}"#;
