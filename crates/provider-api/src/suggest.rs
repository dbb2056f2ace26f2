//! The name that the caller probably meant.

/// Longer names are not compared: the cost grows with the product of the lengths.
const LONGEST_COMPARED: usize = 128;

/// The known name that is most similar to this one, if one is similar enough.
///
/// # Example
/// ```
/// use stateway_provider_api::nearest;
///
/// assert_eq!(nearest("order-sage", ["nightly", "order-saga"]), Some("order-saga"));
/// assert_eq!(nearest("xyzzy", ["nightly", "order-saga"]), None);
/// ```
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > LONGEST_COMPARED {
        return None;
    }
    let wanted = name.to_lowercase();
    let tolerance = 1 + wanted.chars().count() / 4;
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST_COMPARED)
        .map(|candidate| {
            let distance = strsim::osa_distance(&wanted, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_is_recognized_and_another_word_is_not() {
        let known = ["order-saga", "nightly", "release-approval"];
        assert_eq!(nearest("order-sage", known), Some("order-saga"));
        assert_eq!(nearest("nigthly", known), Some("nightly"));
        assert_eq!(nearest("Nightly", known), Some("nightly"));
        assert_eq!(nearest("release-aproval", known), Some("release-approval"));
        assert_eq!(nearest("xyzzy", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let long = "a".repeat(LONGEST_COMPARED + 1);
        assert_eq!(nearest(&long, [long.as_str()]), None);
        let limit = &long[1..];
        assert_eq!(nearest(limit, [long.as_str(), limit]), Some(limit));
    }
}
