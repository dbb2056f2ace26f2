//! What an execution or a step waits for.

use jiff::Timestamp;
use stateway_proto::v1;

use crate::{Piece, moment};

/// The part of `v1::Wait` that a sentence needs. Kind and blocker are labels of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait<'a> {
    /// For example `signal`.
    pub kind: &'a str,
    /// The name of the signal, the role of the person or worker; may be empty.
    pub name: &'a str,
    /// The capacity that is missing, for example `worker`; may be empty.
    pub blocker: &'a str,
    /// Since when.
    pub start_time: Option<Timestamp>,
    /// Until when at most.
    pub expire_time: Option<Timestamp>,
    /// Further words of the provider; may be empty.
    pub detail: &'a str,
}

impl<'a> From<&'a v1::Wait> for Wait<'a> {
    fn from(wait: &'a v1::Wait) -> Self {
        Self {
            kind: wait.kind().label(),
            name: &wait.name,
            blocker: wait.blocker().label(),
            start_time: moment(wait.start_time.as_ref()),
            expire_time: moment(wait.expire_time.as_ref()),
            detail: &wait.detail,
        }
    }
}

impl Wait<'_> {
    /// Whether a limit of the engine keeps it in the queue.
    #[must_use]
    pub fn queued(&self) -> bool {
        matches!(self.blocker, "slot" | "concurrency" | "memory")
    }
}

/// `waits for approval by `ops`, expires in 5 min`.
#[must_use]
pub fn waiting<'a>(wait: &Wait<'a>) -> Vec<Piece<'a>> {
    let mut pieces = vec!["waits for ".into()];
    let named = match (wait.kind, wait.blocker) {
        _ if wait.queued() => {
            pieces.push("its turn".into());
            false
        }
        ("timer", _) => {
            pieces.push("a timer".into());
            false
        }
        ("escalation", _) => {
            pieces.push("a person's decision".into());
            pieces.push(" by ".into());
            true
        }
        (_, "worker") => {
            pieces.push("a worker".into());
            pieces.push(" of role ".into());
            true
        }
        (kind, _) => {
            pieces.push(kind.into());
            pieces.push(" ".into());
            true
        }
    };
    if named && wait.name.is_empty() {
        pieces.pop();
    } else if named {
        pieces.push(Piece::Name(wait.name));
    }
    if let Some(since) = wait.start_time {
        pieces.push(Piece::Lasting(since));
    }
    if let Some(time) = wait.expire_time {
        let ends = if wait.kind == "timer" {
            ", ends "
        } else {
            ", expires "
        };
        pieces.extend([ends.into(), Piece::Until(time)]);
    }
    if !wait.detail.is_empty() {
        pieces.extend([": ".into(), Piece::Message(wait.detail)]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(wait: Wait<'_>) -> String {
        crate::plain(&waiting(&wait), |time| format!("in {}", time.as_second()))
    }

    #[test]
    fn a_wait_names_what_it_waits_for_and_until_when() {
        let wait = |kind, name, seconds| Wait {
            kind,
            name,
            expire_time: match seconds {
                0 => None,
                seconds => Timestamp::from_second(seconds).ok(),
            },
            ..Wait::default()
        };
        for (wait, words) in [
            (wait("signal", "approve", 0), "waits for signal `approve`"),
            (
                wait("approval", "", 60),
                "waits for approval, expires in 60",
            ),
            (
                wait("escalation", "sre", 0),
                "waits for a person's decision by `sre`",
            ),
            (wait("escalation", "", 0), "waits for a person's decision"),
            (wait("timer", "nap", 5), "waits for a timer, ends in 5"),
            (wait("capacity", "lock-7", 0), "waits for capacity `lock-7`"),
        ] {
            assert_eq!(line(wait), words);
        }
    }

    #[test]
    fn missing_capacity_is_named() {
        let capacity = |blocker, name, detail| Wait {
            kind: "capacity",
            name,
            blocker,
            detail,
            ..Wait::default()
        };
        assert_eq!(
            line(capacity(
                "worker",
                "etl",
                "no worker of role `etl` is connected"
            )),
            "waits for a worker of role `etl`: no worker of role `etl` is connected"
        );
        assert_eq!(line(capacity("worker", "", "")), "waits for a worker");
        assert_eq!(
            line(capacity("slot", "x", "2 of 2 executions are active")),
            "waits for its turn: 2 of 2 executions are active"
        );
    }
}
