//! A gateway over TLS, and commands that call it.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::binary::{Answer, Running, command, finish};

/// Writes an authority (`ca.pem`) and a certificate of this machine (`server.pem`, `server.key`).
pub(crate) fn certificates(folder: &Path) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(folder.join("server.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    authority
}

pub(crate) const TLS: &str = "[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n";

/// A gateway with this configuration, and its address.
pub(crate) fn serve(folder: &Path, config: &str) -> (Running, String) {
    let config = format!("{config}[providers.memory]\nkind = \"memory\"\n");
    std::fs::write(folder.join("stateway.toml"), config).unwrap();
    let process = Running::begin(command(folder).args(["serve", "--listen", "127.0.0.1:0"]));
    let line = process.line("stateway is listening on ");
    let url = line.split(' ').find(|word| word.contains("://")).unwrap();
    (process, url.to_owned())
}

pub(crate) fn ask(folder: &Path, url: &str, arguments: &[&str]) -> Answer {
    finish(command(folder).args(["--server", url]).args(arguments), "")
}

#[test]
fn commands_call_a_gateway_over_tls_whose_authority_they_trust() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (_gateway, url) = serve(folder.path(), TLS);
    assert!(url.starts_with("https://"), "{url}");
    let list = ["providers", "list", "-o", "json", "--tls-ca", "ca.pem"];
    let answer = ask(folder.path(), &url, &list).exits(0);
    assert_eq!(answer.json()["providers"][0]["name"], "providers/memory");
    // Without the authority, and without TLS.
    let answer = ask(folder.path(), &url, &["providers", "list"]).exits(6);
    assert!(answer.err.contains("--tls-ca"), "{}", answer.err);
    let plain = url.replace("https://", "http://");
    ask(folder.path(), &plain, &["providers", "list"]).exits(6);
    let answer = ask(folder.path(), &plain, &list).exits(2);
    assert!(answer.err.contains("https://"), "{}", answer.err);
}

#[test]
fn a_certificate_that_cannot_be_used_is_reported_with_its_key_and_file() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    std::fs::write(folder.path().join("server.key"), "garbage").unwrap();
    let config = format!("{TLS}[providers.memory]\nkind = \"memory\"\n");
    std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
    let answer = finish(command(folder.path()).arg("serve"), "").exits(2);
    for text in ["server.tls.key", "server.key", "private key"] {
        assert!(answer.err.contains(text), "{text}: {}", answer.err);
    }
    assert!(!answer.err.contains("garbage"), "{}", answer.err);
}
