//! The standard health service, which needs no authentication.

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::{Call, Client, Error};

/// Asks whether the gateway, or one provider of it, serves.
pub type CheckHealth = Call<HealthCheckRequest>;

impl CheckHealth {
    /// The gateway itself.
    #[must_use]
    pub fn of_gateway() -> Self {
        Self::of("")
    }

    /// One provider, by its id.
    #[must_use]
    pub fn of_provider(id: &str) -> Self {
        Self::of(&format!("provider.{id}"))
    }

    fn of(service: &str) -> Self {
        Self::from_message(HealthCheckRequest {
            service: service.to_owned(),
        })
    }
}

impl Client {
    /// Whether the gateway, or one provider of it, serves.
    ///
    /// # Errors
    /// Nothing answers, or there is no such provider (`NOT_FOUND`).
    pub async fn is_serving(&self, call: CheckHealth) -> Result<bool, Error> {
        let answer = self.read(call, |request| {
            let mut service = HealthClient::new(self.channel());
            async move { service.check(request).await }
        });
        Ok(answer.await?.status() == ServingStatus::Serving)
    }
}
