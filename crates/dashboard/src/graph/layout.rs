//! Where the nodes of a graph go: layers from left to right, each node behind everything it needs,
//! ordered within its layer so that edges cross little, and room for edges that pass layers by.

/// The size of a node.
pub(super) const NODE_WIDTH: i32 = 176;
pub(super) const NODE_HEIGHT: i32 = 48;
const GAP_X: i32 = 56;
const GAP_Y: i32 = 22;
const MARGIN: i32 = 6;
/// Space below the graph for the edges of the compensations.
const COMPENSATION_ROOM: i32 = 30;
/// How often the order of the layers is improved; more hardly helps.
const SWEEPS: usize = 6;

/// A place in the picture, from its top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) x: i32,
    pub(super) y: i32,
}

/// A place in the layers: a node, or a bend of an edge that passes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    layer: usize,
    row: usize,
}

/// Where everything is.
pub(super) struct Layout {
    /// The nodes' slots, then those of the bends.
    slots: Vec<Slot>,
    /// Of each edge: the bends on its way.
    bends: Vec<((usize, usize), Vec<usize>)>,
    layers: Vec<Vec<usize>>,
    compensation: bool,
}

impl Layout {
    pub(super) fn of(nodes: usize, edges: &[(usize, usize)], compensation: bool) -> Self {
        let layer_of = layers(nodes, edges);
        let mut layers = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
        for (node, layer) in layer_of.iter().enumerate() {
            layers[*layer].push(node);
        }
        let mut slots: Vec<_> = layer_of
            .iter()
            .map(|layer| Slot {
                layer: *layer,
                row: 0,
            })
            .collect();
        let mut bends = Vec::new();
        for (from, to) in edges.iter().copied() {
            let mut on_way = Vec::new();
            let passed = layers.iter_mut().enumerate().take(layer_of[to]);
            for (layer, members) in passed.skip(layer_of[from] + 1) {
                members.push(slots.len());
                on_way.push(slots.len());
                slots.push(Slot { layer, row: 0 });
            }
            bends.push(((from, to), on_way));
        }
        let mut layout = Self {
            slots,
            bends,
            layers,
            compensation,
        };
        layout.place();
        for sweep in 0..SWEEPS {
            layout.sweep(sweep % 2 == 0);
        }
        layout
    }

    /// The size of the picture.
    pub(super) fn size(&self) -> (i32, i32) {
        let columns = small(self.layers.len());
        let width = columns * (NODE_WIDTH + GAP_X) - GAP_X + 2 * MARGIN;
        let compensation = if self.compensation {
            COMPENSATION_ROOM
        } else {
            0
        };
        (width.max(1), self.height() + 2 * MARGIN + compensation)
    }

    /// The top left of a node.
    pub(super) fn at(&self, node: usize) -> Point {
        let slot = self.slots[node];
        let rows = small(self.layers[slot.layer].len());
        let own = rows * (NODE_HEIGHT + GAP_Y) - GAP_Y;
        Point {
            x: MARGIN + small(slot.layer) * (NODE_WIDTH + GAP_X),
            y: MARGIN + (self.height() - own) / 2 + small(slot.row) * (NODE_HEIGHT + GAP_Y),
        }
    }

    /// The points of an edge, from border to border.
    pub(super) fn path(&self, from: usize, to: usize) -> Vec<Point> {
        let middle = NODE_HEIGHT / 2;
        let (start, end) = (self.at(from), self.at(to));
        let mut points = vec![Point {
            x: start.x + NODE_WIDTH,
            y: start.y + middle,
        }];
        let found = self.bends.iter().find(|(edge, _)| *edge == (from, to));
        for bend in found.map_or(&[][..], |(_, bends)| bends) {
            let at = self.at(*bend);
            let y = at.y + middle;
            points.push(Point { x: at.x, y });
            points.push(Point {
                x: at.x + NODE_WIDTH,
                y,
            });
        }
        points.push(Point {
            x: end.x - 1,
            y: end.y + middle,
        });
        points
    }

