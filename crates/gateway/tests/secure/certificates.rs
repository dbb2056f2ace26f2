//! Client certificates: whom they name, and every certificate that is refused.

use std::time::Duration;

use rcgen::{CertificateParams, DnType};
use stateway_client::{Client, Security};
use stateway_gateway::{Settings, StartError};
use stateway_identity::Glob;
use stateway_identity::certificate::Grant;

use crate::support::{
    Authority, Folder, Running, Signed, config_of, connect_with, eventually, get, settings, who,
};

struct World {
    folder: Folder,
    clients: Authority,
    running: Running,
}

fn with_certificates(folder: &Folder, clients: &Authority) -> Settings {
    let mut settings = settings(folder, &Authority::new("servers"));
    let tls = settings.tls.as_mut().unwrap();
    tls.client_ca = Some(folder.write("clients.pem", &clients.pem()));
    settings.authentication.certificates = Some(vec![Grant {
        subject: Glob::new("spiffe://prod/*"),
        roles: vec!["worker".into()],
        tenant: None,
    }]);
    settings
}

impl World {
    async fn new() -> Self {
        let (folder, clients) = (Folder::new(), Authority::new("clients"));
        let running = Running::new(with_certificates(&folder, &clients)).await;
        Self {
            folder,
            clients,
            running,
        }
    }

    fn client(&self, name: &str, signed: &Signed) -> Client {
        let (certificate, key) = self.folder.signed(name, signed);
        let security = Security::default().ca(self.folder.path("ca.pem"));
        self.running.client(&security.certificate(certificate, key))
    }
}

fn named(common: &str, dns: &[&str]) -> CertificateParams {
    let dns: Vec<_> = dns.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(dns).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params
}

#[tokio::test]
async fn a_certificate_names_the_caller() {
    let world = World::new().await;
    let id = "spiffe://prod/ns/shop/sa/worker";
    let client = world.client("spiffe", &world.clients.client(id));
    assert_eq!(who(&client).await.unwrap(), format!("{id} worker"));
    let client = world.client("dns", &world.clients.sign(&named("cn", &["svc.example"])));
    assert_eq!(who(&client).await.unwrap(), "svc.example ");
    let client = world.client("cn", &world.clients.sign(&named("batch", &[])));
    assert_eq!(who(&client).await.unwrap(), "batch ");
    let trusting = Security::default().ca(world.folder.path("ca.pem"));
    let nobody = world.running.who(&trusting).await;
    assert_eq!(nobody.unwrap_err(), "CREDENTIALS_MISSING");
}

#[tokio::test]
async fn certificates_of_another_authority_and_expired_ones_do_not_connect() {
    let world = World::new().await;
    let id = "spiffe://prod/ns/shop/sa/worker";
    let mut expired = named("batch", &[]);
    expired.not_before = rcgen::date_time_ymd(2020, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let mut early = named("batch", &[]);
    early.not_before = rcgen::date_time_ymd(2090, 1, 1);
    early.not_after = rcgen::date_time_ymd(2091, 1, 1);
    for (name, signed) in [
        ("other", Authority::new("clients").client(id)),
        ("expired", world.clients.sign(&expired)),
        ("early", world.clients.sign(&early)),
    ] {
        let refused = who(&world.client(name, &signed)).await.unwrap_err();
        assert!(refused.starts_with("Unavailable"), "{name}: {refused}");
    }
}

#[tokio::test]
async fn a_certificate_that_names_nobody_proves_nothing() {
    let world = World::new().await;
    let mut two = named("cn", &[]);
    for uri in ["spiffe://prod/a", "spiffe://prod/b"] {
        let uri = rcgen::SanType::URI(uri.try_into().unwrap());
        two.subject_alt_names.push(uri);
    }
    let refused = who(&world.client("two", &world.clients.sign(&two))).await;
    assert_eq!(refused.unwrap_err(), "CERTIFICATE_NOT_ACCEPTED");
}

#[tokio::test]
async fn removing_an_authority_ends_its_certificates_on_open_connections_too() {
    let world = World::new().await;
    let client = world.client("a", &world.clients.client("spiffe://prod/a"));
    assert!(who(&client).await.is_ok());
    let others = Authority::new("others");
    world.folder.write("clients.pem", &others.pem());
    eventually(async || who(&client).await == Err("CERTIFICATE_NOT_ACCEPTED".to_owned())).await;
    let client = world.client("b", &others.client("spiffe://prod/b"));
    assert_eq!(who(&client).await.unwrap(), "spiffe://prod/b worker");
}

#[tokio::test]
async fn a_session_is_not_resumed_without_its_certificate() {
    let world = World::new().await;
    let signed = world.clients.client("spiffe://prod/a");
    let versions: [&[&'static rustls::SupportedProtocolVersion]; 2] =
        [&[&rustls::version::TLS12], &[&rustls::version::TLS13]];
    for version in versions {
        let config = config_of(&world.folder.path("ca.pem"), version, Some(&signed));
        for _ in 0..3 {
            let mut stream = connect_with(world.running.address, config.clone())
                .await
                .unwrap();
            let answer = get(&mut stream, "/metrics", "").await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let kind = stream.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full));
        }
    }
}

#[tokio::test]
async fn certificates_need_authorities() {
    let (folder, clients) = (Folder::new(), Authority::new("clients"));
    let mut settings = with_certificates(&folder, &clients);
    settings.tls.as_mut().unwrap().client_ca = None;
    let Err(error) = Running::try_new(settings).await else {
        panic!("it starts");
    };
    assert!(matches!(error, StartError::Authentication(_)), "{error}");
    assert!(
        error.to_string().contains("server.tls.client_ca"),
        "{error}"
    );
}

#[tokio::test]
async fn without_the_method_a_certificate_is_no_identity() {
    let (folder, clients) = (Folder::new(), Authority::new("clients"));
    let mut settings = with_certificates(&folder, &clients);
    settings.authentication.certificates = None;
    let keys = stateway_identity::api_key::KeyFile::default();
    settings.authentication.api_keys = Some(folder.write("keys.json", &keys.to_json()));
    settings.handshake_timeout = Duration::from_secs(10);
    let running = Running::new(settings).await;
    let world = World {
        folder,
        clients,
        running,
    };
    let client = world.client("a", &world.clients.client("spiffe://prod/a"));
    assert_eq!(who(&client).await.unwrap_err(), "CREDENTIALS_MISSING");
}
