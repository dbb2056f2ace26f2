//! How long a run spends in each phase, for the figures of a campaign.

use std::fmt;
use std::time::Duration;

/// The time of all kills of a run, by phase.
#[derive(Default)]
pub(super) struct Phases {
    pub(super) kills: u64,
    /// From the start of a process until it listens.
    pub(super) start: Duration,
    /// Under load, until the kill.
    pub(super) load: Duration,
    /// From the kill until the process has ended.
    pub(super) end: Duration,
    /// Until everything has ended, without kills.
    pub(super) settle: Duration,
    /// The checks.
    pub(super) check: Duration,
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_kill = |phase: Duration| phase.as_secs_f64() * 1000.0 / self.kills.max(1) as f64;
        let all = self.start + self.load + self.end + self.settle + self.check;
        write!(
            f,
            "{} kills, {:.0} ms per kill (start {:.0}, load {:.0}, end {:.0}, settle {:.0}, check {:.0})",
            self.kills,
            per_kill(all),
            per_kill(self.start),
            per_kill(self.load),
            per_kill(self.end),
            per_kill(self.settle),
            per_kill(self.check),
        )
    }
}
