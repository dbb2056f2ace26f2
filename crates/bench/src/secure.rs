//! GetExecution over TLS, with a JSON Web Token and 100 access rules, against the empty service over TLS that gets the
//! token too and ignores it.

mod issuer;
mod transport;

pub(crate) use transport::serve_empty;

use std::fmt::Write;
use std::time::Instant;

use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::triggers_client::TriggersClient;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;

use crate::Outcome;
use crate::get::{self, Limits};
use crate::process;
use issuer::Issuer;
use transport::Trust;

/// The required rate of the gateway with TLS, tokens and rules.
const LEAST_RATIO: f64 = 0.65;
/// The rules of the gateway.
const RULES: usize = 100;
/// The rules that are about the caller; the last of them allows its calls.
const RULES_OF_CALLER: usize = 10;

pub(crate) async fn run() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let trust = Trust::new(folder.path())?;
    let issuer = Issuer::new()?;
    std::fs::write(folder.path().join("jwks.json"), issuer.keys())?;
    let config = folder.path().join("stateway.toml");
    std::fs::write(&config, configuration())?;
    let stateway = process::stateway_with(&config).await?;
    let empty = process::empty_service_with_tls(folder.path()).await?;
    let bearer: AsciiMetadataValue = format!("Bearer {}", issuer.token()?).parse()?;
    let request = |message| {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert("authorization", bearer.clone());
        request
    };
    let mut client = ExecutionsClient::new(trust.channel(&stateway.url).await?);
    let start = v1::StartExecutionRequest {
        definition: "providers/memory/definitions/hello".to_owned(),
        ..Default::default()
    };
    let name = client
        .start_execution(request(start))
        .await?
        .into_inner()
        .name;
    println!("over TLS, with a token and {RULES} access rules:");
    let limits = Limits {
        least_ratio: LEAST_RATIO,
        connect: async |url: &str| trust.channel(url).await,
    };
    // The same headers for both: what a client does to send a token is no work of the gateway.
    let empty_calls = async |channels: Vec<Channel>| empty_calls(&channels, &bearer).await;
    let get = async |channels: Vec<Channel>| get_calls(&channels, &name, &bearer).await;
    get::compare((&empty, empty_calls), (&stateway, get), limits).await
}

async fn empty_calls(channels: &[Channel], bearer: &AsciiMetadataValue) -> Outcome<u32> {
    get::round(|worker, until| {
        let mut client = TriggersClient::new(channels[worker % channels.len()].clone());
        let bearer = bearer.clone();
        async move {
            let mut done = 0;
            while Instant::now() < until {
                let mut request = Request::new(v1::PublishEventRequest::default());
                let metadata = request.metadata_mut();
                metadata.insert("authorization", bearer.clone());
                client.publish_event(request).await?;
                done += 1;
            }
            Ok(done)
        }
    })
    .await
}

async fn get_calls(channels: &[Channel], name: &str, bearer: &AsciiMetadataValue) -> Outcome<u32> {
    get::round(|worker, until| {
        let mut client = ExecutionsClient::new(channels[worker % channels.len()].clone());
        let message = v1::GetExecutionRequest {
            name: name.to_owned(),
            view: v1::ExecutionView::Full.into(),
        };
        let bearer = bearer.clone();
        async move {
            let mut done = 0;
            while Instant::now() < until {
                let mut request = Request::new(message.clone());
                let metadata = request.metadata_mut();
                metadata.insert("authorization", bearer.clone());
                client.get_execution(request).await?;
                done += 1;
            }
            Ok(done)
        }
    })
    .await
}

/// TLS, tokens, and rules of which few are about the caller.
fn configuration() -> String {
    let mut text = format!(
        "[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n\
         [authentication.jwt]\nissuer = \"{}\"\naudience = [\"{}\"]\njwks_file = \"jwks.json\"\n\
         [providers.memory]\nkind = \"memory\"\n",
        issuer::ISSUER,
        issuer::AUDIENCE
    );
    // The last rule follows below.
    for rule in 1..RULES {
        let role = if rule % (RULES / RULES_OF_CALLER) == 0 {
            issuer::ROLE.to_owned()
        } else {
            format!("team-{rule}")
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[access.rules]]\nname = \"rule-{rule}\"\nwho = {{ role = \"{role}\" }}\n\
             may = [\"read-payloads\", \"start\"]\n\
             where = \"provider = memory AND definition = other-{rule} AND labels.tenant = caller.tenant\"\n"
        );
    }
    let _ = write!(
        text,
        "[[access.rules]]\nname = \"last\"\nwho = {{ role = \"{}\" }}\n\
         may = [\"read-payloads\", \"start\"]\nwhere = \"provider = memory AND definition = h*\"\n",
        issuer::ROLE
    );
    text
}
