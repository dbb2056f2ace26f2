//! The tree that an execution belongs to: its parent and that one's parents, its siblings, its children and
//! theirs. Each execution is a link with its state.

use std::collections::HashSet;

use futures::stream::{self, StreamExt};
use maud::{Markup, html};
use stateway_proto::v1::{Execution, ExecutionView, GetExecutionRequest};

use super::facts::execution;
use crate::Site;
use crate::executions::{ExecutionPath, address, happening, path_of, shown};
use crate::sub_state::badge;
use crate::text::said_within;
use crate::time::Now;
use crate::visitor::Visitor;

/// How many generations above the execution are shown, and how many below it.
const MOST_ABOVE: usize = 5;
const MOST_BELOW: usize = 3;
/// The most executions of a tree.
const MOST: usize = 40;
/// How many executions are read at the same time.
const TOGETHER: usize = 8;

/// The tree, in the order in which its executions were found. Empty for an execution without relatives.
#[derive(Default)]
pub(super) struct Family {
    members: Vec<Member>,
    /// The topmost execution has a parent that is not shown.
    more_above: bool,
    /// Children that are not shown.
    left_out: usize,
}

/// One execution of the tree.
struct Member {
    name: String,
    /// The member of which this execution is a child.
    parent: Option<usize>,
    /// The step of the parent that runs this execution.
    step: String,
    /// What is known; none if it cannot be read.
    execution: Option<Execution>,
    /// Whether the page is about this one.
    here: bool,
}

impl Family {
    pub(super) async fn read(site: &Site, visitor: &Visitor, of: &Execution) -> Self {
        let has_children = of.steps.iter().any(|step| !step.child.is_empty());
        if of.parent_execution.is_empty() && !has_children {
            return Self::default();
        }
        let mut family = Self::default();
        let parent = family.read_above(site, visitor, of).await;
        let here = family.add_generation(parent, of);
        family.read_unread(site, visitor).await;
        let mut generation = vec![here];
        for _ in 0..MOST_BELOW {
            let known = family.members.len();
            for member in generation {
                family.add_children(member);
            }
            family.read_unread(site, visitor).await;
            generation = (known..family.members.len()).collect();
        }
        family
    }

    /// Adds the line from the topmost execution down to the parent; the place of the parent.
    async fn read_above(
        &mut self,
        site: &Site,
        visitor: &Visitor,
        of: &Execution,
    ) -> Option<usize> {
        let mut line: Vec<(String, Option<Execution>)> = Vec::new();
        let mut seen = HashSet::from([of.name.clone()]);
        let mut above = of.parent_execution.clone();
        while !above.is_empty() && line.len() < MOST_ABOVE && seen.insert(above.clone()) {
            let found = match ExecutionPath::at(&address(&above)) {
                Some(path) => execution(site, visitor, &path).await.ok(),
                None => None,
            };
            let found = found.map(|(found, _)| found);
            let next = found.as_ref().map(|found| found.parent_execution.clone());
            line.push((above, found));
            above = next.unwrap_or_default();
        }
        self.more_above = !above.is_empty() && line.len() == MOST_ABOVE;
        let mut parent = None;
        for (name, execution) in line.into_iter().rev() {
            let step = parent.map(|parent: usize| self.step_of(parent, &name));
            parent = Some(self.push(Member {
                step: step.unwrap_or_default(),
                name,
                parent,
                execution,
                here: false,
            }));
        }
        parent
    }

    /// Adds the execution of the page between its siblings; its place.
    fn add_generation(&mut self, parent: Option<usize>, of: &Execution) -> usize {
        let first = self.members.len();
        if let Some(parent) = parent {
            self.add_children(parent);
        }
        let place = self.members[first..]
            .iter()
            .position(|member| member.name == of.name);
        // The parent names only the child of the latest attempt of a step.
        let place = match place {
            Some(place) => first + place,
            None => self.push(Member {
                name: of.name.clone(),
                parent,
                step: String::new(),
                execution: None,
                here: true,
            }),
        };
        self.members[place].here = true;
        self.members[place].execution = Some(of.clone());
        place
    }

    fn push(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.members.len() - 1
    }

    /// Adds the children of a member, as far as there is room.
    fn add_children(&mut self, parent: usize) {
        let Some(execution) = &self.members[parent].execution else {
            return;
        };
        let steps = execution.steps.iter();
        let children: Vec<_> = steps
            .filter(|step| !step.child.is_empty())
            .map(|step| Member {
                name: step.child.clone(),
                parent: Some(parent),
                step: step.name.clone(),
                execution: None,
                here: false,
            })
            .collect();
        let room = MOST.saturating_sub(self.members.len());
        self.left_out += children.len().saturating_sub(room);
        self.members.extend(children.into_iter().take(room));
    }

