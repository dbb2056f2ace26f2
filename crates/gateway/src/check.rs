//! Whether a gateway could start with its settings: opens every file that a start opens, changes none of them, and
//! reports every error.

use crate::access::AccessControl;
use crate::audit::Auditor;
use crate::authentication::Authentication;
use crate::front::{PeerTls, Tls};
use crate::server::StartError;
use crate::settings::Settings;

/// Every reason why a gateway with these settings would not start, as far as that can be found out without a port,
/// a store and a change of a file: certificates, keys, rules, and the place of the audit log.
#[must_use]
pub fn check(settings: &Settings) -> Vec<StartError> {
    let mut found = Vec::new();
    let is_guarded = settings.tls.is_some() && settings.authentication.is_required();
    if !settings.listen.ip().is_loopback() && !is_guarded {
        found.push(StartError::NotLoopback(settings.listen));
    }
    if let Some(tls) = &settings.tls {
        found.extend(Tls::check(tls).into_iter().map(StartError::from));
    }
    let peers = settings.peers.as_ref().map(PeerTls::load);
    found.extend(peers.and_then(Result::err).map(StartError::from));
    let authentication = Authentication::check(settings);
    found.extend(authentication.into_iter().map(StartError::from));
    let is_authenticated = settings.authentication.is_required();
    let access = AccessControl::load(&settings.access, is_authenticated);
    found.extend(access.err().map(StartError::from));
    if let Some(audit) = &settings.audit {
        found.extend(Auditor::check(audit).into_iter().map(StartError::from));
    }
    found
}
