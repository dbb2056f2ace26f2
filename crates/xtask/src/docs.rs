//! `cargo xtask docs`: the parts of docs/ that are generated from data.

use std::path::PathBuf;

use clap::Args;
use stateway_provider_api::table;

use crate::run::root;

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
    match stale.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "not current: {}; run `cargo xtask docs`",
            stale.join(", ")
        )),
    }
}

fn page(kind: &str) -> PathBuf {
    root().join("docs/providers").join(format!("{kind}.md"))
}
