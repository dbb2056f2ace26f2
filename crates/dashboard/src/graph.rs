//! A graph of steps as a picture: an SVG in layers, drawn here, without a script.
//!
//! [`layout`] decides where things are; this file draws them. Shapes tell kinds apart, icons tell
//! sub-states apart; colour only repeats it. A node's name is text, with the whole of it in its title.

mod layout;

use maud::{Markup, html};
use stateway_proto::v1::SubState;

use self::layout::{Layout, NODE_HEIGHT, NODE_WIDTH, Point};
use crate::sub_state::word;
use crate::text::{anchor, cut, said_within, visible};

/// Larger graphs are not drawn, because they would be unreadable.
pub(crate) const MOST_NODES: usize = 200;
/// As for edges.
const MOST_EDGES: usize = 1_000;
/// Characters of a name that fit into a node, and that fit beside an icon.
const NAME_FITS: usize = 19;
const NAME_FITS_BESIDE_ICON: usize = 16;
/// Characters of the line below it.
const NOTE_FITS: usize = 24;

/// One step in the picture.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// task, http, sleep, signal, approval or workflow; anything else is drawn as a task.
    pub(crate) kind: String,
    /// Where it is; none when it has not started, or in a definition.
    pub(crate) sub_state: Option<SubState>,
    /// A short line below the name.
    pub(crate) note: String,
    /// Where a click leads.
    pub(crate) href: Option<String>,
    /// The step has a compensation.
    pub(crate) compensates: bool,
    /// It runs only under a condition.
    pub(crate) conditional: bool,
}

/// The dependencies between nodes, by their places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<(usize, usize)>,
    /// The path of the rollback, drawn dashed; empty without a rollback.
    pub(crate) compensation: Vec<(usize, usize)>,
    /// The rollback is in progress or has ended.
    pub(crate) compensating: bool,
}

impl Graph {
    /// The edges by names; names that are no node are left out.
    pub(crate) fn edges_by_name<'n>(
        nodes: &[Node],
        needs: impl Iterator<Item = (&'n str, &'n str)>,
    ) -> Vec<(usize, usize)> {
        let place = |name: &str| nodes.iter().position(|node| node.name == name);
        needs
            .filter_map(|(from, to)| Some((place(from)?, place(to)?)))
            .collect()
    }

    /// The way back: from each node with a compensation, last first, to the one before it.
    pub(crate) fn way_back(nodes: &[Node], edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let layers = layout::layers(nodes.len(), edges);
        let mut compensates: Vec<_> = (0..nodes.len())
            .filter(|place| nodes[*place].compensates)
            .collect();
        compensates.sort_by_key(|place| (layers[*place], *place));
        compensates
            .windows(2)
            .rev()
            .map(|pair| (pair[1], pair[0]))
            .collect()
    }

    /// The picture, with what it shows for who cannot see it.
    pub(crate) fn draw(&self, title: &str) -> Markup {
        if self.nodes.len() > MOST_NODES || self.edges.len() > MOST_EDGES {
            return html! {
                p.muted { (self.nodes.len()) " steps are too many for a picture; the list below has them." }
            };
        }
        let layout = Layout::of(self.nodes.len(), &self.edges, !self.compensation.is_empty());
        let (width, height) = layout.size();
        let view = format!("0 0 {width} {height}");
        // What is inside a picture cannot be reached; links must be.
        let role = if self.nodes.iter().any(|node| node.href.is_some()) {
            "group"
        } else {
            "img"
        };
        html! {
            (self.tools())
            div.graph tabindex="0" role="group" aria-label=(title) {
                svg width=(width) height=(height) viewBox=(view) role=(role) aria-label=(self.told(title)) {
                    defs {
                        (arrow("arrow")) (arrow("arrow-compensation"))
                    }
                    @for edge in &self.edges { (self.edge(&layout, *edge)) }
                    @for (from, to) in &self.compensation {
                        path.compensation.(if self.compensating { "now" } else { "" })
                            d=(back(layout.at(*from), layout.at(*to), height))
                            marker-end="url(#arrow-compensation)" {}
                    }
                    @for (place, node) in self.nodes.iter().enumerate() {
                        (draw_node(node, layout.at(place)))
                    }
                }
            }
        }
    }

    /// Buttons to zoom, which need the script, and a link to the step that failed.
    fn tools(&self) -> Markup {
        let mut nodes = self.nodes.iter();
        let failing = nodes.find(|node| node.sub_state.is_some_and(is_trouble));
        html! {
            div.tools {
                @if let Some(node) = failing {
                    a.button.small href={ "#" (node_id(&node.name)) } data-jump {
                        "Jump to " (said_within(&node.name, 40))
                    }
                }
                button.small.script type="button" data-zoom="out" aria-label="Zoom out" { "−" }
                button.small.script type="button" data-zoom="in" aria-label="Zoom in" { "+" }
                button.small.script type="button" data-zoom="fit" { "Fit" }
                button.small.script type="button" data-zoom="full" { "100 %" }
            }
        }
    }

    fn edge(&self, layout: &Layout, (from, to): (usize, usize)) -> Markup {
        let conditional = self.nodes[to].conditional;
        let done = self.nodes[from].sub_state == Some(SubState::Succeeded)
            && self.nodes[to].sub_state.is_some();
        let class = match (done, conditional) {
            (true, _) => "edge done",
            (false, true) => "edge maybe",
            (false, false) => "edge",
        };
        html! {
            path class=(class) d=(forth(&layout.path(from, to))) marker-end="url(#arrow)" {}
        }
    }

    /// The picture in words.
    fn told(&self, title: &str) -> String {
        let steps = self.nodes.iter().map(|node| {
            let state = node.sub_state.map_or("not started", word);
            format!("{}: {state}", visible(&node.name))
        });
        format!("{title}. {}.", steps.collect::<Vec<_>>().join("; "))
    }
}

