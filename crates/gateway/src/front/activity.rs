//! What one connection does: whether it has begun, how many calls it has open, since when none.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::ConnectionLimits;

/// What one connection does, shared by its stream, its calls and its timer.
#[derive(Debug)]
pub(super) struct Activity {
    opened: Instant,
    has_begun: AtomicBool,
    /// Why the stream was cut off, if it was.
    cut: OnceLock<&'static str>,
    is_proven: AtomicBool,
    calls: AtomicUsize,
    /// When the last call ended, in milliseconds after the connection was opened.
    last_call: AtomicU64,
}

/// One call that is under way, its response body included.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<Activity>);

impl Activity {
    /// A new connection. `is_proven`: its client need not authenticate.
    pub(super) fn new(is_proven: bool) -> Self {
        Self {
            opened: Instant::now(),
            has_begun: AtomicBool::new(false),
            cut: OnceLock::new(),
            is_proven: AtomicBool::new(is_proven),
            calls: AtomicUsize::new(0),
            last_call: AtomicU64::new(0),
        }
    }

    /// The client has begun to speak HTTP.
    pub(super) fn note_beginning(&self) {
        if !self.has_begun.load(Ordering::Relaxed) {
            self.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// The client was cut off for this reason.
    pub(super) fn note_cut(&self, reason: &'static str) {
        // The first reason is the cause of the others.
        let _ = self.cut.set(reason);
    }

    pub(super) fn cut(&self) -> Option<&'static str> {
        self.cut.get().copied()
    }

    /// The client is authenticated.
    pub(super) fn note_proof(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Resolves when the connection of an unauthenticated client must be closed: because its time
    /// is over or, if `cut` is cancelled, because of newer ones.
    pub(super) async fn unauthenticated(
        &self,
        limits: &ConnectionLimits,
        cut: Option<CancellationToken>,
    ) {
        let Some(cut) = cut.filter(|_| !self.is_proven()) else {
            return std::future::pending().await;
        };
        let reason = tokio::select! {
            () = cut.cancelled() => "too-many-unauthenticated",
            () = tokio::time::sleep_until(self.opened + limits.authentication_timeout) => "authentication-timeout",
        };
        if self.is_proven() {
            return std::future::pending().await;
        }
        self.note_cut(reason);
    }

    /// Counts a call until it ends.
    pub(super) fn begin_call(self: &Arc<Self>) -> OpenCall {
        self.calls.fetch_add(1, Ordering::Relaxed);
        OpenCall(self.clone())
    }

    /// The earliest time at which the connection may have been silent for too long; none when it
    /// has been already.
    pub(super) fn next_check(&self, limits: &ConnectionLimits) -> Option<Instant> {
        let now = Instant::now();
        let silent_at = if !self.has_begun.load(Ordering::Relaxed) {
            self.opened + limits.handshake_timeout
        } else if self.calls.load(Ordering::Relaxed) > 0 {
            now + limits.idle_timeout
        } else {
            let last = Duration::from_millis(self.last_call.load(Ordering::Relaxed));
            self.opened + last + limits.idle_timeout
        };
        (silent_at > now).then_some(silent_at)
    }

    /// Resolves when the connection has been silent for too long.
    pub(super) async fn silence(&self, limits: &ConnectionLimits) {
        while let Some(at) = self.next_check(limits) {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Resolves once no call is open; checked after each `pause`.
    pub(super) async fn without_calls(&self, pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            if self.calls.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let ended = self.0.opened.elapsed().as_millis();
        let ended = u64::try_from(ended).unwrap_or(u64::MAX);
        self.0.last_call.store(ended, Ordering::Relaxed);
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        handshake_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(300),
        authentication_timeout: Duration::from_secs(30),
        max_streams: 1,
    };

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_has_the_time_of_a_handshake() {
        let began = Instant::now();
        Activity::new(true).silence(&LIMITS).await;
        assert_eq!(began.elapsed(), LIMITS.handshake_timeout);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_calls_ends_after_the_idle_time() {
        let began = Instant::now();
        let activity = Arc::new(Activity::new(true));
        activity.note_beginning();
        tokio::time::sleep(Duration::from_secs(200)).await;
        drop(activity.begin_call());
        activity.silence(&LIMITS).await;
        assert_eq!(began.elapsed(), Duration::from_secs(500));
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_call_keeps_the_connection_however_quiet_it_is() {
        let activity = Arc::new(Activity::new(true));
        activity.note_beginning();
        let call = activity.begin_call();
        let day = Duration::from_secs(24 * 3600);
        let silence = activity.silence(&LIMITS);
        assert!(tokio::time::timeout(day, silence).await.is_err());
        drop(call);
        let began = Instant::now();
        activity.silence(&LIMITS).await;
        assert_eq!(began.elapsed(), LIMITS.idle_timeout);
    }
}
