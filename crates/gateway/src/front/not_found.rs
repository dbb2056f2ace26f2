//! When `NOT_FOUND` is answered: after a multiple of a fixed pause, so that the time of the answer does not show
//! whether something is hidden from the caller or absent.
//!
//! A provider finds an execution in memory faster than on disk. Only gateways with access rules hide
//! something, so that only they wait.

use std::time::Duration;

use axum::http::{HeaderValue, Response, StatusCode};
use tokio::time::Instant;
use tonic::{Code, Status};

/// Longer than a provider on the same machine takes to look a name up.
const STEP: Duration = Duration::from_millis(10);

/// When to answer `NOT_FOUND` to a request that began at this time.
pub(super) fn answer_time(began: Instant) -> Instant {
    began + answered_after(began.elapsed())
}

pub(super) fn is_not_found<B>(response: &Response<B>) -> bool {
    let code = response.headers().get(Status::GRPC_STATUS);
    response.status() == StatusCode::NOT_FOUND
        || code == Some(&HeaderValue::from(Code::NotFound as i32))
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
    fn only_not_found_is_delayed() {
        for (status, expected) in [
            (Status::not_found(""), true),
            (Status::permission_denied(""), false),
            (Status::ok(""), false),
        ] {
            assert_eq!(
                is_not_found(&status.into_http::<tonic::body::Body>()),
                expected
            );
        }
        let page = |status| Response::builder().status(status).body(()).unwrap();
        assert!(is_not_found(&page(StatusCode::NOT_FOUND)));
        assert!(!is_not_found(&page(StatusCode::OK)));
    }
}
