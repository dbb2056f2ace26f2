//! Answers, checked: a provider cannot answer about another execution than the one that was asked for.

use stateway_model::ExecutionId;
use stateway_provider_api::{Error, ErrorKind, Health, Observation, Result, Verb};
use stateway_wire::v1::observed_execution::Result as Observed;
use stateway_wire::{Misfit, convert, v1};

use crate::error::malformed;

/// The most bytes of a foreign id that an error quotes.
const QUOTED: usize = 64;
/// The most bytes of a text about the health of a provider.
const LINE: usize = 512;

/// The observation of whichever execution the provider answers with.
pub(crate) fn any(verb: Verb, seen: v1::Observation) -> Result<Observation> {
    convert::read_observation(seen).map_err(|misfit| malformed(verb, &misfit))
}

/// The observation of this execution.
pub(crate) fn of(verb: Verb, id: &ExecutionId, seen: v1::Observation) -> Result<Observation> {
    let seen = any(verb, seen)?;
    check(verb, id, seen.id.as_str())?;
    Ok(seen)
}

/// Refuses an answer about another execution.
pub(crate) fn check(verb: Verb, asked: &ExecutionId, answered: &str) -> Result<()> {
    if asked.as_str() == answered {
        return Ok(());
    }
    let quoted = &answered[..answered.floor_char_boundary(QUOTED)];
    let rule = format!("is `{quoted}`, not the execution that was asked for");
    Err(malformed(verb, &Misfit::new("id", rule)))
}

/// The health of the provider, with a remark of the gateway; may be empty.
pub(crate) fn health(health: &v1::CheckHealthResponse, remark: String) -> Health {
    let parts = [line(&health.detail), remark];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Health {
        engine_version: line(&health.engine_version),
        detail: parts.join("; "),
    }
}

/// The text as one line of bounded length: it is logged, and shown in lists of providers.
fn line(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(LINE)];
    text.replace(char::is_control, " ")
}

/// One result for each id, in the order of the ids.
pub(crate) fn observed(
    ids: &[ExecutionId],
    response: v1::ObserveExecutionsResponse,
) -> Vec<Result<Observation>> {
    let verb = Verb::Observe;
    if response.results.len() != ids.len() {
        let rule = format!(
            "has {} results for {} ids",
            response.results.len(),
            ids.len()
        );
        let error = malformed(verb, &Misfit::new("results", rule));
        return ids.iter().map(|_| Err(error.clone())).collect();
    }
    let pairs = ids.iter().zip(response.results);
    let results = pairs.map(|(id, result)| match result.result {
        Some(Observed::Observation(seen)) => of(verb, id, seen),
        Some(Observed::Error(detail)) => {
            Err(convert::read_detail(detail, verb, ErrorKind::Malformed))
        }
        None => Err(malformed(
            verb,
            &Misfit::new("results", "has an empty result"),
        )),
    });
    results.collect()
}

/// The same error for each id.
pub(crate) fn all_failed(ids: &[ExecutionId], error: &Error) -> Vec<Result<Observation>> {
    ids.iter().map(|_| Err(error.clone())).collect()
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::NativeState;

    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    fn seen(text: &str) -> v1::Observation {
        convert::observation(&Observation::new(id(text), NativeState::new("DONE")))
    }

    fn result(seen: v1::Observation) -> v1::ObservedExecution {
        v1::ObservedExecution {
            result: Some(Observed::Observation(seen)),
        }
    }

    #[test]
    fn an_answer_about_another_execution_is_refused() {
        assert!(of(Verb::Get, &id("a"), seen("a")).is_ok());
        let refused = of(Verb::Get, &id("a"), seen("b")).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Malformed);
        assert!(
            refused.message.contains("`b`, not the execution"),
            "{refused}"
        );
        let long = "ü".repeat(700);
        assert!(check(Verb::Get, &id("a"), &long).is_err());
    }

    #[test]
    fn one_foreign_result_does_not_fail_the_others() {
        let ids = [id("a"), id("b")];
        let results = vec![result(seen("a")), result(seen("c"))];
        let read = observed(&ids, v1::ObserveExecutionsResponse { results });
        assert!(read[0].is_ok() && read[1].is_err());
        let results = vec![result(seen("a"))];
        let read = observed(&ids, v1::ObserveExecutionsResponse { results });
        assert!(read.len() == 2 && read.iter().all(Result::is_err));
    }

    #[test]
    fn texts_about_health_are_bounded_lines() {
        let long = "a\nü\u{1b}".repeat(1_000_000);
        let response = v1::CheckHealthResponse {
            engine_version: long.clone(),
            detail: long,
        };
        let shown = health(&response, "a remark".to_owned());
        assert!(shown.engine_version.len() <= LINE && shown.detail.len() <= LINE + 10);
        assert!(!shown.detail.contains(char::is_control));
        assert!(shown.detail.ends_with("; a remark"));
    }
}
