//! Requests to a gateway and to a provider: bounded in time and size, without redirects.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, RequestBuilder};
use stateway_identity::oidc::{MOST_BYTES, is_protected};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Target, TokenSource};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Asks over HTTP.
#[derive(Debug, Clone)]
pub struct Web {
    client: Client,
    /// Without the proxies of the environment: a proxy would read what is sent to this machine without TLS.
    local: Client,
}

/// An answer.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Web {
    /// With the authorities of the system and those of a target; with its client certificate, if it is
    /// asked itself.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub fn new(target: &Target, is_gateway: bool) -> Result<Self, Failure> {
        stateway_gateway::use_ring();
        let built = |builder: ClientBuilder| {
            let client = builder.build();
            client.map_err(|error| Failure::new(Exit::Internal, error.to_string()))
        };
        Ok(Self {
            client: built(Self::builder(target, is_gateway)?)?,
            local: built(Self::builder(target, is_gateway)?.no_proxy())?,
        })
    }

    fn builder(target: &Target, is_gateway: bool) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")));
        let wrong = |path: &Path, why: String| {
            let message = format!("`{}` cannot be used: {why}", path.display());
            Failure::usage(message)
        };
        if let Some(ca) = &target.tls_ca {
            let pem = std::fs::read(ca).map_err(|error| wrong(ca, error.to_string()))?;
            let trusted = Certificate::from_pem_bundle(&pem);
            let trusted = trusted.map_err(|error| wrong(ca, error.to_string()))?;
            builder = if is_gateway {
                builder.tls_certs_only(trusted)
            } else {
                builder.tls_certs_merge(trusted)
            };
        } else if is_gateway && target.server.starts_with("http://") {
            // Without TLS, the authorities of the system may be missing.
            builder = builder.tls_certs_only([]);
        }
        if let (Some((cert, key)), true) = (&target.certificate, is_gateway) {
            let mut pem = std::fs::read(cert).map_err(|error| wrong(cert, error.to_string()))?;
            let private = std::fs::read(key).map_err(|error| wrong(key, error.to_string()))?;
            pem.extend(private);
            // The error never quotes the file.
            let identity = Identity::from_pem(&pem);
            let identity = identity.map_err(|_| wrong(cert, "no certificate with a key".into()))?;
            builder = builder.identity(identity);
        }
        Ok(builder)
    }

    fn client(&self, address: &str) -> &Client {
        if is_local(address) {
            &self.local
        } else {
            &self.client
        }
    }

    /// Reads a document, with the token if there is one.
    ///
    /// # Errors
    /// No answer, or the token could be read on the way.
    pub async fn get(&self, address: &str, token: Option<&str>) -> Result<Answer, Failure> {
        let mut request = self.client(address).get(address);
        if let Some(token) = token {
            check_protected(address)?;
            request = request.bearer_auth(token);
        }
        sent(address, request).await
    }

    /// The answer to a form, which must not be read on the way.
    ///
    /// # Errors
    /// No answer.
    pub async fn post(&self, address: &str, form: String) -> Result<Answer, Failure> {
        if !is_protected(address) {
            let message =
                format!("{address} must begin with https:// (http:// on this machine only)");
            return Err(Failure::new(Exit::Refused, message));
        }
        let request = self
            .client(address)
            .post(address)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .body(form);
        sent(address, request).await
    }
}

/// Refuses to send a token where others could read it on the way.
///
/// # Errors
/// The address has no TLS and is not one of this machine.
pub fn check_protected(address: &str) -> Result<(), Failure> {
    if is_protected(address) {
        return Ok(());
    }
    let message = format!("the token would be sent to {address} without encryption");
    Err(Failure::new(Exit::Refused, message)
        .hint("Use an address that begins with https:// (http:// on this machine only)."))
}

/// Whether an address is one of this machine: the only ones that are protected without TLS.
fn is_local(address: &str) -> bool {
    match address.split_once("://") {
        Some((_, rest)) => is_protected(&format!("http://{rest}")),
        None => false,
    }
}

async fn sent(address: &str, request: RequestBuilder) -> Result<Answer, Failure> {
    let failed = |why: String| {
        let message = format!("{address} does not answer: {why}");
        Failure::new(Exit::Unreachable, message).hint("Check the address and the certificates.")
    };
    let told = |error: reqwest::Error| failed(with_sources(&error.without_url()));
    let mut response = request.send().await.map_err(told)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(told)? {
        if body.len() + part.len() > MOST_BYTES {
            return Err(failed("the response is too large".to_owned()));
        }
        body.extend_from_slice(&part);
    }
    Ok(Answer { status, body })
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The token of a target as it is now.
///
/// # Errors
/// A file that cannot be read.
pub fn current_token(target: &Target) -> Result<Option<String>, Failure> {
    match &target.token {
        None => Ok(None),
        Some(TokenSource::Given(token)) => Ok(Some(token.trim().to_owned())),
        Some(TokenSource::File(file)) => Ok(Some(read(file)?.trim().to_owned())),
        Some(TokenSource::Kept(file)) => {
            let text = read(file)?;
            let token = stateway_client::token_for(&text, &target.server);
            Ok(token.map(ToOwned::to_owned))
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!(
            "the token file `{}` cannot be read: {error}",
            file.display()
        );
        Failure::usage(message)
    })
}
