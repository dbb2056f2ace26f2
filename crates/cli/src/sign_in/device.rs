//! The device flow (RFC 8628): a code that the person confirms in any browser.

use std::time::Duration;

use serde::Deserialize;
use stateway_identity::oidc::{Discovery, form};
use tokio::time::Instant;

use super::{Oidc, Signed, TokenRefusal, TokenResponse, Web, refused};
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::Failure;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The interval of the questions, unless the provider chooses one, and the increase that a provider can demand.
const INTERVAL: Duration = Duration::from_secs(5);
/// The shortest and the longest pause between two questions, whatever a provider asks for.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// The longest that a person may take.
const LONGEST: u64 = 30 * 60;

#[derive(Deserialize)]
struct DeviceResponse {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

/// Signs in with a code that the person confirms in any browser.
///
/// # Errors
/// The person or the provider refuses, or the code expires.
pub async fn on_device(web: &Web, discovery: &Discovery, oidc: &Oidc) -> Result<Signed, Failure> {
    let endpoint = discovery.device_authorization_endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| {
        Failure::new(Exit::Unsupported, "the provider has no device flow")
            .hint("Use `stateway login --browser`, or --with-token.")
    })?;
    let scopes = oidc.scopes.join(" ");
    let mut fields = vec![("client_id", oidc.client_id.as_str()), ("scope", &scopes)];
    fields.extend(
        oidc.resource
            .as_deref()
            .map(|resource| ("resource", resource)),
    );
    let answer = web.post(endpoint, form(&fields)).await?;
    let device: DeviceResponse = match serde_json::from_slice(&answer.body) {
        Ok(device) if answer.status == 200 => device,
        _ => return Err(refused(&answer.body, answer.status)),
    };
    print_message(&format!("Open {} in a browser,", device.verification_uri));
    print_message(&format!("and confirm the code {}.", device.user_code));
    if let Some(address) = &device.verification_uri_complete {
        print_message(&format!("The address with the code: {address}"));
    }
    let end = Instant::now() + Duration::from_secs(device.expires_in.min(LONGEST));
    let interval = device.interval.map_or(INTERVAL, Duration::from_secs);
    let mut interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    let fields = [
        ("grant_type", GRANT),
        ("device_code", device.device_code.as_str()),
        ("client_id", &oidc.client_id),
    ];
    while Instant::now() + interval < end {
        tokio::time::sleep(interval).await;
        let answer = web.post(&discovery.token_endpoint, form(&fields)).await?;
        if answer.status == 200 {
            let response: Result<TokenResponse, _> = serde_json::from_slice(&answer.body);
            let response = response.map_err(|_| refused(&answer.body, answer.status))?;
            return response.signed(oidc, None, None);
        }
        let refusal: Option<TokenRefusal> = serde_json::from_slice(&answer.body).ok();
        match refusal.as_ref().map(|refusal| refusal.error.as_str()) {
            Some("authorization_pending") => {}
            Some("slow_down") => interval = (interval + INTERVAL).min(LONGEST_INTERVAL),
            _ => return Err(refused(&answer.body, answer.status)),
        }
    }
    Err(Failure::new(Exit::Deadline, "nobody confirmed the code in time").hint("Sign in again."))
}
