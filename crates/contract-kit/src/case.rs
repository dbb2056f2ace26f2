//! One rule of the contract, ready to be checked.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use stateway_provider_api::{Capabilities, Table};

use crate::{Harness, Skip, Stage};

/// The longest a case may take.
const LONGEST: Duration = Duration::from_secs(120);

/// Why a case ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The rule is broken, and how.
    Failed(String),
    /// The rule cannot be checked here, and why.
    Skipped(String),
}

/// The result of a case.
pub type Outcome = Result<(), Stop>;

impl From<Skip> for Stop {
    fn from(skip: Skip) -> Self {
        Self::Skipped(skip.0)
    }
}

/// The body of a case: it gets a fresh provider and says what came of it.
type Body = Box<dyn Fn(Stage) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// One rule of the contract.
pub struct Case {
    /// `verb::the_rule_in_words`.
    pub name: String,
    needs: &'static [&'static str],
    without: Option<&'static str>,
    overlay: Option<fn(&Table) -> Option<Table>>,
    body: Body,
}

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        needs: &'static [&'static str],
        body: impl Fn(Stage) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            needs,
            without: None,
            overlay: None,
            body: Box::new(body),
        }
    }

    /// The same, for a provider that goes without a capability.
    pub(crate) fn without(mut self, capability: &'static str) -> Self {
        self.without = Some(capability);
        self
    }

    /// The same, for a provider whose table an operator laid rows over. `None`: the table has no row to
    /// lay another over.
    pub(crate) fn overlaid(mut self, overlay: fn(&Table) -> Option<Table>) -> Self {
        self.overlay = Some(overlay);
        self
    }

    /// Checks the rule on a fresh provider.
    ///
    /// # Errors
    /// The rule is broken or cannot be checked.
    pub async fn check(&self, harness: &Arc<dyn Harness>) -> Outcome {
        let offered = harness.capabilities();
        if let Some(missing) = missing(&offered, self.needs) {
            return Err(Stop::Skipped(format!("needs the capability `{missing}`")));
        }
        let allowed = match self.without {
            Some(name) => Capabilities::ALL.without(name),
            None => None,
        };
        let table = self.table(harness.table())?;
        let subject = harness.fresh(Arc::clone(&table)).await?;
        let body = (self.body)(Stage::new(subject, table, allowed));
        // In a task of its own, so that a panic is the failure of one case.
        match tokio::time::timeout(LONGEST, tokio::spawn(body)).await {
            Err(_) => Err(Stop::Failed(format!("took longer than {LONGEST:?}"))),
            Ok(Err(panic)) => Err(Stop::Failed(format!("panicked: {panic}"))),
            Ok(Ok(outcome)) => outcome,
        }
    }

    fn table(&self, table: Arc<Table>) -> Result<Arc<Table>, Stop> {
        let Some(overlay) = self.overlay else {
            return Ok(table);
        };
        let why = || Stop::Skipped("no row of the table can be overlaid".to_owned());
        overlay(&table).map(Arc::new).ok_or_else(why)
    }
}

fn missing(offered: &Capabilities, needs: &[&'static str]) -> Option<&'static str> {
    let on = |need: &str| offered.iter().any(|(name, on)| on && name == need);
    needs.iter().copied().find(|need| !on(need))
}

/// Lists the cases of a file: each rule with the capabilities it needs.
macro_rules! cases {
    ($file:literal: $( $rule:ident [$($need:ident),*] ),+ $(,)?) => {
        vec![$(
            $crate::case::Case::new(
                concat!($file, "::", stringify!($rule)),
                &[$(stringify!($need)),*],
                |stage| Box::pin($rule(stage)),
            )
        ),+]
    };
}

/// Ends the case as failed unless this holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::case::Stop::Failed(format!($($message)+)));
        }
    };
}

pub(crate) use {cases, ensure};