/// Whether a person looks for a step in this state first.
const fn is_trouble(sub_state: SubState) -> bool {
    matches!(
        sub_state,
        SubState::Failed | SubState::Error | SubState::BackingOff
    )
}

/// The id of a node's element.
fn node_id(name: &str) -> String {
    format!("node-{}", anchor(name))
}

fn arrow(id: &str) -> Markup {
    html! {
        marker id=(id) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto" {
            path.(id) d="M1 1l6 3-6 3" {}
        }
    }
}

fn draw_node(node: &Node, at: Point) -> Markup {
    let state = node.sub_state.map_or("idle", word);
    let name = visible(&node.name);
    let note = visible(&node.note);
    let fits = |text: &str, most| match cut(text, most) {
        Some(short) => format!("{short}…"),
        None => text.to_owned(),
    };
    let inner = html! {
        title { (name) @if !note.is_empty() { " – " (note) } }
        (shape(&node.kind))
        @if let Some(sub_state) = node.sub_state {
            svg.glyph x="10" y="9" width="16" height="16" viewBox="0 0 16 16" {
                use href=(format!("#i-{}", word(sub_state))) {}
            }
        }
        @if node.sub_state.is_some() { text.name x="33" y="21" { (fits(&name, NAME_FITS_BESIDE_ICON)) } }
        @else { text.name x="13" y="21" { (fits(&name, NAME_FITS)) } }
        @if !note.is_empty() { text.note x="13" y="38" { (fits(&note, NOTE_FITS)) } }
        @if node.compensates { text.compensates x=(NODE_WIDTH - 12) y="38" { "↶" } }
    };
    let place = format!("translate({} {})", at.x, at.y);
    html! {
        g.node.(state) id=(node_id(&node.name)) transform=(place) {
            @match &node.href {
                Some(href) => { a href=(href) { (inner) } }
                None => { (inner) }
            }
        }
    }
}

