//! The tasks that were taken from an activity, and the signals that wait for one. Pure.

use serde::Deserialize;
use serde_json::Value;

/// The maximum number of tasks that are taken: each one needs heartbeats.
pub(crate) const MOST_HELD: usize = 1_000;

/// To whom a task belongs: the member `stateway` of its input.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Address {
    /// The execution's ARN.
    pub(crate) execution: String,
    /// The state's name.
    pub(crate) state: String,
    /// The iteration of the Map around it, where the definition passes it on.
    #[serde(default)]
    pub(crate) index: Option<u64>,
}

impl Address {
    /// The address that a task's input carries.
    pub(crate) fn read(input: &str) -> Option<Self> {
        let mut input: Value = serde_json::from_str(input).ok()?;
        serde_json::from_value(input.get_mut("stateway")?.take()).ok()
    }

    /// Whether a task with this address is the one that is wanted.
    fn answers(&self, wanted: &Self) -> bool {
        let same_place = self.index.is_none() || self.index == wanted.index;
        self.execution == wanted.execution && self.state == wanted.state && same_place
    }
}

/// A task that was taken. It has no `Debug`, because a token that is logged could be used to answer it.
#[derive(Clone)]
pub(crate) struct HeldTask {
    pub(crate) address: Address,
    pub(crate) token: String,
}

/// The tasks of one activity: taken ones, and the addresses that callers wait for.
#[derive(Default)]
pub(super) struct ActivityTasks {
    held: Vec<HeldTask>,
    wanted: Vec<(u64, Address)>,
    tickets: u64,
    pub(super) is_polled: bool,
}

impl ActivityTasks {
    /// The token of the task that is wanted.
    pub(super) fn find(&self, wanted: &Address) -> Option<String> {
        let found = self.held.iter().find(|held| held.address.answers(wanted));
        found.map(|held| held.token.clone())
    }

    /// Keeps a task. A newer one with the same address is another attempt: the older one is over.
    pub(super) fn keep(&mut self, task: HeldTask) {
        self.held.retain(|held| held.address != task.address);
        self.held.push(task);
    }

    pub(super) fn drop_token(&mut self, token: &str) {
        self.held.retain(|held| held.token != token);
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = String> + '_ {
        self.held.iter().map(|held| held.token.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Someone waits for this task; the ticket to give back.
    pub(super) fn want(&mut self, wanted: Address) -> u64 {
        self.tickets += 1;
        self.wanted.push((self.tickets, wanted));
        self.tickets
    }

    pub(super) fn give_up(&mut self, ticket: u64) {
        self.wanted.retain(|(known, _)| *known != ticket);
    }

    /// Whether anyone waits for a task that has not come.
    pub(super) fn is_short(&self) -> bool {
        let missing = |(_, wanted): &(u64, Address)| self.find(wanted).is_none();
        self.wanted.iter().any(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(execution: &str, index: Option<u64>) -> Address {
        Address {
            execution: execution.to_owned(),
            state: "Approve".to_owned(),
            index,
        }
    }

    fn held(execution: &str, index: Option<u64>, token: &str) -> HeldTask {
        HeldTask {
            address: address(execution, index),
            token: token.to_owned(),
        }
    }

    #[test]
    fn an_address_is_read_from_the_input() {
        let input = r#"{"amount":7,"stateway":{"execution":"a","state":"Approve","index":3}}"#;
        assert_eq!(Address::read(input), Some(address("a", Some(3))));
        for foreign in [
            "",
            "[]",
            "{}",
            r#"{"stateway":{"execution":"a"}}"#,
            r#"{"stateway":7}"#,
        ] {
            assert_eq!(Address::read(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn each_task_answers_its_own_execution_and_iteration() {
        let mut tasks = ActivityTasks::default();
        tasks.keep(held("a", None, "1"));
        tasks.keep(held("b", Some(0), "2"));
        tasks.keep(held("b", Some(1), "3"));
        assert_eq!(tasks.find(&address("a", None)).as_deref(), Some("1"));
        assert_eq!(tasks.find(&address("b", Some(1))).as_deref(), Some("3"));
        assert_eq!(tasks.find(&address("b", None)), None);
        assert_eq!(tasks.find(&address("c", None)), None);
        tasks.keep(held("a", None, "4"));
        assert_eq!(tasks.find(&address("a", None)).as_deref(), Some("4"));
        assert_eq!(tasks.len(), 3);
    }

    #[test]
    fn it_is_short_only_of_what_someone_waits_for() {
        let mut tasks = ActivityTasks::default();
        assert!(!tasks.is_short());
        let ticket = tasks.want(address("a", None));
        tasks.keep(held("b", None, "1"));
        assert!(tasks.is_short());
        tasks.keep(held("a", None, "2"));
        assert!(!tasks.is_short());
        tasks.drop_token("2");
        assert!(tasks.is_short());
        tasks.give_up(ticket);
        assert!(!tasks.is_short());
    }
}
