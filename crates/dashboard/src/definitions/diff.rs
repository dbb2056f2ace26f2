//! What changed between two texts, line by line. Pure.
//!
//! Equal lines at both ends are set aside; what is left between them is compared by its longest
//! common subsequence, which costs lines times lines and is therefore bounded.

/// The most cells of a comparison: about 2,000 changed lines against 2,000.
const MOST_CELLS: usize = 4_000_000;
/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// One line of a comparison. Numbers are from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line<'t> {
    Same(usize, usize, &'t str),
    Removed(usize, &'t str),
    Added(usize, &'t str),
    /// The number of unchanged lines that are left out.
    Skipped(usize),
}

/// The lines that differ, with some around them; nothing when the texts are the same.
///
/// # Errors
/// The texts differ too much for a comparison.
pub(super) fn diff<'t>(old: &'t str, new: &'t str) -> Result<Vec<Line<'t>>, TooMuch> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if a.len().saturating_mul(b.len()) > MOST_CELLS {
        return Err(TooMuch);
    }
    let mut lines: Vec<_> = (0..head)
        .map(|at| Line::Same(at + 1, at + 1, old[at]))
        .collect();
    lines.extend(between(a, b, head));
    lines.extend((0..tail).map(|at| {
        let (from, to) = (old.len() - tail + at, new.len() - tail + at);
        Line::Same(from + 1, to + 1, old[from])
    }));
    Ok(folded(lines))
}

/// More differs than is compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// The longest common subsequence, walked from the front.
fn between<'t>(a: &[&'t str], b: &[&'t str], head: usize) -> Vec<Line<'t>> {
    let width = b.len() + 1;
    // How many lines are common from here to the ends.
    let mut common = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(Line::Same(head + i + 1, head + j + 1, a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len()
            || (i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            lines.push(Line::Removed(head + i + 1, a[i]));
            i += 1;
        } else {
            lines.push(Line::Added(head + j + 1, b[j]));
            j += 1;
        }
    }
    lines
}

/// Leaves out the lines that are far from any change.
fn folded(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let changed: Vec<bool> = lines
        .iter()
        .map(|line| !matches!(line, Line::Same(..)))
        .collect();
    let near = |at: usize| {
        let (from, to) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(changed.len()),
        );
        changed[from..to].contains(&true)
    };
    if !changed.contains(&true) {
        return Vec::new();
    }
    let mut shown = Vec::new();
    for (at, line) in lines.into_iter().enumerate() {
        match (near(at), shown.last_mut()) {
            (true, _) => shown.push(line),
            (false, Some(Line::Skipped(count))) => *count += 1,
            (false, _) => shown.push(Line::Skipped(1)),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use stateway_chance::Chance;

    use super::*;

    #[test]
    fn the_same_text_has_no_difference() {
        assert_eq!(diff("a\nb", "a\nb\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_changed_line_is_removed_and_added() {
        let lines = diff("a\nb\nc", "a\nB\nc").unwrap();
        let wanted = vec![
            Line::Same(1, 1, "a"),
            Line::Removed(2, "b"),
            Line::Added(2, "B"),
            Line::Same(3, 3, "c"),
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn lines_far_from_a_change_are_left_out() {
        let old: Vec<_> = (0..20).map(|line| line.to_string()).collect();
        let new = format!("{}\nlast", old.join("\n"));
        let lines = diff(&old.join("\n"), &new).map(|lines| lines.len());
        // Seventeen in one, three around it, and the new one.
        assert_eq!(lines, Ok(5));
    }

    #[test]
    fn what_is_told_leads_from_one_text_to_the_other() {
        let mut chance = Chance::new(7);
        for _ in 0..300 {
            let mut text = || {
                let lines = (0..chance.below(9)).map(|_| ["a", "b", "c"][chance.below(3)]);
                lines.collect::<Vec<_>>().join("\n")
            };
            let (old, new) = (text(), text());
            let lines = diff(&old, &new).unwrap();
            if lines.is_empty() {
                assert_eq!(
                    old.lines().collect::<Vec<_>>(),
                    new.lines().collect::<Vec<_>>()
                );
                continue;
            }
            let side = |take: fn(&Line<'_>) -> Option<(usize, String)>| -> Vec<_> {
                lines.iter().filter_map(take).collect()
            };
            let removed = side(|line| match line {
                Line::Same(at, _, text) | Line::Removed(at, text) => {
                    Some((*at, (*text).to_owned()))
                }
                _ => None,
            });
            let added = side(|line| match line {
                Line::Same(_, at, text) | Line::Added(at, text) => Some((*at, (*text).to_owned())),
                _ => None,
            });
            for (found, of) in [(removed, &old), (added, &new)] {
                for (at, text) in found {
                    assert_eq!(
                        of.lines().nth(at - 1),
                        Some(text.as_str()),
                        "{old:?} {new:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn too_much_is_not_compared() {
        let old: String = (0..3_000).map(|line| format!("a{line}\n")).collect();
        let new: String = (0..3_000).map(|line| format!("b{line}\n")).collect();
        assert_eq!(diff(&old, &new), Err(TooMuch));
    }
}
