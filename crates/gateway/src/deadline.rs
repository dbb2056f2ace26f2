//! How long a call may take: what the client asked for, within what the operator allows.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::http::HeaderName;
use tokio::time::error::Elapsed;
use tonic::metadata::MetadataMap;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Kept back from the client's deadline, so that our answer arrives before it gives up.
const LARGEST_MARGIN: Duration = Duration::from_millis(100);

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The deadline that is passed to the work.
    pub(crate) work: Duration,
    /// The caller does not wait beyond this time.
    pub(crate) all: Duration,
}

impl Budget {
    /// The budget of a call with this metadata.
    pub(crate) fn of(metadata: &MetadataMap, default: Duration, longest: Duration) -> Self {
        let asked = metadata
            .as_ref()
            .get(GRPC_TIMEOUT)
            .and_then(|value| parse(value.to_str().ok()?));
        let all = asked.unwrap_or(default).min(longest);
        let work = all.saturating_sub((all / 10).min(LARGEST_MARGIN));
        Self { work, all }
    }
}

/// Does the work until the deadline. Work that ends at its first poll needs no timer. It is pinned by
/// the caller, because a large future is expensive to move.
///
/// # Errors
/// The deadline passed first.
pub(crate) async fn until<F: Future>(
    deadline: Instant,
    mut work: Pin<&mut F>,
) -> Result<F::Output, Elapsed> {
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context)));
    match first.await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => tokio::time::timeout_at(deadline.into(), work).await,
    }
}

/// The wire form: at most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    const DEFAULT: Duration = Duration::from_secs(30);
    const LONGEST: Duration = Duration::from_secs(60);

    fn budget_of(timeout: Option<&str>) -> Duration {
        let mut metadata = MetadataMap::new();
        if let Some(timeout) = timeout {
            metadata.insert("grpc-timeout", timeout.parse().unwrap());
        }
        Budget::of(&metadata, DEFAULT, LONGEST).work
    }

    #[test]
    fn the_clients_deadline_counts_less_a_margin() {
        assert_eq!(budget_of(Some("2S")), Duration::from_millis(1_900));
        assert_eq!(budget_of(Some("100m")), Duration::from_millis(90));
    }

    #[test]
    fn no_deadline_and_nonsense_get_the_default() {
        let default = DEFAULT - LARGEST_MARGIN;
        for wrong in [
            None,
            Some(""),
            Some("S"),
            Some("12"),
            Some("-1S"),
            Some("123456789S"),
        ] {
            assert_eq!(budget_of(wrong), default, "{wrong:?}");
        }
    }

    #[test]
    fn work_that_ends_immediately_needs_no_timer() {
        // A timer would need a runtime.
        let done = until(Instant::now(), pin!(async { 7 })).now_or_never();
        assert_eq!(done.unwrap().unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_ends_at_the_deadline() {
        let began = tokio::time::Instant::now();
        let deadline = began.into_std() + Duration::from_secs(2);
        let hung = until(deadline, pin!(std::future::pending::<()>())).await;
        assert!(hung.is_err());
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[test]
    fn no_client_gets_more_than_the_longest() {
        assert_eq!(budget_of(Some("99999999H")), LONGEST - LARGEST_MARGIN);
    }
}
