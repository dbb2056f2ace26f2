//! `NOT_FOUND`, where it can stand for something that the caller may not read.
//!
//! Such an answer is the same for what is hidden and for what does not exist. The services give both the same
//! text. The rest is decided here, once for gRPC, gRPC-Web and the dashboard, from what is the same for both: the
//! request and the rules. Both are recorded and counted as refusals, and both are answered at a multiple of a fixed
//! pause after the request was read, because a provider finds an execution in memory faster than on disk.

use std::time::Duration;

use stateway_access::{Decision, Permission};

/// Longer than a provider on the same machine takes to look a name up.
const STEP: Duration = Duration::from_millis(10);

/// The decision about a call that has ended with `NOT_FOUND`, after its last decision. It is a refusal, unless the
/// rules have allowed the call or the caller reads everything where it has asked.
pub(super) fn decision(
    last: Option<Decision>,
    permission: Option<Permission>,
    reads_all: impl FnOnce() -> bool,
) -> Option<Decision> {
    let allowed = last.filter(|decision| decision.allowed);
    if allowed.is_some() || reads_all() {
        return allowed;
    }
    Some(Decision {
        allowed: false,
        rule: None,
        permission: permission.unwrap_or(Permission::Read),
    })
}

/// Waits until an answer can be given that is asked for since this time.
pub(crate) async fn not_found_pause(elapsed: Duration) {
    tokio::time::sleep(answered_after(elapsed).saturating_sub(elapsed)).await;
}

/// The next multiple of the step.
fn answered_after(elapsed: Duration) -> Duration {
    let steps = elapsed.as_nanos().div_ceil(STEP.as_nanos()).max(1);
    STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_answer_is_a_multiple_of_the_step() {
        let after = |micros| answered_after(Duration::from_micros(micros));
        assert_eq!(after(0), STEP);
        assert_eq!(after(1), STEP);
        assert_eq!(after(10_000), STEP);
        assert_eq!(after(10_001), STEP * 2);
        assert_eq!(after(25_000), STEP * 3);
    }

    #[test]
    fn not_found_is_a_refusal_unless_the_caller_is_allowed_or_reads_everything() {
        let decided = |allowed, rule: Option<&str>, permission| Decision {
            allowed,
            rule: rule.map(Into::into),
            permission,
        };
        let stop = Some(Permission::Stop);
        let refused = Some(decided(false, None, Permission::Stop));
        let hidden = decided(false, None, Permission::Read);
        // Nothing of the refusal depends on whether something was found.
        assert_eq!(decision(None, stop, || false), refused);
        assert_eq!(decision(Some(hidden.clone()), stop, || false), refused);
        assert_eq!(decision(None, stop, || true), None);
        assert_eq!(decision(Some(hidden), stop, || true), None);
        let allowed = Some(decided(true, Some("operators"), Permission::Stop));
        assert_eq!(decision(allowed.clone(), stop, || false), allowed);
    }
}
