//! `cargo xtask docs`: the parts of docs/ that are generated from data.

use std::path::PathBuf;

use clap::Args;
use stateway_provider_api::table;

use crate::run::{cargo, root, succeed};

#[derive(Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a page is not current
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut stale = Vec::new();
    for (kind, text) in table::COMPILED_IN {
        let table = table::Table::parse(text).map_err(|error| format!("{kind}.toml: {error}"))?;
        let path = page(kind);
        let page = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let current = table::page(&page, &table).map_err(|error| error.to_string())?;
        if current == page {
            continue;
        }
        if options.check {
            stale.push(format!("docs/providers/{kind}.md"));
        } else {
            std::fs::write(&path, current)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            println!("rendered docs/providers/{kind}.md");
        }
    }
    if !stale.is_empty() {
        return Err(format!(
            "not current: {}; run `cargo xtask docs`",
            stale.join(", ")
        ));
    }
    if options.check {
        return Ok(());
    }
    render_state_machine()
}

/// The tables of docs/state-machine.md are rendered by the test that compares them, so that xtask does
/// not have to know the core.
fn render_state_machine() -> Result<(), String> {
    let arguments = ["test", "-q", "-p", "stateway-replay", "--test", "page"];
    succeed(cargo().args(arguments).env("UPDATE_GOLDEN", "1"))
}

fn page(kind: &str) -> PathBuf {
    root().join("docs/providers").join(format!("{kind}.md"))
}
