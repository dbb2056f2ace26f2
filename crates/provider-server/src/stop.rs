//! Tells open watches that the server stops.

use tokio::sync::watch;

/// Becomes true when the server is asked to stop. Each request carries one.
#[derive(Debug, Clone)]
pub(crate) struct Stop(pub(crate) watch::Receiver<bool>);

impl Stop {
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Waits until the server is asked to stop; for ever if it ends without being asked.
    pub(crate) async fn requested(mut self) {
        if self.0.wait_for(|is_stopping| *is_stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
