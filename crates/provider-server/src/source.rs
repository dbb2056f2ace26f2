//! Where the served provider comes from.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_provider_api::Provider;

/// The provider that is served now. Tests replace it while the server runs.
pub trait Source: Send + Sync + 'static {
    /// The provider of this moment.
    fn provider(&self) -> Arc<dyn Provider>;

    /// Identifies the running provider: another value after every start.
    fn instance_id(&self) -> String;

    /// When the running provider started.
    fn start_time(&self) -> Timestamp;
}

/// One provider from the start of the process to its end.
pub struct Fixed {
    provider: Arc<dyn Provider>,
    instance_id: String,
    start_time: Timestamp,
}

impl Fixed {
    /// This provider, which starts now.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            instance_id: uuid::Uuid::new_v4().to_string(),
            start_time: Timestamp::now(),
        }
    }
}

impl Source for Fixed {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.provider)
    }

    fn instance_id(&self) -> String {
        self.instance_id.clone()
    }

    fn start_time(&self) -> Timestamp {
        self.start_time
    }
}
