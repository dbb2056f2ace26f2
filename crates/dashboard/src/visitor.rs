//! The visitor of a page: a session that forms are bound to, and the name for actions.
//!
//! An authenticated visitor acts under that identity, and the API gets it unchanged. Without
//! authentication, behind a proxy that authenticates, `x-stateway-actor` and `x-stateway-roles` name the visitor, as
//! they do to the API. Without one, people type a name once; it is kept in a cookie.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use stateway_identity::sign_in::SignedIn;
use stateway_identity::{Identity, PageObject, VisitorAccess};

use crate::api::PATIENCE;
use crate::base::BasePath;
use crate::display::Display;
use crate::executions::Views;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::{Site, cookie};

const SESSION: &str = "stateway_session";
const ACTING: &str = "stateway_acting";
const ACTOR: &str = "x-stateway-actor";
const ROLES: &str = "x-stateway-roles";
/// A name once typed is kept for a month.
const ACTING_SECONDS: u32 = 30 * 24 * 3600;

/// Binds forms to sessions. Random in each process: a form of an earlier process is refused.
#[derive(Clone)]
pub(crate) struct Key(Arc<[u8; 32]>);

impl Key {
    pub(crate) fn random() -> Self {
        Self(Arc::new(random()))
    }

    fn mac(&self, session: &str, actor: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice())
            .expect("HMAC takes a key of any length");
        mac.update(session.as_bytes());
        // A form of the person who was signed in before is not a form of this person.
        mac.update(b"\0");
        mac.update(actor.as_bytes());
        mac
    }
}

/// The identity of the sender of the request.
#[derive(Clone)]
pub(crate) struct Visitor {
    session: String,
    is_new: bool,
    key: Key,
    pub(crate) acting: Acting,
    pub(crate) flash: Option<Flash>,
    /// Where a proxy serves the pages.
    pub(crate) base: BasePath,
    pub(crate) display: Display,
    pub(crate) views: Views,
    /// What the gateway has found out about the sender; it decides about the calls of the page by it.
    known: Extensions,
}

/// The name and roles someone acts under.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Acting {
    /// The name; empty if none was given.
    pub(crate) actor: String,
    /// Separated by commas.
    pub(crate) roles: String,
    /// Name and roles come from the proxy; they cannot be changed here.
    pub(crate) fixed: bool,
}

impl Visitor {
    /// The token that a form of this visitor carries.
    pub(crate) fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.mac().finalize().into_bytes())
    }

    /// Whether a form has the token of this visitor. The comparison takes the same time for every token.
    pub(crate) fn sent(&self, token: &str) -> bool {
        let Ok(token) = URL_SAFE_NO_PAD.decode(token) else {
            return false;
        };
        !self.is_new && self.mac().verify_slice(&token).is_ok()
    }

    /// Names everyone who gets the same answers from the API as this visitor. Without authentication these
    /// are all visitors; with authentication, the tabs of one session.
    pub(crate) fn reader(&self) -> String {
        match self.known.get::<Arc<Identity>>() {
            None => String::new(),
            Some(identity) => format!("{}|{identity:?}", self.session),
        }
    }

    /// The same for pages with buttons, which depend on the name and the roles of the visitor.
    pub(crate) fn reader_with_roles(&self) -> String {
        let Acting { actor, roles, .. } = &self.acting;
        format!("{}|{actor}|{roles}", self.reader())
    }

    /// Whether the visitor has a session that a button can end.
    pub(crate) fn is_signed_in(&self) -> bool {
        self.known.get::<SignedIn>().is_some()
    }

    /// Whether an access rule can give the visitor a permission for this.
    pub(crate) fn may(&self, permission: &str, object: &PageObject<'_>) -> bool {
        let access = self.known.get::<VisitorAccess>();
        access.is_none_or(|VisitorAccess(access)| access.may(permission, object))
    }

    fn mac(&self) -> Hmac<Sha256> {
        let proved = self.known.get::<Arc<Identity>>();
        let proved = proved.map(|identity| &*identity.subject);
        self.key.mac(&self.session, proved.unwrap_or_default())
    }

    /// A call of the API in this visitor's name.
    pub(crate) fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(PATIENCE);
        self.name(&mut request);
        request
    }

    /// The same without a deadline, for streams.
    pub(crate) fn stream<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        self.name(&mut request);
        request
    }

    fn name<M>(&self, request: &mut tonic::Request<M>) {
        *request.extensions_mut() = self.known.clone();
        for (name, value) in [(ACTOR, &self.acting.actor), (ROLES, &self.acting.roles)] {
            if !value.is_empty()
                && let Ok(value) = value.parse()
            {
                request.metadata_mut().insert(name, value);
            }
        }
    }

    /// The cookies that an answer to this visitor sets.
    pub(crate) fn cookies(&self) -> Vec<HeaderValue> {
        let session = self
            .is_new
            .then(|| cookie::write(SESSION, &self.session, None));
        let flash = self.flash.is_some().then(Flash::shown);
        session.into_iter().chain(flash).collect()
    }
}

impl Acting {
    fn of(headers: &HeaderMap) -> Self {
        // If a header of the proxy is unreadable or occurs twice, the visitor is anonymous; what was typed does
        // not count.
        let said = |name| {
            let mut values = headers.get_all(name).iter();
            let value = values.next().filter(|_| values.next().is_none());
            let text = value.and_then(|value| value.to_str().ok());
            text.unwrap_or_default().to_owned()
        };
        if headers.contains_key(ACTOR) || headers.contains_key(ROLES) {
            return Self {
                actor: said(ACTOR),
                roles: each_once(said(ROLES).split(',')).join(","),
                fixed: true,
            };
        }
        let typed = cookie::read(headers, ACTING).unwrap_or_default();
        let fields = Fields::parse(typed.as_bytes());
        Self::typed(fields.get("actor"), fields.get("roles")).unwrap_or_default()
    }