    fn height(&self) -> i32 {
        let most = self.layers.iter().map(Vec::len).max().unwrap_or(0);
        (small(most) * (NODE_HEIGHT + GAP_Y) - GAP_Y).max(0)
    }

    /// Gives each slot its row, by the order of its layer.
    fn place(&mut self) {
        for layer in &self.layers {
            for (row, slot) in layer.iter().enumerate() {
                self.slots[*slot].row = row;
            }
        }
    }

    /// Orders each layer by the middle of what its slots are joined to in the layer before.
    fn sweep(&mut self, forth: bool) {
        let near = self.near();
        let count = self.layers.len();
        for step in 1..count {
            let (layer, other) = if forth {
                (step, step - 1)
            } else {
                (count - 1 - step, count - step)
            };
            let mut order = std::mem::take(&mut self.layers[layer]);
            let middle = |slot: usize| {
                let rows: Vec<_> = near[slot]
                    .iter()
                    .map(|near| self.slots[*near])
                    .filter(|near| near.layer == other)
                    .map(|near| near.row)
                    .collect();
                match rows.len() {
                    0 => self.slots[slot].row * 1_000,
                    count => rows.iter().sum::<usize>() * 1_000 / count,
                }
            };
            // A stable sort: what is equal stays in the order of the definition.
            order.sort_by_cached_key(|slot| middle(*slot));
            self.layers[layer] = order;
            self.place();
        }
    }

    /// The slots that each slot is connected with, over the pieces of all edges.
    fn near(&self) -> Vec<Vec<usize>> {
        let mut near = vec![Vec::new(); self.slots.len()];
        for ((from, to), bends) in &self.bends {
            let mut last = *from;
            for next in bends.iter().chain([to]) {
                near[last].push(*next);
                near[*next].push(last);
                last = *next;
            }
        }
        near
    }
}

/// The layer of each node: one more than the last of what it needs. Edges that would close a circle
/// do not count, so it ends for any input.
pub(super) fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; nodes];
    for _ in 0..nodes {
        let mut changed = false;
        for (from, to) in edges {
            let needed = (layers[*from] + 1).min(nodes.saturating_sub(1));
            if from != to && layers[*to] < needed {
                layers[*to] = needed;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    layers
}

fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_behind_what_it_needs() {
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)];
        assert_eq!(layers(4, &edges), [0, 1, 1, 2]);
    }

    #[test]
    fn a_circle_is_drawn_somehow_and_ends() {
        let layout = Layout::of(3, &[(0, 1), (1, 2), (2, 0), (1, 1)], false);
        assert!(layout.size().0 > 0);
        assert!(!layout.path(2, 0).is_empty());
    }

    #[test]
    fn no_two_nodes_share_a_place() {
        let edges: Vec<_> = (1..40).map(|node| (node / 3, node)).collect();
        let layout = Layout::of(40, &edges, true);
        let mut places: Vec<_> = (0..40)
            .map(|node| layout.at(node))
            .map(|at| (at.x, at.y))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 40);
    }

    #[test]
    fn crossings_are_undone() {
        // 0 needs to lead to 3 and 1 to 2: in the order of the file they would cross.
        let layout = Layout::of(4, &[(0, 3), (1, 2)], false);
        assert_eq!(layout.at(0).y, layout.at(3).y);
        assert_eq!(layout.at(1).y, layout.at(2).y);
    }

    #[test]
    fn a_long_edge_goes_round_the_nodes_it_passes() {
        let layout = Layout::of(3, &[(0, 1), (1, 2), (0, 2)], false);
        let path = layout.path(0, 2);
        assert_eq!(path.len(), 4);
        assert_ne!(path[1].y, layout.at(1).y + NODE_HEIGHT / 2);
    }
}
