//! The line of an error text that describes the error best.

/// The last line that is not empty and not a frame of a stack trace; the last line if every line is a
/// frame. Python puts the error at the end of a trace, Java and JavaScript put frames behind it.
///
/// ```
/// use stateway_model::headline;
/// let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no card\n";
/// assert_eq!(headline(trace), "ValueError: no card");
/// assert_eq!(headline("no card"), "no card");
/// ```
#[must_use]
pub fn headline(text: &str) -> &str {
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.clone().next().unwrap_or_default();
    lines.find(|line| !is_frame(line)).unwrap_or(last).trim()
}

/// The summary of a failure in one line: the headline, behind what the summary says before the text
/// of the error begins (`agent_error: `).
#[must_use]
pub fn one_line_summary(summary: &str) -> String {
    let line = headline(summary);
    match (summary.lines().next(), summary.split_once(": ")) {
        (Some(first), Some((before, _))) if first.trim() != line && !before.contains('\n') => {
            format!("{before}: {line}")
        }
        _ => line.to_owned(),
    }
}

/// `    at module.function (file:1:2)` or `    ... 12 more`.
fn is_frame(line: &str) -> bool {
    let text = line.trim();
    let is_indented = line.starts_with([' ', '\t']);
    is_indented && (text.starts_with("at ") || text.starts_with("... ") && text.ends_with(" more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: &str = "Traceback (most recent call last):\n  File \"w.py\", line 3, in <module>\n    \
                          charge()\nKeyError: 'items'\n\n";
    const JAVA: &str = "java.lang.IllegalStateException: no card\n\tat shop.Pay.charge(Pay.java:7)\n\
                        Caused by: java.io.IOException: refused\n\tat shop.Net.open(Net.java:1)\n\t... 12 more";
    const NODE: &str =
        "Error: no card\n    at charge (/app/pay.js:3:9)\n    at main (/app/pay.js:9:1)";

    #[test]
    fn the_headline_is_the_line_that_names_the_error() {
        for (text, expected) in [
            (PYTHON, "KeyError: 'items'"),
            (JAVA, "Caused by: java.io.IOException: refused"),
            (NODE, "Error: no card"),
            ("no card", "no card"),
            ("first\r\nsecond\r\n", "second"),
            ("  at the end\n  at the end", "at the end"),
            ("", ""),
            ("\n \n", ""),
        ] {
            assert_eq!(headline(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_summary_keeps_what_it_says_before_the_error() {
        for (text, expected) in [
            (
                format!("agent_error: {PYTHON}"),
                "agent_error: KeyError: 'items'",
            ),
            (
                format!("agent_error: {NODE}"),
                "agent_error: Error: no card",
            ),
            ("agent_error: no card".to_owned(), "agent_error: no card"),
            ("first\nsecond: third".to_owned(), "second: third"),
            (String::new(), ""),
        ] {
            assert_eq!(one_line_summary(&text), expected, "{text:?}");
        }
    }
}
