//! The proof that a stream was opened with. The stream ends when its request would not be accepted any more.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use jiff::Timestamp;
use stateway_identity::Identity;
use tokio::sync::watch;
use tonic::Status;

use super::{Authentication, CookieJar, Unauthenticated};
use crate::access;

/// How often a proof is checked that reports no change by itself: a certificate can expire at any time.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The client certificate of a connection, which can stop to be accepted while the connection is open.
pub(crate) trait PeerCertificate: Send + Sync {
    /// Who the certificate names, if the client presented one.
    fn subject(&self) -> Result<Option<&str>, Unauthenticated>;

    /// Reports every change of the authorities. None without TLS.
    fn changes(&self) -> Option<watch::Receiver<u64>>;
}

/// What proved the identity of a caller that opened a stream.
#[derive(Clone)]
pub(crate) struct StreamProof {
    pub(super) authentication: Arc<Authentication>,
    /// The headers that are a part of the proof.
    pub(super) headers: HeaderMap,
    pub(super) jar: Option<CookieJar>,
    pub(super) certificate: Arc<dyn PeerCertificate>,
    pub(super) identity: Arc<Identity>,
}

/// Why a stream ends before its time.
#[derive(Debug)]
pub(crate) enum ProofEnd {
    /// The proof is not accepted any more.
    Refused(Unauthenticated),
    /// The same proof names other roles or another tenant now.
    Changed,
}

impl ProofEnd {
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Refused(refused) => refused.status(),
            Self::Changed => access::changed(),
        }
    }

    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Refused(refused) => refused.reason(),
            Self::Changed => "ACCESS_CHANGED",
        }
    }
}

impl StreamProof {
    /// Resolves when the proof is not accepted any more, or names somebody else.
    pub(crate) async fn ended(self) -> ProofEnd {
        let mut changes = self.authentication.changes();
        let mut authorities = self.certificate.changes();
        loop {
            let pause = match self.check().await {
                Ok(pause) => pause,
                Err(end) => return end,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = changed(Some(&mut changes)) => {}
                () = changed(authorities.as_mut()) => {}
            }
        }
    }

    /// How long the proof counts without another check.
    async fn check(&self) -> Result<Duration, ProofEnd> {
        let proved = match self.certificate.subject() {
            Ok(subject) => {
                let authentication = &self.authentication;
                authentication
                    .proved(&self.headers, subject, self.jar)
                    .await
            }
            Err(refused) => Err(refused),
        };
        let proved = proved.map_err(ProofEnd::Refused)?;
        if proved.identity != self.identity {
            return Err(ProofEnd::Changed);
        }
        // A person who signs out in another window is noticed soon.
        let interval = match proved.session {
            Some(_) => self.authentication.reload_interval,
            None => CHECK_INTERVAL,
        };
        let rest = proved.until.map(|until| {
            let rest = until.duration_since(Timestamp::now());
            Duration::try_from(rest).unwrap_or_default()
        });
        Ok(rest.map_or(interval, |rest| rest.min(interval)))
    }
}

async fn changed(changes: Option<&mut watch::Receiver<u64>>) {
    let is_over = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => true,
    };
    if is_over {
        std::future::pending::<()>().await;
    }
}
