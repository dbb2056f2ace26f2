//! The headers that name a caller count from a configured proxy only.

use serde_json::json;
use stateway_client::Security;
use stateway_gateway::JwksSource;
use stateway_identity::Glob;

use crate::support::{Authority, Folder, Running, settings, who};
use crate::tokens::{Issuer, accepting};

struct World {
    folder: Folder,
    clients: Authority,
    issuer: Issuer,
    running: Running,
}

impl World {
    async fn new() -> Self {
        let (folder, clients) = (Folder::new(), Authority::new("clients"));
        let issuer = Issuer::new("a");
        let mut settings = settings(&folder, &Authority::new("servers"));
        let tls = settings.tls.as_mut().unwrap();
        tls.client_ca = Some(folder.write("clients.pem", &clients.pem()));
        let keys = JwksSource::File(folder.write("jwks.json", &issuer.set()));
        settings.authentication.jwt = Some(accepting(keys));
        settings.authentication.certificates = Some(Vec::new());
        settings.authentication.proxies = vec![Glob::new("spiffe://prod/proxy")];
        let running = Running::new(settings).await;
        Self {
            folder,
            clients,
            issuer,
            running,
        }
    }

    fn security(&self, certificate: Option<&str>) -> Security {
        let security = Security::default().ca(self.folder.path("ca.pem"));
        let Some(id) = certificate else {
            return security;
        };
        let name = id.replace(['/', ':'], "-");
        let (certificate, key) = self.folder.signed(&name, &self.clients.client(id));
        security.certificate(certificate, key)
    }

    /// Who the gateway takes a request for, with a header that names the caller.
    async fn named(&self, security: &Security, actor: &str) -> Result<String, String> {
        let client = self.running.client(security);
        who(&client.acting_as(actor, ["admin"]).unwrap()).await
    }
}

const PROXY: &str = "spiffe://prod/proxy";

#[tokio::test]
async fn a_proxy_names_its_callers() {
    let world = World::new().await;
    let proxy = world.security(Some(PROXY));
    assert_eq!(world.named(&proxy, "ada").await.unwrap(), "ada admin");
    assert_eq!(world.named(&proxy, "bob").await.unwrap(), "bob admin");
    // A proxy that does not say for whom it calls is nobody, not itself.
    let unnamed = world.running.who(&proxy).await;
    assert_eq!(unnamed.unwrap_err(), "CALLER_NOT_NAMED");
    // It may pass on the token of its caller instead, and not both.
    let token = world.issuer.token("ada", &json!({}));
    let passing = proxy.token(&token).unwrap();
    assert_eq!(world.running.who(&passing).await.unwrap(), "ada ops,dev");
    let both = world.named(&passing, "root").await;
    assert_eq!(both.unwrap_err(), "CREDENTIALS_CONFLICT");
}

#[tokio::test]
async fn nobody_else_can_name_a_caller() {
    let world = World::new().await;
    let token = world.issuer.token("ada", &json!({}));
    for security in [
        world.security(None),
        world.security(None).token(&token).unwrap(),
        world.security(Some("spiffe://prod/proxy2")),
        world.security(Some("spiffe://prod/svc")),
    ] {
        let refused = world.named(&security, "root").await.unwrap_err();
        assert_eq!(refused, "IDENTITY_HEADERS_NOT_ACCEPTED");
    }
}

#[tokio::test]
async fn two_proofs_are_refused() {
    let world = World::new().await;
    let token = world.issuer.token("ada", &json!({}));
    let both = world.security(Some("spiffe://prod/svc")).token(&token);
    let refused = world.running.who(&both.unwrap()).await;
    assert_eq!(refused.unwrap_err(), "CREDENTIALS_CONFLICT");
}
