//! The name in a client certificate that a TLS handshake has verified.

use rustls_pki_types::CertificateDer;
use thiserror::Error;
use webpki::EndEntityCert;

use crate::{Glob, Identity, Method, Unfit};

/// The scheme of SPIFFE ids.
const SPIFFE: &str = "spiffe://";

/// The object identifier of a common name: 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// A certificate without a name that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Malformed,
    /// It has more than one SPIFFE id.
    #[error("the certificate has more than one SPIFFE id")]
    SeveralIds,
    /// It has no name that counts.
    #[error("the certificate has no SPIFFE id, no DNS name and no common name")]
    NoName,
    /// The name does not fit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// Roles and tenant of the subjects that a pattern fits. A certificate has neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Which subjects.
    pub subject: Glob,
    /// Their roles.
    pub roles: Vec<String>,
    /// Their tenant.
    pub tenant: Option<String>,
}

/// The name in a certificate: its SPIFFE id, else its first DNS name, else its common name.
///
/// # Errors
/// A certificate without one, or with two SPIFFE ids: a verifier must refuse those.
pub fn subject_of(certificate: &[u8]) -> Result<String, CertificateError> {
    let der = CertificateDer::from(certificate);
    let certificate = EndEntityCert::try_from(&der).map_err(|_| CertificateError::Malformed)?;
    let mut ids = certificate.valid_uri_names().filter(|uri| {
        uri.get(..SPIFFE.len())
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(SPIFFE))
    });
    if let Some(id) = ids.next() {
        return match ids.next() {
            Some(_) => Err(CertificateError::SeveralIds),
            None => Ok(id.to_owned()),
        };
    }
    // A wildcard is the name of many.
    let mut names = certificate
        .valid_dns_names()
        .filter(|name| !name.contains('*'));
    if let Some(name) = names.next() {
        return Ok(name.to_owned());
    }
    // Authorities that restrict the ids and names they sign often leave the common name to their clients: it must not
    // pass for an id.
    common_name(certificate.subject())
        .filter(|name| !name.contains("://"))
        .map(str::to_owned)
        .ok_or(CertificateError::NoName)
}

/// The identity of a subject: the roles of every pattern that fits, the tenant of the first that has
/// one.
///
/// # Errors
/// Names that do not fit.
pub fn identity(subject: &str, grants: &[Grant]) -> Result<Identity, Unfit> {
    let fitting: Vec<_> = grants
        .iter()
        .filter(|it| it.subject.fits(subject))
        .collect();
    let roles = fitting.iter().flat_map(|grant| &grant.roles);
    let tenant = fitting.iter().find_map(|grant| grant.tenant.as_deref());
    Identity::new(Method::Certificate, subject, roles, tenant)
}

/// The common name of a distinguished name; none if there are several.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    let mut found = None;
    while !subject.is_empty() {
        let (tag, mut set, rest) = element(subject)?;
        subject = rest;
        if tag != SET {
            return None;
        }
        while !set.is_empty() {
            let (tag, attribute, rest) = element(set)?;
            set = rest;
            let (kind, oid, value) = element(attribute)?;
            if tag != SEQUENCE || kind != OBJECT_IDENTIFIER {
                return None;
            }
            if oid != COMMON_NAME {
                continue;
            }
            let (kind, text, _) = element(value)?;
            let is_text = matches!(kind, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
            let text = str::from_utf8(text).ok().filter(|_| is_text)?;
            if found.replace(text).is_some() {
                return None;
            }
        }
    }
    found.filter(|name| !name.is_empty())
}

/// The first element of DER: tag, contents, and what comes after it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&length, rest) = rest.split_first()?;
            (usize::from(length), rest)
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common: Option<&str>, dns: &[&str], uris: &[&str]) -> Vec<u8> {
        let dns: Vec<_> = dns.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(dns).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Example");
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        for uri in uris {
            let uri = SanType::URI((*uri).try_into().unwrap());
            params.subject_alt_names.push(uri);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_common_name_does_not_pass_for_an_id() {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        let id = "spiffe://prod/ns/shop/sa/admin";
        params.distinguished_name.push(DnType::CommonName, id);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        assert_eq!(subject_of(certificate.der()), Err(CertificateError::NoName));
    }

    #[test]
    fn a_spiffe_id_counts_before_a_dns_name_and_that_before_a_common_name() {
        let id = "spiffe://prod/ns/shop/sa/worker";
        let web = "https://shop.example";
        for (certificate, name) in [
            (certificate(Some("cn"), &["a.example"], &[web, id]), id),
            (
                certificate(Some("cn"), &["*.example", "a.example"], &[web]),
                "a.example",
            ),
            (certificate(Some("cn"), &[], &[web]), "cn"),
            (certificate(Some("cn"), &["*.example"], &[]), "cn"),
        ] {
            assert_eq!(subject_of(&certificate).unwrap(), name);
        }
    }

    #[test]
    fn a_certificate_that_names_nobody_or_two_is_refused() {
        let two = certificate(Some("cn"), &[], &["spiffe://a/b", "SPIFFE://a/c"]);
        assert_eq!(subject_of(&two), Err(CertificateError::SeveralIds));
        let nobody = certificate(None, &[], &[]);
        assert_eq!(subject_of(&nobody), Err(CertificateError::NoName));
        assert_eq!(subject_of(b"0"), Err(CertificateError::Malformed));
    }

    #[test]
    fn roles_and_tenant_come_from_the_patterns_that_fit() {
        let grant = |subject: &str, role: &str, tenant: Option<&str>| Grant {
            subject: Glob::new(subject),
            roles: vec![role.to_owned()],
            tenant: tenant.map(str::to_owned),
        };
        let grants = [
            grant("spiffe://prod/*", "worker", None),
            grant("*/sa/ops", "operator", Some("acme")),
            grant("spiffe://test/*", "admin", None),
        ];
        let ops = identity("spiffe://prod/sa/ops", &grants).unwrap();
        let roles: Vec<_> = ops.roles.iter().map(|role| &**role).collect();
        assert_eq!(roles, ["worker", "operator"]);
        assert_eq!(ops.tenant.as_deref(), Some("acme"));
        assert_eq!(ops.method, Method::Certificate);
        assert!(identity("other", &grants).unwrap().roles.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = common_name(&bytes);
            let _ = subject_of(&bytes);
        }
    }
}
