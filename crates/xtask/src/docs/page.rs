//! A page with parts between `<!-- generated: NAME -->` and `<!-- end -->`. Pure.

/// The page with another text in one of its parts.
///
/// # Errors
/// The page has no such part.
pub(super) fn with_part(page: &str, name: &str, text: &str) -> Result<String, String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let absent = || format!("the page has no part `{}`", begin.trim_end());
    let (before, rest) = page.split_once(&begin).ok_or_else(absent)?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(absent)?;
    let text = text.trim_end();
    Ok(format!("{before}{begin}\n{text}\n\n<!-- end -->{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "intro\n\n<!-- generated: a -->\nold\n<!-- end -->\n\n<!-- generated: b -->\n<!-- end -->\n";

    #[test]
    fn only_the_named_part_changes() {
        let expected = "intro\n\n<!-- generated: a -->\n\nnew\n\n<!-- end -->\n\n<!-- generated: b -->\n<!-- end -->\n";
        assert_eq!(with_part(PAGE, "a", "new\n"), Ok(expected.to_owned()));
    }

    #[test]
    fn a_part_that_the_page_does_not_have_is_an_error() {
        assert!(with_part(PAGE, "c", "").is_err());
    }
}