    /// What someone typed, if the API would take it.
    pub(crate) fn typed(actor: &str, roles: &str) -> Result<Self, &'static str> {
        let plain = |text: &str, longest| {
            text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if actor.is_empty() || !plain(actor, 128) {
            return Err(
                "A name is 1 to 128 plain characters without blanks, like ada@example.org.",
            );
        }
        let words = each_once(roles.split([',', ' ']));
        if words.len() > 64 || !words.iter().all(|word| plain(word, 64)) {
            return Err("Roles are at most 64 words of up to 64 plain characters.");
        }
        Ok(Self {
            actor: actor.to_owned(),
            roles: words.join(","),
            fixed: false,
        })
    }

    /// The cookie that keeps it.
    pub(crate) fn cookie(&self) -> HeaderValue {
        let mut value = form_urlencoded::Serializer::new(String::new());
        value.append_pair("actor", &self.actor);
        value.append_pair("roles", &self.roles);
        cookie::write(ACTING, &value.finish(), Some(ACTING_SECONDS))
    }

    /// The cookie that forgets it.
    pub(crate) fn forgotten() -> HeaderValue {
        cookie::write(ACTING, "", Some(0))
    }
}

impl FromRequestParts<Site> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Infallible> {
        let known = cookie::read(&parts.headers, SESSION).filter(|session| is_session(session));
        let session = known.map_or_else(|| URL_SAFE_NO_PAD.encode(random()), str::to_owned);
        Ok(Self {
            is_new: known.is_none(),
            session,
            key: site.key.clone(),
            acting: Acting::of(&parts.headers),
            flash: Flash::read(&parts.headers),
            base: BasePath::of(&parts.headers),
            display: Display::of(&parts.headers),
            views: Views::of(&parts.headers),
            known: parts.extensions.clone(),
        })
    }
}

/// The words without the blanks around them, none of them twice.
fn each_once<'t>(words: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut seen = HashSet::new();
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.filter(|word| seen.insert(*word)).collect()
}

fn is_session(text: &str) -> bool {
    text.len() == 43 && URL_SAFE_NO_PAD.decode(text).is_ok()
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// A new id for a write, so that sending a form twice does it once.
pub(crate) fn request_id() -> String {
    URL_SAFE_NO_PAD.encode(&random()[..18])
}

#[cfg(test)]
mod tests {
    use stateway_identity::Method;

    use super::*;

    fn visitor(session: &str, key: &Key) -> Visitor {
        Visitor {
            session: session.into(),
            is_new: false,
            key: key.clone(),
            acting: Acting::default(),
            flash: None,
            base: BasePath::default(),
            display: Display::default(),
            views: Views::default(),
            known: Extensions::new(),
        }
    }

    #[test]
    fn a_form_of_another_person_in_the_same_browser_is_refused() {
        let key = Key::random();
        let of = |subject| {
            let mut visitor = visitor("browser", &key);
            let identity = Identity::new(Method::Oidc, subject, [""; 0], None).unwrap();
            visitor.known.insert(Arc::new(identity));
            visitor
        };
        let (ada, bob) = (of("ada"), of("bob"));
        assert!(ada.sent(&ada.token()));
        assert!(!bob.sent(&ada.token()));
        assert!(!visitor("browser", &key).sent(&ada.token()));
    }

    #[test]
    fn a_token_is_good_for_its_session_and_process_only() {
        let key = Key::random();
        let ada = visitor("ada", &key);
        assert!(ada.sent(&ada.token()));
        assert!(!visitor("bob", &key).sent(&ada.token()));
        assert!(!visitor("ada", &Key::random()).sent(&ada.token()));
        assert!(!ada.sent("") && !ada.sent("%%") && !ada.sent("AAAA"));
    }

    #[test]
    fn what_the_proxy_says_counts_even_when_it_cannot_be_read() {
        let acting = |lines: &[(&'static str, &'static [u8])]| {
            let mut headers = HeaderMap::new();
            let typed =
                HeaderValue::from_static("stateway_acting=actor%3Dx; stateway_acting=actor=eve");
            headers.append("cookie", typed);
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_bytes(value).unwrap());
            }
            let acting = Acting::of(&headers);
            (acting.actor, acting.fixed)
        };
        assert_eq!(acting(&[(ACTOR, b"ada")]), ("ada".into(), true));
        assert_eq!(acting(&[(ACTOR, b"\xff")]), (String::new(), true));
        assert_eq!(
            acting(&[(ACTOR, b"ada"), (ACTOR, b"bob")]),
            (String::new(), true)
        );
        assert_eq!(acting(&[(ROLES, b"ops")]), (String::new(), true));
    }

    #[test]
    fn names_that_the_api_would_refuse_are_not_kept() {
        assert!(Acting::typed("ada@example.org", "ops, release").is_ok());
        assert_eq!(
            Acting::typed("ada", "ops  release,").unwrap().roles,
            "ops,release"
        );
        for actor in ["", "a b", "ä", "a\n", &"a".repeat(129)] {
            assert!(Acting::typed(actor, "").is_err(), "{actor:?}");
        }
        let roles = |count: u32| {
            (0..count)
                .map(|role| format!("r{role},"))
                .collect::<String>()
        };
        assert!(Acting::typed("ada", &roles(64)).is_ok());
        assert!(Acting::typed("ada", &roles(65)).is_err());
        assert_eq!(Acting::typed("ada", "b a,b").unwrap().roles, "b,a");
    }
}
