//! The time as the provider sees it: the system's, or a hand on a dial.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// Reads the time and waits for a time. Clones of a manual clock share their time.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    System,
    Manual(watch::Sender<Timestamp>),
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that stands still until it is advanced.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Kind::Manual(watch::Sender::new(start)))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => Timestamp::now(),
            Kind::Manual(dial) => *dial.borrow(),
        }
    }

    /// Moves a manual clock forward and wakes the tasks that wait for that time. The system's clock cannot
    /// be moved; it stays as it is.
    pub fn advance(&self, by: Duration) {
        if let Kind::Manual(dial) = &self.0 {
            dial.send_modify(|time| *time = crate::script::after(*time, by));
        }
    }

    /// Ends when the time has come.
    pub(crate) async fn wait_until(&self, time: Timestamp) {
        match &self.0 {
            Kind::System => {
                let pause = time.duration_since(Timestamp::now());
                tokio::time::sleep(Duration::try_from(pause).unwrap_or_default()).await;
            }
            Kind::Manual(dial) => {
                // The dial cannot close while `self` holds it.
                let _ = dial.subscribe().wait_for(|now| *now >= time).await;
            }
        }
    }
}
