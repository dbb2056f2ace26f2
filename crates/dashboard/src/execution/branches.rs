//! The branches of an execution's log as a tree: a retry from an earlier event opens a branch below the one that it
//! leaves.

use maud::{Markup, html};
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::Branch;

use super::facts::Facts;
use crate::text::{branch_number, said, said_within};
use crate::time::{Now, ago, moment};

/// The tree; nothing for an execution that was never retried from an earlier event.
pub(super) fn show(facts: &Facts, now: Now) -> Markup {
    html! {
        @if facts.branches.len() > 1 {
            section.card aria-labelledby="branches-title" {
                h2 #branches-title { "Branches" }
                (tree(&facts.branches, now))
            }
        }
    }
}

fn tree(branches: &[Branch], now: Now) -> Markup {
    let is_shown = |name: &str| branches.iter().any(|branch| branch.name == name);
    let tops = branches
        .iter()
        .filter(|branch| !is_shown(&branch.parent_branch));
    html! { ul.tree { @for branch in tops { (node(branches, branch, now)) } } }
}

/// A branch and those that were opened from it. A branch is opened from an older one, so this ends.
fn node(branches: &[Branch], branch: &Branch, now: Now) -> Markup {
    let number = |name: &str| branch_number(name).parse::<u64>().unwrap_or_default();
    let below: Vec<_> = branches
        .iter()
        .filter(|other| other.parent_branch == branch.name)
        .filter(|other| number(&other.name) > number(&branch.name))
        .collect();
    html! {
        li {
            span.member { (line(branch, now)) }
            @if !below.is_empty() { ul { @for one in below { (node(branches, one, now)) } } }
        }
    }
}

fn line(branch: &Branch, now: Now) -> Markup {
    html! {
        b { "Branch " (said(branch_number(&branch.name))) }
        @if branch.current { span.tag { "current" } }
        @if !branch.parent_branch.is_empty() { span { "from event " (branch.cutoff_sequence) } }
        @if !branch.cause.is_empty() { span { (said(&branch.cause)) } }
        @if !branch.created_by.is_empty() { span.muted { "by " (said_within(&branch.created_by, 60)) } }
        @if let Some(usage) = &branch.usage { span.muted { "used " (usage_of(usage)) } }
        @if let Some(time) = moment(branch.create_time.as_ref()) { span.muted { (ago(time, now)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(number: u32, parent: Option<u32>) -> Branch {
        let name = |number| format!("providers/p/executions/e/branches/{number}");
        Branch {
            name: name(number),
            parent_branch: parent.map(name).unwrap_or_default(),
            cutoff_sequence: i64::from(number) * 10,
            current: number == 3,
            ..Branch::default()
        }
    }

    #[test]
    fn a_branch_is_below_the_branch_it_was_opened_from() {
        let branches = [
            branch(0, None),
            branch(1, Some(0)),
            branch(2, Some(0)),
            branch(3, Some(1)),
        ];
        let html = tree(&branches, Now::page()).into_string();
        let words: String = html
            .split('<')
            .filter_map(|tag| {
                let (tag, text) = tag.split_once('>')?;
                Some(match tag.split(' ').next()? {
                    "ul" => "(".to_owned(),
                    "/ul" => ")".to_owned(),
                    "bdi" => text.to_owned(),
                    _ => String::new(),
                })
            })
            .collect();
        assert_eq!(words, "(0(1(3)2))");
    }

    #[test]
    fn a_branch_whose_parent_is_not_listed_is_at_the_top() {
        let html = tree(&[branch(4, Some(3)), branch(5, Some(5))], Now::page()).into_string();
        assert_eq!(html.matches("<li>").count(), 1);
    }
}
