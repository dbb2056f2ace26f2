//! The order of executions in the list.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::view::Execution;

/// The order of executions in the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Executions that need a person first, then open ones, then finished ones.
    #[default]
    Matters,
    /// Newest first.
    Newest,
    /// By name.
    Name,
}

impl Sort {
    /// The next order.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Matters => Self::Newest,
            Self::Newest => Self::Name,
            Self::Name => Self::Matters,
        }
    }

    /// The name of the order, for the screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Matters => "what matters",
            Self::Newest => "newest",
            Self::Name => "name",
        }
    }

    /// Sorts executions. The result is always the same for the same executions.
    pub(super) fn apply(self, executions: &mut [&Execution]) {
        match self {
            Self::Matters => {
                executions.sort_by_cached_key(|it| (rank(it.sub_state), due(it), it.name.clone()));
            }
            Self::Newest => {
                executions.sort_by_cached_key(|it| (Reverse(it.create_time), it.name.clone()));
            }
            Self::Name => executions.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }
}

/// Error, then backing-off, waiting, running, failed, succeeded.
fn rank(sub_state: &str) -> u8 {
    match sub_state {
        "error" => 0,
        "backing-off" => 1,
        "waiting" => 2,
        "running" => 3,
        "failed" => 4,
        _ => 5,
    }
}

/// Within a rank: the earliest next attempt, the longest wait, the latest end
/// first.
fn due(execution: &Execution) -> i64 {
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
    let since = || millis(execution.start_time.or(execution.create_time));
    match execution.sub_state {
        "backing-off" => millis(execution.retry.next_attempt_time).unwrap_or(i64::MAX),
        "failed" | "succeeded" => millis(execution.end_time).map_or(i64::MAX, |end| -end),
        _ => since().unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    fn execution(id: &str, sub_state: v1::SubState, seconds: i64) -> Execution {
        let time = Some(prost_types::Timestamp { seconds, nanos: 0 });
        let retry = v1::Retry {
            next_attempt_time: time,
            ..v1::Retry::default()
        };
        Execution::from(&v1::Execution {
            name: format!("providers/p/executions/{id}"),
            sub_state: sub_state.into(),
            create_time: time,
            end_time: time,
            retry: Some(Box::new(retry)),
            ..v1::Execution::default()
        })
    }

    #[test]
    fn what_needs_somebody_comes_first() {
        let all = [
            execution("f", v1::SubState::Succeeded, 1),
            execution("e", v1::SubState::Succeeded, 2),
            execution("d", v1::SubState::Running, 3),
            execution("c", v1::SubState::Waiting, 4),
            execution("b2", v1::SubState::BackingOff, 9),
            execution("b1", v1::SubState::BackingOff, 5),
            execution("a", v1::SubState::Error, 6),
        ];
        let order = |sort: Sort| {
            let mut refs: Vec<_> = all.iter().collect();
            sort.apply(&mut refs);
            let ids = refs.iter().map(|it| it.name.raw().rsplit('/').next());
            ids.map(Option::unwrap).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(Sort::Matters), "a b1 b2 c d e f");
        assert_eq!(order(Sort::Newest), "b2 a b1 c d e f");
        assert_eq!(order(Sort::Name), "a b1 b2 c d e f");
    }
}
