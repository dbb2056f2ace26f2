//! Names of branches: `providers/{provider}/executions/{execution}/branches/{branch}`.

use stateway_model::ExecutionName;
use stateway_provider_api::BranchChoice;
use tonic::Status;

use crate::status::Refusal;

/// The branch on which the execution continues.
const CURRENT: &str = "current";
/// Every branch.
const EVERY: &str = "-";

/// The full name of a branch.
pub(crate) fn branch_name(execution: &ExecutionName, branch: u32) -> String {
    format!("{execution}/branches/{branch}")
}

/// The branch that a request names, of the execution that it is about.
pub(crate) fn branch_of(execution: &ExecutionName, name: &str) -> Result<BranchChoice, Status> {
    let wrong = |message: String| {
        Status::from(Refusal::invalid("branch", message).hint("{ListBranches} lists the branches."))
    };
    let (of, branch) = name.rsplit_once("/branches/").ok_or_else(|| {
        let pattern = "providers/{provider}/executions/{execution}/branches/{branch}";
        wrong(format!("`branch` is not of the form `{pattern}`"))
    })?;
    if of.parse().ok().as_ref() != Some(execution) {
        return Err(wrong(format!("`branch` must be a branch of `{execution}`")));
    }
    match branch {
        CURRENT => Ok(BranchChoice::Current),
        EVERY => Ok(BranchChoice::Every),
        number => match number.parse() {
            Ok(number) => Ok(BranchChoice::Number(number)),
            Err(_) => Err(wrong(format!("`{number}` is not the number of a branch"))),
        },
    }
}

/// One branch; none for the branch on which the execution continues, which is the default.
pub(crate) fn one_branch_of(execution: &ExecutionName, name: &str) -> Result<Option<u32>, Status> {
    if name.is_empty() {
        return Ok(None);
    }
    match branch_of(execution, name)? {
        BranchChoice::Current => Ok(None),
        BranchChoice::Number(number) => Ok(Some(number)),
        BranchChoice::Every => {
            Err(Refusal::invalid("branch", "`branch` must name one branch, not `-`").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution() -> ExecutionName {
        "providers/p/executions/Order%2F17".parse().unwrap()
    }

    #[test]
    fn a_branch_is_read_as_it_is_written() {
        let name = branch_name(&execution(), 7);
        assert_eq!(name, "providers/p/executions/Order%2F17/branches/7");
        assert_eq!(
            branch_of(&execution(), &name).unwrap(),
            BranchChoice::Number(7)
        );
        assert_eq!(one_branch_of(&execution(), &name).unwrap(), Some(7));
    }

    #[test]
    fn the_current_branch_and_every_branch_have_names() {
        let named = |word: &str| format!("{}/branches/{word}", execution());
        let choice = |word: &str| branch_of(&execution(), &named(word)).unwrap();
        assert_eq!(choice("current"), BranchChoice::Current);
        assert_eq!(choice("-"), BranchChoice::Every);
        assert_eq!(
            one_branch_of(&execution(), &named("current")).unwrap(),
            None
        );
        assert_eq!(one_branch_of(&execution(), "").unwrap(), None);
        assert!(one_branch_of(&execution(), &named("-")).is_err());
    }

    #[test]
    fn a_number_alone_and_a_branch_of_another_execution_are_rejected() {
        for wrong in [
            "0",
            "current",
            "providers/p/executions/other/branches/0",
            "providers/p/executions/Order%2F17/branches/x",
            "providers/p/executions/Order%2F17/branches/",
        ] {
            assert!(branch_of(&execution(), wrong).is_err(), "{wrong}");
        }
    }
}
