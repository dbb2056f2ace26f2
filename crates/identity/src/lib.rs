//! Who a caller is: one [`Identity`] per request, and the proof it rests on.
//!
//! Pure functions over bytes and a time that the caller gives: certificates that a handshake has
//! verified ([`certificate`]), JSON Web Tokens ([`jwt`]) with their keys ([`jwks`]), API keys
//! ([`api_key`]), the headers of an authenticating proxy, and sign-in at an OpenID provider ([`oidc`],
//! [`sign_in`]). [`Methods::choose`] decides which proof
//! of a request counts. Reading files, fetching keys and caching is the business of the gateway.

pub mod api_key;
pub mod certificate;
mod glob;
mod identity;
pub mod jwks;
pub mod jwt;
pub mod oidc;
mod proof;
mod secret;
pub mod sign_in;
mod visitor_access;

pub use glob::Glob;
pub use identity::{
    Identity, LONGEST_ROLE, LONGEST_SUBJECT, LONGEST_TENANT, MOST_ROLES, Method, Unfit, is_word,
};
pub use proof::{Methods, Proof, ProofError, ProxyHeaders, Request};
pub use secret::Secret;
pub use visitor_access::{PageAccess, PageObject, VisitorAccess};