/// Decisions of people have cut corners, waits are round, and child workflows have a double border.
fn shape(kind: &str) -> Markup {
    let (w, h) = (NODE_WIDTH, NODE_HEIGHT);
    match kind {
        "approval" => {
            let d = format!(
                "M10 0h{}l10 {}l-10 {}h-{}l-10 -{}z",
                w - 20,
                h / 2,
                h / 2,
                w - 20,
                h / 2
            );
            html! { path.box d=(d) {} }
        }
        "sleep" | "signal" => html! { rect.box width=(w) height=(h) rx=(h / 2) {} },
        "workflow" => html! {
            rect.box width=(w) height=(h) rx="7" {}
            rect.inner x="3" y="3" width=(w - 6) height=(h - 6) rx="5" {}
        },
        _ => html! { rect.box width=(w) height=(h) rx="7" {} },
    }
}

/// A curve along points, level at each of them.
fn forth(points: &[Point]) -> String {
    let Some((first, rest)) = points.split_first() else {
        return String::new();
    };
    let mut path = format!("M{} {}", first.x, first.y);
    let mut last = *first;
    for point in rest {
        let middle = (last.x + point.x) / 2;
        path.push_str(&format!(
            "C{middle} {} {middle} {} {} {}",
            last.y, point.y, point.x, point.y
        ));
        last = *point;
    }
    path
}

/// An arc below the nodes, from one back to another.
fn back(from: Point, to: Point, height: i32) -> String {
    let start = (from.x + NODE_WIDTH / 2 - 14, from.y + NODE_HEIGHT);
    let end = (to.x + NODE_WIDTH / 2 + 14, to.y + NODE_HEIGHT);
    let low = (start.1.max(end.1) + 34).min(height - 4);
    format!(
        "M{} {}C{} {low} {} {low} {} {}",
        start.0, start.1, start.0, end.0, end.0, end.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> Vec<Node> {
        let node = |name: &&str| Node {
            name: (*name).into(),
            compensates: true,
            ..Node::default()
        };
        names.iter().map(node).collect()
    }

    #[test]
    fn the_way_back_is_the_way_there_reversed() {
        let nodes = nodes(&["ship", "reserve", "charge"]);
        let edges = Graph::edges_by_name(
            &nodes,
            [("reserve", "charge"), ("charge", "ship"), ("gone", "ship")].into_iter(),
        );
        assert_eq!(edges, [(1, 2), (2, 0)]);
        assert_eq!(Graph::way_back(&nodes, &edges), [(0, 2), (2, 1)]);
    }

    #[test]
    fn a_picture_with_links_is_no_image() {
        let mut graph = Graph {
            nodes: nodes(&["a", "b"]),
            ..Graph::default()
        };
        assert!(graph.draw("Steps").into_string().contains("role=\"img\""));
        graph.nodes[1].href = Some("#b".into());
        let svg = graph.draw("Steps").into_string();
        assert!(!svg.contains("role=\"img\""), "{svg}");
    }

    #[test]
    fn the_failing_step_can_be_jumped_to() {
        let mut graph = Graph {
            nodes: nodes(&["a", "b c"]),
            ..Graph::default()
        };
        assert!(!graph.draw("Steps").into_string().contains("data-jump"));
        graph.nodes[1].sub_state = Some(SubState::Failed);
        let svg = graph.draw("Steps").into_string();
        assert!(svg.contains("href=\"#node-b_20c\" data-jump"), "{svg}");
        assert!(svg.contains("id=\"node-b_20c\""), "{svg}");
    }

    #[test]
    fn names_are_text_in_the_picture_too() {
        let graph = Graph {
            nodes: nodes(&["<script>alert(1)</script>", "a\u{202e}b"]),
            ..Graph::default()
        };
        let svg = graph.draw("Steps").into_string();
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("a\\u{202e}b"), "{svg}");
    }

    #[test]
    fn too_many_are_told_instead_of_drawn() {
        let names = vec!["x"; MOST_NODES + 1];
        let graph = Graph {
            nodes: nodes(&names),
            ..Graph::default()
        };
        assert!(!graph.draw("Steps").into_string().contains("<svg"));
    }
}
