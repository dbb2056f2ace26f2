//! The report as JUnit XML, which CI systems read.

use std::fmt::Write;

use crate::{Report, Verdict};

/// The report as one test suite of this name.
#[must_use]
pub fn junit(report: &Report, suite: &str) -> String {
    let (_, failed, skipped) = report.counts();
    let took: f64 = report
        .results
        .iter()
        .map(|one| one.took.as_secs_f64())
        .sum();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" \
         skipped=\"{skipped}\" time=\"{took:.3}\">\n",
        escaped(suite),
        report.results.len(),
    );
    for one in &report.results {
        let (group, rule) = one.name.split_once("::").unwrap_or(("", &one.name));
        let (group, rule, took) = (escaped(group), escaped(rule), one.took.as_secs_f64());
        let open =
            format!("    <testcase classname=\"{group}\" name=\"{rule}\" time=\"{took:.3}\"");
        // Writing to a text cannot fail.
        let _ = match &one.verdict {
            Verdict::Passed => writeln!(xml, "{open}/>"),
            Verdict::Failed(why) => writeln!(
                xml,
                "{open}>\n      <failure message=\"{}\"/>\n    </testcase>",
                escaped(why)
            ),
            Verdict::Skipped(why) => writeln!(
                xml,
                "{open}>\n      <skipped message=\"{}\"/>\n    </testcase>",
                escaped(why)
            ),
        };
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// A text inside an attribute. Characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::CaseResult;

    #[test]
    fn every_case_is_in_the_file_with_its_reason() {
        let case = |name: &str, verdict| CaseResult {
            name: name.into(),
            verdict,
            took: Duration::from_millis(1_250),
        };
        let report = Report {
            results: vec![
                case("get::a_rule", Verdict::Passed),
                case("get::b_rule", Verdict::Failed("a < \"b\"\n\u{1}".into())),
                case("kill::c_rule", Verdict::Skipped("needs & wants".into())),
            ],
        };
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites>
  <testsuite name=\"acme\" tests=\"3\" failures=\"1\" skipped=\"1\" time=\"3.750\">
    <testcase classname=\"get\" name=\"a_rule\" time=\"1.250\"/>
    <testcase classname=\"get\" name=\"b_rule\" time=\"1.250\">
      <failure message=\"a &lt; &quot;b&quot;&#10;\u{fffd}\"/>
    </testcase>
    <testcase classname=\"kill\" name=\"c_rule\" time=\"1.250\">
      <skipped message=\"needs &amp; wants\"/>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(junit(&report, "acme"), expected);
    }
}
