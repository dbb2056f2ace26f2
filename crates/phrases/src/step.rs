//! The names of steps.

/// How many steps are named; the others are counted.
const MOST: usize = 3;

/// `charge, ship, pack and 2 more`.
#[must_use]
pub fn steps(names: &[&str]) -> String {
    let named: Vec<_> = names
        .iter()
        .take(MOST)
        .map(|name| crate::visible(name))
        .collect();
    let named = named.join(", ");
    match names.len().saturating_sub(MOST) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Where an open execution is: `at charge`, or `at charge: waits for signal `paid``. Without a
/// step, only the rest.
#[must_use]
pub fn at(names: &[&str], doing: &str) -> String {
    match (names.is_empty(), doing.is_empty()) {
        (true, _) => doing.to_owned(),
        (false, true) => format!("at {}", steps(names)),
        (false, false) => format!("at {}: {doing}", steps(names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_steps_are_named_and_the_others_counted() {
        assert_eq!(steps(&["a", "b", "c"]), "a, b, c");
        assert_eq!(steps(&["a", "b\n", "c", "d", "e"]), "a, b\\n, c and 2 more");
    }

    #[test]
    fn the_step_is_before_the_wait() {
        assert_eq!(at(&[], ""), "");
        assert_eq!(at(&[], "waits for a timer"), "waits for a timer");
        assert_eq!(at(&["charge"], ""), "at charge");
        assert_eq!(
            at(&["nap"], "waits for a timer"),
            "at nap: waits for a timer"
        );
    }
}