    /// The step of a member that runs a child.
    fn step_of(&self, parent: usize, child: &str) -> String {
        let execution = self.members[parent].execution.as_ref();
        let mut steps = execution.into_iter().flat_map(|it| &it.steps);
        let step = steps.find(|step| step.child == child);
        step.map(|step| step.name.clone()).unwrap_or_default()
    }

    /// Reads the members that are only names so far.
    async fn read_unread(&mut self, site: &Site, visitor: &Visitor) {
        let unread = self.members.iter().enumerate();
        let unread: Vec<_> = unread
            .filter(|(_, member)| member.execution.is_none())
            .map(|(place, member)| (place, member.name.clone()))
            .collect();
        let reads = unread.into_iter().map(async |(place, name)| {
            let request = GetExecutionRequest {
                name,
                view: ExecutionView::Basic.into(),
            };
            let mut api = site.api.executions();
            let found = api.get_execution(visitor.request(request)).await;
            (place, found.ok().map(tonic::Response::into_inner))
        });
        let found: Vec<_> = stream::iter(reads).buffered(TOGETHER).collect().await;
        for (place, execution) in found {
            self.members[place].execution = execution;
        }
    }

    pub(super) fn show(&self, now: Now) -> Markup {
        html! {
            @if !self.members.is_empty() {
                section.card aria-labelledby="family-title" {
                    h2 #family-title { "Parent and children" }
                    @if self.more_above { p.muted { "The first execution shown is itself a child." } }
                    ul.tree { (self.below(None, now)) }
                    @if self.left_out > 0 { p.muted { "and " (self.left_out) " more children" } }
                }
            }
        }
    }

    /// The members below one, each with those below it.
    fn below(&self, parent: Option<usize>, now: Now) -> Markup {
        let members = self.members.iter().enumerate();
        html! {
            @for (place, member) in members.filter(|(_, member)| member.parent == parent) {
                li {
                    (member.show(now))
                    @if self.members.iter().any(|other| other.parent == Some(place)) {
                        ul { (self.below(Some(place), now)) }
                    }
                }
            }
        }
    }
}

impl Member {
    fn show(&self, now: Now) -> Markup {
        let (_, id) = shown(&self.name);
        let current = self.here.then_some("page");
        html! {
            span.member {
                @match &self.execution {
                    Some(execution) => { (badge(execution.sub_state())) }
                    None => { span.muted { "not readable" } }
                }
                a href=(path_of(&self.name)) aria-current=[current] { (said_within(&id, 80)) }
                @if self.here { span.tag { "this execution" } }
                @if !self.step.is_empty() { span.muted { "runs step " (said_within(&self.step, 60)) } }
                @if let Some(execution) = self.execution.as_ref().filter(|_| !self.here) {
                    (happening(execution, now))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stateway_proto::v1::Step;

    use super::*;

    fn with_children(id: &str, children: usize) -> Execution {
        let step = |number| Step {
            name: format!("s{number}"),
            child: format!("providers/p/executions/{id}~s{number}"),
            ..Step::default()
        };
        Execution {
            name: format!("providers/p/executions/{id}"),
            steps: (0..children).map(step).collect(),
            ..Execution::default()
        }
    }

    #[test]
    fn of_many_children_the_rest_is_counted() {
        let mut family = Family::default();
        let here = family.add_generation(None, &with_children("n", MOST + 4));
        family.add_children(here);
        let html = family.show(Now::page()).into_string();
        assert_eq!(html.matches("<li>").count(), MOST);
        assert!(html.contains("and 5 more children"), "{html}");
    }

    #[test]
    fn an_execution_is_between_its_siblings() {
        let mut family = Family::default();
        let parent = family.push(Member {
            name: "providers/p/executions/n".into(),
            parent: None,
            step: String::new(),
            execution: Some(with_children("n", 3)),
            here: false,
        });
        let here = family.add_generation(Some(parent), &with_children("n~s1", 0));
        assert_eq!((here, family.members.len()), (2, 4));
        let html = family.show(Now::page()).into_string();
        let order = ["n~s0", "n~s1", "n~s2"].map(|id| html.find(&format!("<bdi>{id}</bdi>")));
        assert!(order.is_sorted() && order[0].is_some(), "{html}");
        assert_eq!(html.matches("aria-current=\"page\"").count(), 1);
    }
}
