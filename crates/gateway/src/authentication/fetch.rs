//! Requests to the issuer of tokens: bounded in time and size, to protected addresses only, and
//! without redirects.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, RequestBuilder};
use stateway_identity::oidc::{MOST_BYTES, is_protected};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a client cannot be made.
pub(super) enum ClientError {
    /// The file with the authorities cannot be used.
    Ca(PathBuf, String),
    /// Anything else.
    Other(String),
}

/// Chooses the cryptography of HTTP clients in this process. The first choice counts; both
/// are good.
pub fn use_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Asks one issuer.
#[derive(Debug, Clone)]
pub(super) struct Fetcher(Client);

/// What the issuer answers.
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Fetcher {
    /// For an issuer at this address, with the authorities in a file or those of the system.
    pub(super) fn new(address: &str, ca: Option<&Path>) -> Result<Self, ClientError> {
        use_ring();
        let mut builder = Client::builder()
            .timeout(TIMEOUT)
            // The answer comes from the configured place and from no other.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = ca {
            let wrong = |why: String| ClientError::Ca(ca.to_owned(), why);
            let pem = std::fs::read(ca).map_err(|error| wrong(error.to_string()))?;
            let trusted = Certificate::from_pem_bundle(&pem);
            let trusted = trusted.map_err(|error| wrong(error.to_string()))?;
            builder = builder.tls_certs_only(trusted);
        } else if address.starts_with("http://") {
            // The system's authorities need not exist if they are not used.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build();
        client
            .map(Self)
            .map_err(|error| ClientError::Other(error.to_string()))
    }

    /// A document.
    pub(super) async fn get(&self, address: &str) -> Result<Vec<u8>, String> {
        let fetched = sent(address, self.0.get(address)).await?;
        match fetched.status {
            200 => Ok(fetched.body),
            status => Err(format!("the response has the status {status}")),
        }
    }

    /// The answer to a form. Neither the form nor the answer is ever quoted.
    pub(super) async fn post(
        &self,
        address: &str,
        form: String,
        basic: Option<(&str, &str)>,
    ) -> Result<Fetched, String> {
        let mut request = self
            .0
            .post(address)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(form);
        if let Some((name, password)) = basic {
            request = request.basic_auth(name, Some(password));
        }
        sent(address, request).await
    }
}

async fn sent(address: &str, request: RequestBuilder) -> Result<Fetched, String> {
    if !is_protected(address) {
        return Err("the address must begin with https:// (http:// on this machine only)".into());
    }
    let told = |error: reqwest::Error| error.without_url().to_string();
    let mut response = request.send().await.map_err(told)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(told)? {
        if body.len() + part.len() > MOST_BYTES {
            return Err(format!("the response is larger than {MOST_BYTES} bytes"));
        }
        body.extend_from_slice(&part);
    }
    Ok(Fetched { status, body })
}
