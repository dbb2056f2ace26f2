//! The word a person probably meant.

/// The most similar known word, if it is similar enough for a suggestion.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    const MOST_COMPARED: usize = 64;
    if word.len() > MOST_COMPARED {
        return None;
    }
    let tolerance = 1 + word.chars().count() / 4;
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::levenshtein(&word.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_nonsense_is_not() {
        let known = ["dependsOn", "timeout", "onFailure"];
        assert_eq!(nearest("dependOn", known), Some("dependsOn"));
        assert_eq!(nearest("Timeout", known), Some("timeout"));
        assert_eq!(nearest("xyzzy", known), None);
    }
}
