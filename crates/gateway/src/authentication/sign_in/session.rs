//! One session: who signed in, since when, and when it was used last.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_identity::oidc::word;
use stateway_identity::{Identity, Method, Unfit};
use thiserror::Error;

use super::random;

/// A cookie is written again when this part of the idle time has passed.
const RENEWALS: u32 = 10;

/// The most sessions that are remembered as ended.
const MOST_ENDED: usize = 100_000;

/// Why a session does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SessionError {
    /// Altered, or sealed with another key: the gateway was restarted without a fixed key, or another
    /// provider is configured.
    #[error("the session does not belong to this gateway")]
    Foreign,
    /// Too old, or not used for too long.
    #[error("the session has expired")]
    Expired,
    /// Its person signed out.
    #[error("the session was ended")]
    Ended,
}

impl SessionError {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Foreign => "SESSION_INVALID",
            Self::Expired => "SESSION_EXPIRED",
            Self::Ended => "SESSION_ENDED",
        }
    }
}

/// How long sessions live.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLimits {
    pub(super) idle_timeout: Duration,
    pub(super) lifetime: Duration,
}

/// A session, as it is sealed into its cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    id: String,
    /// When it began, in milliseconds since 1970.
    since: i64,
    /// When it was used last.
    seen: i64,
    pub(super) who: Who,
}

/// Who signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// A person at the provider.
    #[serde(rename = "o")]
    Oidc {
        #[serde(rename = "s")]
        subject: String,
        #[serde(rename = "r")]
        roles: Vec<String>,
        #[serde(rename = "t")]
        tenant: Option<String>,
    },
    /// The owner of an API key. The file of keys says who that is, and whether the key still counts.
    #[serde(rename = "k")]
    Key(String),
}

impl Who {
    pub(super) fn of(identity: &Identity) -> Self {
        Self::Oidc {
            subject: identity.subject.to_string(),
            roles: identity.roles.iter().map(ToString::to_string).collect(),
            tenant: identity.tenant.as_deref().map(str::to_owned),
        }
    }
}

impl Session {
    /// A new session. Its id is new too, whatever the browser sent before.
    pub(super) fn begin(who: Who, now: Timestamp) -> Self {
        Self {
            id: word(&random::<16>()),
            since: now.as_millisecond(),
            seen: now.as_millisecond(),
            who,
        }
    }

    /// The id of the API key that it began with.
    pub(in crate::authentication) fn key(&self) -> Option<&str> {
        match &self.who {
            Who::Oidc { .. } => None,
            Who::Key(id) => Some(id),
        }
    }

    /// The identity of a person who signed in at the provider.
    pub(in crate::authentication) fn person(&self) -> Result<Identity, Unfit> {
        match &self.who {
            Who::Oidc {
                subject,
                roles,
                tenant,
            } => Identity::new(Method::Oidc, subject, roles, tenant.as_deref()),
            // The file of keys knows the owner of a key.
            Who::Key(_) => Err(Unfit::Subject),
        }
    }

    /// Why it does not count any more.
    pub(super) fn check(
        &self,
        limits: SessionLimits,
        ended: &EndedSessions,
        now: Timestamp,
    ) -> Result<(), SessionError> {
        if self.end(limits) <= now.as_millisecond() {
            return Err(SessionError::Expired);
        }
        if ended.contains(self) {
            return Err(SessionError::Ended);
        }
        Ok(())
    }

    /// How long it lives without another request.
    pub(super) fn rest(&self, limits: SessionLimits, now: Timestamp) -> Duration {
        let rest = self.end(limits).saturating_sub(now.as_millisecond());
        Duration::from_millis(u64::try_from(rest).unwrap_or_default())
    }

    /// The same session, used now, if its cookie is old enough to be written again.
    pub(super) fn renewed(&self, limits: SessionLimits, now: Timestamp) -> Option<Self> {
        let now = now.as_millisecond();
        let due = self
            .seen
            .saturating_add(millis(limits.idle_timeout / RENEWALS));
        (due <= now).then(|| Self {
            seen: now,
            ..self.clone()
        })
    }

