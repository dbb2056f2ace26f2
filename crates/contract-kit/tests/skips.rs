//! Nothing is skipped in silence, and cases are told apart by their names.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use stateway_contract_kit::{Harness, Skip, Stop, Subject, cases, run};
use stateway_provider_api::table::{COMPILED_IN, compiled_in};
use stateway_provider_api::{Capabilities, Table};

/// An adapter without capabilities, in front of nothing.
struct Nothing;

#[async_trait]
impl Harness for Nothing {
    fn table(&self) -> Arc<Table> {
        compiled_in("restate").expect("compiled in")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn fresh(&self, _: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        Err(Skip::because("there is no upstream"))
    }
}

#[test]
fn what_cannot_be_checked_is_skipped_with_its_reason() {
    let harness: Arc<dyn Harness> = Arc::new(Nothing);
    for case in cases(&harness.table()) {
        let outcome = run(&case, &harness);
        let Err(Stop::Skipped(reason)) = outcome else {
            panic!("{} came to {outcome:?}", case.name);
        };
        let good = reason == "there is no upstream" || reason.starts_with("needs the capability `");
        assert!(good, "{}: {reason}", case.name);
    }
}

#[test]
fn every_case_of_every_table_has_a_name_of_its_own() {
    for (kind, text) in COMPILED_IN {
        let table = Table::parse(text).expect("compiled-in tables are good");
        let cases = cases(&table);
        let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), cases.len(), "{kind}");
        assert!(cases.len() > table.rows().len() + 60, "{kind}");
    }
}
