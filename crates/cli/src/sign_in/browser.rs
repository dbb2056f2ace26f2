//! The browser flow (RFC 8252): the provider sends the browser back to a port of this machine.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use stateway_identity::oidc::{AuthorizationRequest, CodeVerifier, Discovery, form, word};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Oidc, Signed, TokenResponse, Web, refused};
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::Failure;

const CALLBACK: &str = "/callback";

/// How long a person may take.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// How long a browser may take to send its request.
const REQUEST: Duration = Duration::from_secs(5);
/// The longest request.
const LARGEST: usize = 16 * 1024;
/// The most connections at a time.
const MOST_CONNECTIONS: usize = 256;

/// Signs in with a browser on this machine. `opens` starts the browser; the address is printed anyway.
///
/// # Errors
/// The person or the provider refuses, or the sign-in is not completed in time.
pub async fn in_browser(
    web: &Web,
    discovery: &Discovery,
    oidc: &Oidc,
    opens: bool,
) -> Result<Signed, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let redirect = format!(
        "http://127.0.0.1:{}{CALLBACK}",
        listener.local_addr()?.port()
    );
    let verifier = CodeVerifier::new(&random()?);
    let (state, nonce) = (word(&random()?), word(&random()?));
    let request = AuthorizationRequest {
        client_id: &oidc.client_id,
        redirect_uri: &redirect,
        scopes: &oidc.scopes.join(" "),
        state: &state,
        nonce: &nonce,
        verifier: &verifier,
        resource: oidc.resource.as_deref(),
    };
    let address = request.address(discovery);
    print_message(&format!(
        "Sign in with a browser on this machine: {address}"
    ));
    if opens {
        open(&address);
    }
    let came_back = tokio::time::timeout(LONGEST, wait(&listener, discovery, &state)).await;
    let late = || {
        Failure::new(Exit::Deadline, "the sign-in was not completed in time").hint("Sign in again.")
    };
    let code = came_back.map_err(|_| late())??;
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", &redirect),
        ("code_verifier", verifier.expose()),
        ("client_id", &oidc.client_id),
    ];
    fields.extend(
        oidc.resource
            .as_deref()
            .map(|resource| ("resource", resource)),
    );
    let answer = web.post(&discovery.token_endpoint, form(&fields)).await?;
    match serde_json::from_slice::<TokenResponse>(&answer.body) {
        Ok(response) if answer.status == 200 => response.signed(oidc, Some(&nonce), None),
        _ => Err(refused(&answer.body, answer.status)),
    }
}

/// Waits until the browser is redirected with a code. Requests of others are answered and forgotten, and connections
/// that send nothing delay no other connection.
async fn wait(
    listener: &TcpListener,
    discovery: &Discovery,
    state: &str,
) -> Result<String, Failure> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => {
                let (stream, _) = accepted?;
                connections.push(serve(stream, discovery, state));
            }
            Some(outcome) = connections.next() => {
                if let Some(outcome) = outcome {
                    return outcome;
                }
            }
        }
    }
}

/// Answers one connection. None if the request does not belong to this sign-in.
async fn serve(
    mut stream: TcpStream,
    discovery: &Discovery,
    state: &str,
) -> Option<Result<String, Failure>> {
    let target = tokio::time::timeout(REQUEST, target(&mut stream)).await;
    match answered(&target.ok()??, discovery, state) {
        Answered::Elsewhere => {
            respond(&mut stream, "404 Not Found", "Not found.").await;
            None
        }
        Answered::Code(code) => {
            let text = "You are signed in. Close this window and go back to the command line.";
            respond(&mut stream, "200 OK", text).await;
            Some(Ok(code))
        }
        Answered::Refused(failure) => {
            let text = "You are not signed in. The command line shows the reason.";
            respond(&mut stream, "400 Bad Request", text).await;
            Some(Err(failure))
        }
    }
}

enum Answered {
    Code(String),
    Refused(Failure),
    /// Not an answer to this sign-in.
    Elsewhere,
}

fn answered(target: &str, discovery: &Discovery, state: &str) -> Answered {
    let Some((CALLBACK, query)) = target.split_once('?') else {
        return Answered::Elsewhere;
    };
    let fields: Vec<(String, String)> = stateway_identity::oidc::fields(query.as_bytes());
    let one = |name: &str| {
        let mut values = fields.iter().filter(|(key, _)| key == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value.as_str())
    };
    // Any page of the browser can send requests to this port.
    if one("state") != Some(state) {
        return Answered::Elsewhere;
    }
    let refuse = |message: String| {
        Answered::Refused(Failure::new(Exit::Refused, message).hint("Sign in again."))
    };
    if !discovery.is_issuer_of(one("iss")) {
        return refuse("the answer does not come from the provider of the gateway".to_owned());
    }
    match (one("error"), one("code")) {
        (Some(error), _) => refuse(format!("the provider refused the sign-in: {error}")),
        (None, Some(code)) => Answered::Code(code.to_owned()),
        (None, None) => refuse("the provider sent no code".to_owned()),
    }
}

/// The target of an HTTP request: its path and query.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut piece = [0; 2048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 || request.len() + read > LARGEST {
            return None;
        }
        request.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8(request).ok()?;
    let mut words = text.lines().next()?.split(' ');
    (words.next()? == "GET").then_some(())?;
    words.next().map(str::to_owned)
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
    );
    // The browser may be gone; the sign-in does not depend on it.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Starts the browser of the desktop. The person can open the address without it.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null());
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

fn random() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(Exit::Internal, format!("no random bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_this_sign_in_counts() {
        let document = r#"{"issuer": "https://id", "authorization_endpoint": "https://id/a",
            "token_endpoint": "https://id/t", "jwks_uri": "https://id/k"}"#;
        let discovery = Discovery::parse(document.as_bytes(), "https://id").unwrap();
        let of = |target: &str| answered(target, &discovery, "s");
        assert!(matches!(of("/callback?code=c&state=s"), Answered::Code(code) if code == "c"));
        for elsewhere in [
            "/",
            "/callback",
            "/favicon.ico",
            "/callback?code=c&state=x",
            "/callback?code=c",
            "/callback?code=c&state=s&state=s",
            "/other?code=c&state=s",
        ] {
            assert!(matches!(of(elsewhere), Answered::Elsewhere), "{elsewhere}");
        }
        for refused in [
            "/callback?error=access_denied&state=s",
            "/callback?state=s",
            "/callback?code=c&state=s&iss=https://evil",
        ] {
            assert!(matches!(of(refused), Answered::Refused(_)), "{refused}");
        }
    }
}
