//! The permission that each method of the API needs.
//!
//! A method without a permission is denied to everyone, and a test compares the table with the descriptors
//! of the API.

use stateway_access::Permission;
use stateway_access::Permission::{
    Approve, Define, Operate, Read, ReadPayloads, Signal, Start, Steer, Stop, Work,
};

/// Every method of the API, by service.
const METHODS: [(&str, Permission); 48] = [
    // Executions
    ("StartExecution", Start),
    ("GetExecution", Read),
    ("ListExecutions", Read),
    ("CountExecutions", Read),
    ("WatchExecutions", Read),
    ("WaitExecution", Read),
    ("ListEvents", Read),
    ("GetStep", Read),
    ("ReadPayload", ReadPayloads),
    ("ExplainExecution", Read),
    ("SignalExecution", Signal),
    ("CancelExecution", Stop),
    ("PauseExecution", Steer),
    ("ResumeExecution", Steer),
    ("RetryNow", Steer),
    ("RetryFrom", Steer),
    ("AdoptDefinition", Steer),
    ("ProjectExecution", Read),
    ("PurgeExecution", Operate),
    // Definitions
    ("ApplyDefinition", Define),
    ("GetDefinition", Read),
    ("ListDefinitions", Read),
    ("DeleteDefinition", Define),
    ("MigrateDefinition", Define),
    ("ValidateDefinition", Read),
    // Approvals
    ("ListApprovals", Read),
    ("WatchApprovals", Read),
    ("GetApproval", Read),
    ("DecideApproval", Approve),
    ("ListEscalations", Read),
    ("GetEscalation", Read),
    ("ResolveEscalation", Approve),
    // Providers
    ("ListProviders", Read),
    ("GetProvider", Read),
    // Recovery
    ("VerifyExecution", Read),
    ("VerifyExecutions", Operate),
    ("RecoverExecution", Operate),
    // The differences that it reports quote payloads.
    ("ReplayExecution", ReadPayloads),
    ("ListBranches", Read),
    // Redacted without the permission for payloads.
    ("ExportHistory", Read),
    // Triggers
    ("PublishEvent", Start),
    ("DisableTrigger", Steer),
    ("EnableTrigger", Steer),
    // Workers
    ("StreamTasks", Work),
    ("ListWorkers", Read),
    ("GetQueue", Read),
    // Admin
    ("PurgeExecutions", Operate),
    ("BackupStore", Operate),
];

/// The permission that a method needs; none for a method that no caller may use.
pub(crate) fn permission_of(method: &str) -> Option<Permission> {
    let found = METHODS.iter().find(|(name, _)| *name == method);
    found.map(|(_, permission)| *permission)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::API;

    #[test]
    fn every_method_of_the_api_has_a_permission_and_nothing_else_has() {
        let mut described: Vec<_> = API.methods().collect();
        let mut known: Vec<_> = METHODS.iter().map(|(name, _)| *name).collect();
        described.sort_unstable();
        known.sort_unstable();
        assert_eq!(described, known);
    }

    #[test]
    fn the_documentation_lists_every_method_with_its_permission() {
        let page = include_str!("../../../../docs/access.md");
        let section = page.split("\n## Permission of each method\n").nth(1);
        let section = section.and_then(|rest| rest.split("\n## ").next()).unwrap();
        let mut documented = Vec::new();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let mut words = row.split('`').skip(1).step_by(2);
            let permission: Permission = words.next().unwrap().parse().unwrap();
            documented.extend(words.map(|method| (method, permission)));
        }
        let mut known = METHODS.to_vec();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known);
    }
}
