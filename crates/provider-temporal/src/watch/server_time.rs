//! What the clock of the server shows at least. The clock of this machine may differ from it, so the time is
//! that of the newest run, plus what has passed since it was seen.

use std::time::Instant;

use jiff::Timestamp;

use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::time::timestamp;

/// The newest time of a run, and when it was seen.
#[derive(Debug, Default)]
pub(super) struct ServerTime {
    seen: Option<(Timestamp, Instant)>,
}

impl ServerTime {
    pub(super) fn learn(&mut self, rows: &[WorkflowExecutionInfo], now: Instant) {
        let times = rows
            .iter()
            .flat_map(|row| [&row.start_time, &row.close_time]);
        let newest = times.filter_map(|time| timestamp(time.as_ref())).max();
        if let Some(newest) = newest
            && (self.seen.is_none() || newest > self.least(now))
        {
            self.seen = Some((newest, now));
        }
    }

    /// A time that the server's clock has reached. Before the first run that is any time long ago.
    pub(super) fn least(&self, now: Instant) -> Timestamp {
        let Some((newest, at)) = self.seen else {
            return Timestamp::UNIX_EPOCH;
        };
        let passed = now.saturating_duration_since(at);
        newest.checked_add(passed).unwrap_or(newest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_the_server_is_that_of_its_newest_run_and_what_passed_since() {
        let (mut time, now) = (ServerTime::default(), Instant::now());
        assert_eq!(time.least(now), Timestamp::UNIX_EPOCH);
        let at = |seconds| WorkflowExecutionInfo {
            start_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            ..Default::default()
        };
        time.learn(&[at(5_000), at(4_000)], now);
        assert_eq!(time.least(now).as_second(), 5_000);
        let later = now + Duration::from_secs(60);
        time.learn(&[at(5_010)], later);
        assert_eq!(time.least(later).as_second(), 5_060);
    }
}
