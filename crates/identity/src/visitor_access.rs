//! What the visitor of a page may do, as the page asks it: the gateway decides, the dashboard shows no button that
//! would be refused.

use std::collections::HashMap;
use std::sync::Arc;

/// What a button is about. A part that is not known can be anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageObject<'o> {
    /// The id of the provider.
    pub provider: Option<&'o str>,
    /// The full name of the definition.
    pub definition: Option<&'o str>,
    /// The labels.
    pub labels: Option<&'o HashMap<String, String>>,
}

/// Decides for a page.
pub trait PageAccess: Send + Sync {
    /// Whether a rule can give the visitor this permission for this.
    fn may(&self, permission: &str, object: &PageObject<'_>) -> bool;
}

/// What the visitor of a page may do. It is in the extensions of the request; without it, everything is allowed.
#[derive(Clone)]
pub struct VisitorAccess(pub Arc<dyn PageAccess>);