    fn end(&self, limits: SessionLimits) -> i64 {
        let idle = self.seen.saturating_add(millis(limits.idle_timeout));
        let whole = self.since.saturating_add(millis(limits.lifetime));
        idle.min(whole)
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// The sessions whose people signed out, until they would have expired.
#[derive(Debug, Default)]
pub(super) struct EndedSessions(Mutex<Ended>);

#[derive(Debug, Default)]
struct Ended {
    /// By the time of their beginning.
    sessions: BTreeSet<(i64, String)>,
    /// Sessions that began up to this time count as ended. When there are too many ended sessions, the
    /// oldest ones are represented by this time: no session is wrongly accepted, some callers have to sign in again.
    floor: Option<i64>,
}

impl EndedSessions {
    pub(super) fn insert(&self, session: &Session, limits: SessionLimits, now: Timestamp) {
        self.insert_within(session, limits, now, MOST_ENDED);
    }

    fn insert_within(&self, session: &Session, limits: SessionLimits, now: Timestamp, most: usize) {
        let mut ended = self.lock();
        let expired = now.as_millisecond().saturating_sub(millis(limits.lifetime));
        while ended
            .sessions
            .first()
            .is_some_and(|(since, _)| *since <= expired)
        {
            ended.sessions.pop_first();
        }
        ended.sessions.insert((session.since, session.id.clone()));
        if ended.sessions.len() > most
            && let Some((since, _)) = ended.sessions.pop_first()
        {
            ended.floor = ended.floor.max(Some(since));
        }
    }

    fn contains(&self, session: &Session) -> bool {
        let ended = self.lock();
        ended.floor.is_some_and(|floor| session.since <= floor)
            || ended
                .sessions
                .contains(&(session.since, session.id.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits {
        idle_timeout: Duration::from_secs(100),
        lifetime: Duration::from_secs(250),
    };
    const BEGIN: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(seconds: u64) -> Timestamp {
        BEGIN + Duration::from_secs(seconds)
    }

    fn session() -> Session {
        Session::begin(Who::Key("k".into()), BEGIN)
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_in_any_case_at_its_end() {
        let ended = EndedSessions::default();
        let check = |session: &Session, seconds| session.check(LIMITS, &ended, at(seconds));
        let session = session();
        assert_eq!(check(&session, 99), Ok(()));
        assert_eq!(check(&session, 100), Err(SessionError::Expired));
        assert_eq!(session.renewed(LIMITS, at(9)), None);
        let mut used = session;
        for seconds in [90, 180, 240] {
            used = used.renewed(LIMITS, at(seconds)).unwrap();
            assert_eq!(check(&used, seconds), Ok(()));
        }
        assert_eq!(used.rest(LIMITS, at(240)), Duration::from_secs(10));
        assert_eq!(check(&used, 250), Err(SessionError::Expired));
    }

    #[test]
    fn a_session_that_was_ended_stays_ended_however_many_there_are() {
        let ended = EndedSessions::default();
        let (mine, other) = (session(), session());
        assert_ne!(mine.id, other.id);
        ended.insert(&mine, LIMITS, BEGIN);
        let renewed = mine.renewed(LIMITS, at(50)).unwrap();
        for session in [&mine, &renewed] {
            let refused = session.check(LIMITS, &ended, at(60));
            assert_eq!(refused, Err(SessionError::Ended));
        }
        assert_eq!(other.check(LIMITS, &ended, at(60)), Ok(()));
        // No room for more than one: the oldest one is still ended.
        let late = Session::begin(Who::Key("k".into()), at(40));
        ended.insert_within(&late, LIMITS, at(60), 1);
        assert_eq!(ended.lock().sessions.len(), 1);
        let refused = renewed.check(LIMITS, &ended, at(60));
        assert_eq!(refused, Err(SessionError::Ended));
        // What has expired needs no place.
        ended.insert(&session(), LIMITS, at(300));
        assert!(!ended.lock().sessions.contains(&(40_000, late.id)));
    }
}
