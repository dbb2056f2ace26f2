//! `cargo xtask docs`: the parts of docs/ that are generated from data and from the source, and the links between
//! pages.

mod errors;
mod links;
mod metrics;
#[cfg(test)]
mod monitoring;
mod page;
#[cfg(test)]
mod security;
mod source;

use clap::Args;
use stateway_provider_api::table;

use crate::run::{cargo, root, succeed};

#[derive(Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a page is not current or a link is broken
    #[arg(long)]
    pub(crate) check: bool,
}

/// A page with generated parts.
struct Page {
    /// The path from the root of the repository.
    path: String,
    /// The text as it must be.
    current: String,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut stale = Vec::new();
    for page in pages()? {
        if source::read(&page.path)? == page.current {
            continue;
        }
        if options.check {
            stale.push(page.path);
        } else {
            std::fs::write(root().join(&page.path), page.current)
                .map_err(|error| format!("{}: {error}", page.path))?;
            println!("rendered {}", page.path);
        }
    }
    if !stale.is_empty() {
        return Err(format!(
            "not current: {}; run `cargo xtask docs`",
            stale.join(", ")
        ));
    }
    let broken = links::broken()?;
    if !broken.is_empty() {
        return Err(format!("broken links:\n{}", broken.join("\n")));
    }
    let lost = links::unreachable()?;
    if !lost.is_empty() {
        return Err(format!(
            "docs/README.md does not lead to: {}",
            lost.join(", ")
        ));
    }
    if options.check {
        return Ok(());
    }
    render_by_tests()
}

fn pages() -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for (kind, text) in table::COMPILED_IN {
        let table = table::Table::parse(text).map_err(|error| format!("{kind}.toml: {error}"))?;
        let path = format!("docs/providers/{kind}.md");
        let current = table::page(&source::read(&path)?, &table);
        let current = current.map_err(|error| format!("{path}: {error}"))?;
        pages.push(Page { path, current });
    }
    pages.push(Page {
        path: metrics::PAGE.to_owned(),
        current: metrics::current()?,
    });
    pages.push(Page {
        path: errors::PAGE.to_owned(),
        current: errors::current()?,
    });
    Ok(pages)
}

/// docs/state-machine.md, docs/reference/api.md and docs/reference/trajectories.md are rendered by the tests that
/// compare them, so that xtask does not have to know the core, the API and the scenarios.
fn render_by_tests() -> Result<(), String> {
    for (program, test) in [
        ("replay", "page::"),
        ("proto", "reference::"),
        ("hosted", "trajectories::page"),
    ] {
        let arguments = ["test", "--quiet", "--workspace", "--test", program, test];
        succeed(cargo().args(arguments).env("UPDATE_GOLDEN", "1"))?;
    }
    Ok(())
}
