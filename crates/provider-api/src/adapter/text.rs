//! Texts of engines in messages of ours.

/// The longest text of an engine in a message, in characters.
const LONGEST: usize = 512;

/// The first line of a text of the engine, cut to a length that a person reads. Stack traces begin
/// on the second line.
#[must_use]
pub fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_is_kept_and_it_is_bounded() {
        assert_eq!(one_line(" no card \n  at main"), "no card");
        assert_eq!(one_line(""), "");
        let long = "é".repeat(LONGEST + 1);
        assert_eq!(one_line(&long).chars().count(), LONGEST + 1);
        assert!(one_line(&long).ends_with('…'));
    }
}
