//! The calls of the `Providers` service.

use stateway_proto::v1;

use crate::{Client, Error, GetProvider, ListProviders};

/// Every method answers the [`Error`] that the gateway gave, or one about the way there.
#[allow(clippy::missing_errors_doc)]
impl Client {
    /// Reads one page of providers.
    pub async fn providers_page(
        &self,
        call: ListProviders,
    ) -> Result<v1::ListProvidersResponse, Error> {
        self.read(call, |request| {
            let mut service = self.providers();
            async move { service.list_providers(request).await }
        })
        .await
    }

    /// Reads a provider with its state table.
    pub async fn provider(&self, call: GetProvider) -> Result<v1::Provider, Error> {
        self.read(call, |request| {
            let mut service = self.providers();
            async move { service.get_provider(request).await }
        })
        .await
    }
}
