//! Which providers can run a definition, and what they do differently.

use maud::{Markup, html};
use stateway_proto::v1::portability::Verdict;
use stateway_proto::v1::{Definition, Portability, ValidateDefinitionRequest};

use crate::Site;
use crate::text::said_within;
use crate::visitor::Visitor;

/// The report of every provider that the visitor may see. Without an answer of the gateway the page is shown
/// without the report.
pub(super) async fn card(site: &Site, visitor: &Visitor, found: &Definition) -> Markup {
    if found.deleted || !found.name.starts_with("definitions/") {
        return html! {};
    }
    let request = ValidateDefinitionRequest {
        source: found.source.clone(),
        source_name: found.name.clone(),
        ..ValidateDefinitionRequest::default()
    };
    let mut api = site.api.definitions();
    match api.validate_definition(visitor.request(request)).await {
        Ok(report) => render(&report.into_inner().portability, &found.default_provider),
        Err(_) => html! {},
    }
}

fn render(report: &[Portability], default: &str) -> Markup {
    if report.is_empty() {
        return html! {};
    }
    html! {
        section.card.portability aria-labelledby="portability-title" {
            h2 #portability-title { "Providers" }
            ul.plain {
                @for one in report {
                    li {
                        (line(one))
                        @if one.provider == default { " – new executions start here by default" }
                        @if !one.reasons.is_empty() {
                            ul { @for reason in &one.reasons { li { (said_within(reason, 300)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn line(one: &Portability) -> Markup {
    let id = one.provider.trim_start_matches("providers/");
    let (mark, words) = match one.verdict() {
        Verdict::Exact => ("✓", "runs it as it is written"),
        Verdict::Emulated => ("≈", "runs it with differences"),
        Verdict::Impossible => ("✕", "cannot run it"),
        Verdict::Unspecified => ("?", "did not answer"),
    };
    html! {
        span aria-hidden="true" { (mark) } " "
        a href={ "/providers/" (id) } { (said_within(id, 60)) }
        " " (words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_a_verdict_and_its_reasons() {
        let one = |provider: &str, verdict: Verdict, reasons: &[&str]| Portability {
            provider: provider.to_owned(),
            verdict: verdict.into(),
            reasons: reasons.iter().map(|it| (*it).to_owned()).collect(),
        };
        let report = [
            one("providers/builtin", Verdict::Exact, &[]),
            one(
                "providers/flows",
                Verdict::Impossible,
                &["`concurrency` is <set>"],
            ),
            one("providers/away", Verdict::Unspecified, &["no answer"]),
        ];
        let page = render(&report, "providers/builtin").into_string();
        for part in [
            "builtin</bdi></a> runs it as it is written – new executions start here by default",
            "flows</bdi></a> cannot run it",
            "`concurrency` is &lt;set&gt;",
            "away</bdi></a> did not answer",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(render(&[], "").into_string().is_empty());
    }
}
