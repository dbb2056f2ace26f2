//! Who may do what: the rules of a configuration, and the decisions that follow from them.
//!
//! A rule is *who* (patterns for the subject, the roles and the tenant of an identity) *may* (permissions)
//! *where* (a filter over the provider, the definition and the labels of what is touched, in the filter
//! language of the API). Rules only allow: what no rule allows is denied.
//!
//! [`Rules`] are read once. [`Rules::grants`] puts the values of one identity into them; the result,
//! [`Grants`], decides about any number of [`Object`]s without the rules of other identities.
//! [`explain`](Rules::explain) and [`cases`] answer questions about a configuration without a gateway.
//! Reading files again and enforcing decisions is the business of the gateway.

pub mod cases;
mod condition;
mod explain;
mod grants;
mod object;
mod permission;
mod read;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use explain::{Explanation, Finding, Verdict};
pub use grants::{Decision, Grants, Required};
pub use object::{KnownLabels, Object};
pub use permission::{Permission, Permissions, Preset, UnknownPermission};
pub use read::{Mistake, read_rules};
pub use rule::{OneOrMany, Rule, RuleSpec, WhoSpec};
pub use rules::{Place, RuleError, RuleErrors, Rules};
