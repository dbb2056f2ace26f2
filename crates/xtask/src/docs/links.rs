//! The links between pages: a relative link leads to a file that exists, and to a heading that the file has.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::source::{files, read};
use crate::run::root;

/// Every broken link, as `page: link`.
pub(super) fn broken() -> Result<Vec<String>, String> {
    let mut broken = Vec::new();
    for page in files(&root(), "md")? {
        let text = read(&page)?;
        for link in links(&text) {
            if !leads_somewhere(&page, &text, link)? {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    Ok(broken)
}

/// The pages in docs/ that no chain of links from docs/README.md reaches.
pub(super) fn unreachable() -> Result<Vec<String>, String> {
    let mut reached = BTreeSet::new();
    let mut open = vec!["docs/README.md".to_owned()];
    while let Some(page) = open.pop() {
        if !page.starts_with("docs/") || !page.ends_with(".md") || !reached.insert(page.clone()) {
            continue;
        }
        let text = read(&page)?;
        let paths = links(&text).filter(|link| !link.contains("://"));
        open.extend(paths.filter_map(|link| {
            let path = link.split('#').next().filter(|path| !path.is_empty())?;
            Some(target(&page, path))
        }));
    }
    let pages = files(&root().join("docs"), "md")?;
    Ok(pages
        .into_iter()
        .filter(|it| !reached.contains(it))
        .collect())
}

fn leads_somewhere(page: &str, text: &str, link: &str) -> Result<bool, String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(true);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Ok(anchors(text).contains(anchor));
    }
    let target = target(page, path);
    if !root().join(&target).exists() {
        return Ok(false);
    }
    Ok(anchor.is_empty() || !target.ends_with(".md") || anchors(&read(&target)?).contains(anchor))
}

/// The path from the root of the repository that a link of a page leads to.
fn target(page: &str, path: &str) -> String {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut target = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(name) => target.push(name),
            _ => {}
        }
    }
    target.to_string_lossy().replace('\\', "/")
}

/// The targets of the links and images, outside of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
    })
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title);
        let mut unique = anchor.clone();
        let mut number = 0;
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|symbol| match symbol {
        ' ' => Some('-'),
        '-' | '_' => Some(symbol),
        symbol if symbol.is_alphanumeric() => Some(symbol),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The lines that are not in a fenced block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return false;
        }
        !in_code
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::product;
    use super::*;

    #[test]
    fn every_link_leads_somewhere() {
        assert_eq!(broken(), Ok(Vec::new()));
    }

    #[test]
    fn every_page_is_reachable_from_the_index() {
        assert_eq!(unreachable(), Ok(Vec::new()));
    }

    /// Help texts and hints name pages too.
    #[test]
    fn every_page_that_the_source_names_exists() {
        let names = |text: &str| -> Vec<String> {
            let parts = text.split("docs/").skip(1);
            let names = parts.filter_map(|rest| {
                let end =
                    rest.find(|it: char| !(it.is_ascii_alphanumeric() || "/-_.".contains(it)));
                let name = &rest[..end.unwrap_or(rest.len())];
                let name = name.trim_end_matches('.');
                (name.ends_with(".md") || name.ends_with(".toml")).then(|| format!("docs/{name}"))
            });
            names.collect()
        };
        let sources = product().expect("the source can be read");
        let mut named = 0;
        for source in sources {
            for name in names(&source.text) {
                named += 1;
                assert!(root().join(&name).exists(), "{}: {name}", source.path);
            }
        }
        assert!(named > 0);
    }

    #[test]
    fn links_in_code_do_not_count() {
        let text = "[a](b.md#c) ![d](e.png)\n```\n[f](g.md)\n```\n";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md#c", "e.png"]);
    }

    #[test]
    fn a_path_is_relative_to_its_page() {
        assert_eq!(target("docs/guides/a.md", "../b.md"), "docs/b.md");
        assert_eq!(target("README.md", "docs/b.md"), "docs/b.md");
    }

    #[test]
    fn anchors_are_made_as_github_makes_them() {
        let text = "# The `x`: a, b-c\n## Same\n```\n# code\n```\n## Same\n#no\n";
        let expected = ["same", "same-1", "the-x-a-b-c"].map(ToOwned::to_owned);
        assert_eq!(anchors(text), BTreeSet::from(expected));
    }
}
