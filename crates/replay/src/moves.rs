//! The legal moves, as one table for executions and one for steps.
//!
//! The tables do not drive the machine; they check it. The soak compares every move of every history
//! with them, and fails if an entry is never used. A branch of the log begins with an earlier state of
//! its parent, so reopening an execution is no move from a terminal state.

use stateway_machine::{ExecutionState, StepState};

use stateway_machine::ExecutionState::{
    AwaitingApproval, AwaitingSignal, Cancelling, Compensating, Completed, Created, Escalated,
    Failed, Paused, Queued, RolledBack, Running,
};

/// Where an execution may go from each state.
pub const EXECUTION_MOVES: &[(ExecutionState, &[ExecutionState])] = &[
    (Created, &[Queued, ExecutionState::Cancelled]),
    (Queued, &[Running, ExecutionState::Cancelled]),
    (
        Running,
        &[
            AwaitingSignal,
            AwaitingApproval,
            Paused,
            Escalated,
            Cancelling,
            Compensating,
            Completed,
            Failed,
            ExecutionState::Cancelled,
        ],
    ),
    (
        AwaitingSignal,
        &[
            Running,
            AwaitingApproval,
            Paused,
            Escalated,
            Compensating,
            Failed,
            ExecutionState::Cancelled,
        ],
    ),
    (
        AwaitingApproval,
        &[
            Running,
            AwaitingSignal,
            Paused,
            Escalated,
            Compensating,
            Failed,
            ExecutionState::Cancelled,
        ],
    ),
    (
        Paused,
        &[
            Running,
            AwaitingSignal,
            AwaitingApproval,
            Cancelling,
            Compensating,
            Failed,
            ExecutionState::Cancelled,
        ],
    ),
    (
        Escalated,
        &[
            Running,
            AwaitingSignal,
            AwaitingApproval,
            Cancelling,
            Compensating,
            Failed,
            ExecutionState::Cancelled,
        ],
    ),
    (Cancelling, &[ExecutionState::Cancelled]),
    (
        Compensating,
        &[RolledBack, Failed, Escalated, ExecutionState::Cancelled],
    ),
    (Completed, &[]),
    (RolledBack, &[]),
    (Failed, &[]),
    (ExecutionState::Cancelled, &[]),
];

/// Where a step may go from each state.
pub const STEP_MOVES: &[(StepState, &[StepState])] = &[
    (
        StepState::Pending,
        &[
            StepState::Running,
            StepState::Waiting,
            StepState::Skipped,
            StepState::Cancelled,
        ],
    ),
    (
        StepState::Running,
        &[
            StepState::Waiting,
            StepState::Completed,
            StepState::Failed,
            StepState::Cancelled,
        ],
    ),
    (
        StepState::BackingOff,
        &[StepState::Running, StepState::Waiting, StepState::Cancelled],
    ),
    (
        StepState::Correcting,
        &[
            StepState::Running,
            StepState::Waiting,
            StepState::Completed,
            StepState::Failed,
            StepState::Cancelled,
        ],
    ),
    (
        StepState::Waiting,
        &[
            StepState::Running,
            StepState::Completed,
            StepState::Failed,
            StepState::Pending,
            StepState::Cancelled,
            StepState::Compensated,
        ],
    ),
    (
        StepState::Completed,
        &[StepState::Compensating, StepState::Pending],
    ),
    (
        StepState::Failed,
        &[
            StepState::BackingOff,
            StepState::Correcting,
            StepState::Waiting,
            StepState::Skipped,
            StepState::Compensating,
            StepState::Pending,
        ],
    ),
    (
        StepState::Skipped,
        &[StepState::Compensating, StepState::Pending],
    ),
    (
        StepState::Cancelled,
        &[StepState::Compensating, StepState::Pending],
    ),
    (
        StepState::Compensating,
        &[
            StepState::Compensated,
            StepState::Failed,
            StepState::Cancelled,
        ],
    ),
    (
        StepState::Compensated,
        &[StepState::Waiting, StepState::Pending],
    ),
];

/// Whether an execution may go from one state to the other. Staying is always legal.
#[must_use]
pub fn execution_may_move(from: ExecutionState, to: ExecutionState) -> bool {
    from == to
        || EXECUTION_MOVES
            .iter()
            .any(|(state, next)| *state == from && next.contains(&to))
}

/// Whether a step may go from one state to the other. Staying is always legal.
#[must_use]
pub fn step_may_move(from: StepState, to: StepState) -> bool {
    from == to
        || STEP_MOVES
            .iter()
            .any(|(state, next)| *state == from && next.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_row_and_terminal_ones_lead_nowhere() {
        for state in ExecutionState::ALL {
            let rows: Vec<_> = EXECUTION_MOVES
                .iter()
                .filter(|(from, _)| from == state)
                .collect();
            assert_eq!(rows.len(), 1, "{state}");
            assert_eq!(rows[0].1.is_empty(), state.is_terminal(), "{state}");
        }
        for state in StepState::ALL {
            assert_eq!(
                STEP_MOVES.iter().filter(|(from, _)| from == state).count(),
                1,
                "{state}"
            );
        }
    }
}
