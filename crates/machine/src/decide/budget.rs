//! Budgets: what an execution or a step may cost before its next task is handed out or
//! its next child starts.

use stateway_definition::Budget;
use stateway_model::{ErrorCategory, Usage};

use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Failure, FailureCause};

/// Why an attempt fails whose budget is used up; nothing while some is left, or where a person who
/// may decide about the step lets this attempt run.
pub(super) fn exceeded(draft: &Draft<'_>, ix: StepIx, attempt: u32) -> Option<Failure> {
    let (head, run) = (draft.head(), draft.run(ix));
    if run.over_budget == attempt {
        return None;
    }
    let (whole, step) = (head.plan.definition().budget, head.plan.define(ix).budget);
    let spent = head.usage + head.spent;
    let message = over("the execution", &whole, &spent)
        .or_else(|| over("the step", &step, &(run.usage + run.spent)))?;
    Some(Failure::of(
        FailureCause::BudgetExceeded,
        ErrorCategory::Governance,
        message,
    ))
}

fn over(what: &str, budget: &Budget, spent: &Usage) -> Option<String> {
    let tokens = spent.input_tokens.saturating_add(spent.output_tokens);
    if let Some(most) = budget.max_cost_micros
        && spent.cost_micros >= most
    {
        let (spent, most) = (units(spent.cost_micros), units(most));
        return Some(format!("{what} has cost {spent} of at most {most}"));
    }
    let most = budget.max_tokens.filter(|most| tokens >= *most)?;
    Some(format!("{what} has used {tokens} of at most {most} tokens"))
}

/// Millionths as units, without trailing zeros.
fn units(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::units;

    #[test]
    fn a_cost_is_written_in_units_without_trailing_zeros() {
        assert_eq!(units(2_500_000), "2.5");
        assert_eq!(units(3_000_000), "3");
        assert_eq!(units(1), "0.000001");
    }
}
