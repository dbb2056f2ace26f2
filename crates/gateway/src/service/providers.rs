//! `stateway.v1.Providers`.

use std::ops::Bound;
use std::sync::Arc;

use stateway_model::ProviderId;
use stateway_proto::v1;
use stateway_proto::v1::providers_server::Providers as Service;
use tonic::{Request, Response, Status};

use super::{Shell, validate};
use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;
use crate::token::Sealer;
use crate::upstream::{Upstreams, named};

const PROVIDERS_PER_PAGE: usize = 50;
const PURPOSE: &str = "providers";

/// The service over every configured provider.
pub(crate) struct Providers {
    pub(crate) shell: Arc<Shell>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) sealer: Arc<Sealer>,
}

#[tonic::async_trait]
impl Service for Providers {
    async fn list_providers(
        &self,
        request: Request<v1::ListProvidersRequest>,
    ) -> Result<Response<v1::ListProvidersResponse>, Status> {
        let answer = self
            .shell
            .run("ListProviders", request, async |call, message| {
                self.list(&call, &message)
            });
        answer.await
    }

    async fn get_provider(
        &self,
        request: Request<v1::GetProviderRequest>,
    ) -> Result<Response<v1::Provider>, Status> {
        self.shell
            .run("GetProvider", request, async |call, message| {
                self.get(&call, &message)
            })
            .await
    }
}

impl Providers {
    fn list(
        &self,
        call: &ApiCall,
        request: &v1::ListProvidersRequest,
    ) -> Result<v1::ListProvidersResponse, Status> {
        let size = validate::page_size(request.page_size, PROVIDERS_PER_PAGE)?;
        let purpose = call.access.bound(PURPOSE.to_owned());
        let after: Bound<ProviderId> = match request.page_token.as_str() {
            "" => Bound::Unbounded,
            token => {
                let last = self.sealer.open(&purpose, token);
                Bound::Excluded(last.map_err(super::executions::page_token_refused)?)
            }
        };
        let rest = self.upstreams.range((after, Bound::Unbounded));
        let mut rest = rest.filter(|(id, _)| call.access.sees_provider(id));
        let page: Vec<_> = rest.by_ref().take(size).collect();
        let last = page.last().map(|(id, _)| (*id).clone());
        let next_page_token = match (rest.next(), last) {
            (Some(_), Some(last)) => self.sealer.seal(&purpose, last),
            _ => String::new(),
        };
        let providers = page
            .iter()
            .map(|(_, upstream)| convert::provider(upstream, false));
        Ok(v1::ListProvidersResponse {
            providers: providers.collect(),
            next_page_token,
        })
    }

    fn get(
        &self,
        call: &ApiCall,
        request: &v1::GetProviderRequest,
    ) -> Result<v1::Provider, Status> {
        let id = request.name.strip_prefix("providers/").ok_or_else(|| {
            Status::from(Refusal::invalid(
                "name",
                "`name` is not of the form `providers/{provider}`",
            ))
        })?;
        let id: ProviderId = id
            .parse()
            .map_err(|error| Refusal::invalid("name", format!("{error}")))?;
        let upstream = named(&call.access, &self.upstreams, &id)?;
        Ok(convert::provider(upstream, true))
    }
}
