//! The contract of a store, as test cases that every store passes.

mod start;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::json;
use stateway_definition::parse;
use stateway_machine::{
    Command, Data, Event, ExecutionState, Plan, State, Verb, decide, encode_into, snapshot,
};
use stateway_model::SubState;
use stateway_postgres_peer::{NEWER_VARIABLE, PostgresPeer, VARIABLE, programs};

use super::{
    Answered, Append, BEGINNING, Backend, Branch, Commit, Created, DefinitionChange, ExecutionRow,
    Forget, Hash, MemoryDisk, PostgresConfig, PostgresStore, Snapshot, SqliteFile, Status, Store,
    StoreError, Turn, link, load,
};
use crate::catalogue::Catalogue;
use crate::request::{DefinitionRecord, DisabledTrigger, ListQuery};
use crate::view::Origin;

/// A place that is gone when the test ends.
struct Place {
    backend: Box<dyn Backend>,
    /// Why a second writer is refused.
    refusal: &'static str,
    _folder: Option<tempfile::TempDir>,
}

/// The PostgreSQL servers, both of them or none. Without them the tests still run, on the other stores; then
/// `cargo xtask test --hermetic` lists these tests as left out.
fn servers() -> &'static [PostgresPeer] {
    static SERVERS: LazyLock<Vec<PostgresPeer>> = LazyLock::new(|| {
        let named = [VARIABLE, NEWER_VARIABLE].map(programs);
        let programs = both_or_none(named).unwrap_or_else(|error| panic!("{error}"));
        if programs.is_empty() {
            eprintln!("the suite of the stores runs without PostgreSQL: {VARIABLE} is not set");
        }
        programs
            .iter()
            .map(|programs| PostgresPeer::start(programs))
            .collect()
    });
    &SERVERS
}

/// A server that is missing beside another one was forgotten.
fn both_or_none(named: [Result<PathBuf, String>; 2]) -> Result<Vec<PathBuf>, String> {
    if named.iter().all(Result::is_err) {
        return Ok(Vec::new());
    }
    named.into_iter().collect()
}

#[test]
fn one_missing_server_is_an_error_and_no_server_is_none() {
    let (found, missing) = (|| Ok("bin".into()), || Err("none".to_owned()));
    assert_eq!(both_or_none([missing(), missing()]), Ok(vec![]));
    let both = vec!["bin".into(), "bin".into()];
    assert_eq!(both_or_none([found(), found()]), Ok(both));
    for named in [[found(), missing()], [missing(), found()]] {
        assert_eq!(both_or_none(named), Err("none".to_owned()));
    }
}

/// A name for tables that no other test has.
fn own_schema() -> String {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    format!("suite_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed))
}

/// Stores in PostgreSQL, each with tables of its own, where a server is installed.
fn databases() -> Vec<Place> {
    let place = |server: &PostgresPeer| {
        let schema = own_schema();
        let config = PostgresConfig::new(&server.url())
            .unwrap()
            .with_schema(&schema);
        let store = PostgresStore::new(config.unwrap(), &crate::Faults::default());
        Place {
            backend: Box::new(store.unwrap()),
            refusal: "STORE_STANDBY",
            _folder: None,
        }
    };
    servers().iter().map(place).collect()
}

impl Place {
    /// Opens the store and becomes its owner.
    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        let mut store = self.backend.open()?;
        store.own()?;
        Ok(store)
    }
}

fn places() -> Vec<Place> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = Place {
        backend: Box::new(SqliteFile::new(path, &crate::Faults::default())),
        refusal: "STORE_IN_USE",
        _folder: Some(folder),
    };
    let memory = Place {
        backend: Box::new(MemoryDisk::default()),
        refusal: "STORE_IN_USE",
        _folder: None,
    };
    let mut places = vec![file, memory];
    places.extend(databases());
    places
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

const SOURCE: &str =
    "name: gate\nsteps: [{name: a, signal: go}, {name: b, signal: go2, dependsOn: [a]}]";

fn plan() -> Arc<Plan> {
    Arc::new(Plan::new(parse(SOURCE, "gate.yaml").unwrap().definition).unwrap())
}

fn definition() -> DefinitionRecord {
    DefinitionRecord {
        name: "gate".into(),
        revision: plan().shared_revision(),
        source: SOURCE.to_owned(),
        created: at(1),
    }
}

/// An execution that is written turn by turn.
struct Story {
    origin: Arc<Origin>,
    state: State,
    hash: Hash,
}

impl Story {
    fn new(number: i64) -> Self {
        let origin = Origin {
            number,
            id: format!("e{number}").into(),
            definition: "gate".into(),
            labels: Arc::default(),
            parent: None,
            depth: 0,
            not_before: None,
            forked_from: None,
        };
        Self {
            origin: Arc::new(origin),
            state: State::new(plan()),
            hash: BEGINNING,
        }
    }

    fn tell(&mut self, verbs: Vec<Verb>) -> Append {
        let first = self.state.sequence() + 1;
        let mut lines = Vec::new();
        for verb in verbs {
            let events: Vec<Event> =
                decide(&self.state, Command::new("test", verb), at(10)).unwrap();
            for event in &events {
                self.state.apply(event);
                encode_into(event, &mut lines);
                lines.push(b'\n');
            }
        }
        self.hash = link(&self.hash, &lines);
        Append {
            number: self.origin.number,
            branch: self.state.branch(),
            first,
            lines,
            hash: self.hash,
        }
    }

    fn begin(&mut self) -> Turn {
        let append = self.tell(vec![
            Verb::Create {
                execution: Arc::clone(&self.origin.id),
                correlation: "c".into(),
                initiator: "ada".into(),
                input: Data::new(json!(1)),
                redone_by: Vec::new(),
            },
            Verb::Trigger { by: "ada".into() },
            Verb::GrantSlot,
        ]);
        Turn {
            created: vec![Created {
                origin: Arc::clone(&self.origin),
                revision: self.state.plan().shared_revision(),
                at: at(10),
                status: self.status(None),
            }],
            appends: vec![append],
            ..Turn::default()
        }
    }

    fn signal(&mut self, name: &str) -> Turn {
        let append = self.tell(vec![Verb::SendSignal {
            name: name.into(),
            id: name.into(),
            payload: Data::new(json!(name)),
            by: "ada".into(),
        }]);
        Turn {
            appends: vec![append],
            statuses: vec![(self.origin.number, self.status(None))],
            ..Turn::default()
        }
    }

    fn status(&self, wake_at: Option<Timestamp>) -> Status {
        Status {
            wake_at,
            ..Status::of(&self.state, &crate::store::OpenWork::default())
        }
    }
}

fn with_definition(store: &mut dyn Store) {
    let turn = Turn {
        definitions: vec![DefinitionChange::Applied(definition())],
        ..Turn::default()
    };
    commit(store, &turn);
}

fn commit(store: &mut dyn Store, turn: &Turn) {
    store.commit(turn).result().unwrap();
}

fn remove(store: &mut dyn Store, number: i64) {
    let turn = Turn {
        removed: vec![number],
        ..Turn::default()
    };
    commit(store, &turn);
}

fn read_back(store: &dyn Store, number: i64) -> State {
    let kept: ExecutionRow = store.kept(number).unwrap().unwrap();
    load(store, kept, &Catalogue::default()).unwrap().state
}

#[test]
fn what_was_written_is_there_after_a_reopening() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut story = Story::new(1);
        commit(&mut *store, &story.begin());
        commit(&mut *store, &story.signal("go"));
        drop(store);
        let store = place.open().unwrap();
        assert_eq!(store.last_number().unwrap(), 1);
        assert_eq!(read_back(&*store, 1), story.state);
    }
}

#[test]
fn a_turn_that_fails_leaves_nothing() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut story = Story::new(1);
        let begin = story.begin();
        commit(&mut *store, &begin);
        // Another execution, and an append at a sequence that is taken: the whole turn is refused.
        let mut other = Story::new(2);
        let mut turn = other.begin();
        turn.appends.extend(begin.appends);
        assert!(matches!(store.commit(&turn), Commit::Conflict(_)));
        store.own().unwrap();
        assert!(store.kept(2).unwrap().is_none());
        assert_eq!(read_back(&*store, 1), story.state);
    }
}

#[test]
fn there_is_one_writer_and_readers_beside_it_see_what_is_committed() {
    for place in places() {
        let mut store = place.open().unwrap();
        assert_eq!(place.open().unwrap_err().reason(), place.refusal);
        let reader = place.backend.reader().unwrap();
        with_definition(&mut *store);
        commit(&mut *store, &Story::new(7).begin());
        assert_eq!(reader.number_of("e7").unwrap(), Some(7));
        assert_eq!(reader.number_of("e8").unwrap(), None);
    }
}

#[test]
fn lists_are_newest_first_and_narrowed_by_what_is_asked() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        for number in 1..=5 {
            let mut story = Story::new(number);
            commit(&mut *store, &story.begin());
            if number % 2 == 0 {
                commit(&mut *store, &story.signal("go"));
                commit(&mut *store, &story.signal("go2"));
            }
        }
        let numbers = |query: &ListQuery| -> Vec<i64> {
            let rows = store.list(query).unwrap();
            rows.iter().map(|kept| kept.origin.number).collect()
        };
        let all = ListQuery {
            limit: 3,
            ..ListQuery::default()
        };
        assert_eq!(numbers(&all), [5, 4, 3]);
        let rest = ListQuery {
            before: Some(3),
            ..all.clone()
        };
        assert_eq!(numbers(&rest), [2, 1]);
        let done = ListQuery {
            sub_states: vec![SubState::Succeeded],
            ..all.clone()
        };
        assert_eq!(numbers(&done), [4, 2]);
        assert_eq!(store.showing(SubState::Succeeded, 100).unwrap(), 2);
        assert_eq!(store.showing(SubState::Waiting, 100).unwrap(), 3);
        assert_eq!(store.showing(SubState::Waiting, 2).unwrap(), 2);
        assert_eq!(store.showing(SubState::Failed, 100).unwrap(), 0);
        let open = ListQuery {
            states: vec![ExecutionState::AwaitingSignal],
            definition: Some("gate".into()),
            ..all.clone()
        };
        assert_eq!(numbers(&open), [5, 3, 1]);
        let other = ListQuery {
            definition: Some("other".into()),
            ..all
        };
        assert_eq!(numbers(&other), [0; 0]);
        let begun: Vec<_> = [1, 3, 5].map(|number| ("gate".into(), number)).into();
        let mut found = store.begun().unwrap();
        found.sort();
        assert_eq!(found, begun);
    }
}

#[test]
fn what_is_due_comes_in_the_order_of_its_time() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        for (number, wake) in [
            (1, Some(30)),
            (2, Some(0)),
            (3, None),
            (4, Some(20)),
            (5, Some(99)),
        ] {
            let mut story = Story::new(number);
            let mut turn = story.begin();
            turn.created[0].status = story.status(wake.map(at));
            commit(&mut *store, &turn);
        }
        let due = |after, limit| -> Vec<i64> {
            let rows = store.due(at(30), after, limit).unwrap();
            rows.iter().map(|kept| kept.origin.number).collect()
        };
        assert_eq!(due((None, 0), 10), [2, 4, 1]);
        assert_eq!(due((None, 0), 1), [2]);
        assert_eq!(due((Some(at(20)), 4), 10), [1]);
        assert_eq!(store.next_wake(at(30)).unwrap(), Some(at(99)));
        assert_eq!(store.next_wake(at(99)).unwrap(), None);
    }
}

#[test]
fn a_branch_goes_on_from_its_cutoff_even_inside_a_row() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut story = Story::new(1);
        commit(&mut *store, &story.begin());
        let cutoff = story.state.sequence() - 1;
        let whole = story.hash;
        let mut events = Vec::new();
        let mut collect = |row: super::LogRow<'_>| {
            events.extend(row.events(1)?);
            Ok(true)
        };
        store.walk(1, 0, 0, &mut collect).unwrap();
        events.truncate(usize::try_from(cutoff).unwrap());
        let state = stateway_machine::replay(plan(), &events).unwrap();
        let mut branch = Story {
            origin: Arc::clone(&story.origin),
            state,
            hash: whole,
        };
        let append = branch.tell(vec![Verb::OpenBranch {
            branch: 1,
            cutoff,
            by: "ada".into(),
            redo: None,
            reopened: None,
            spent: stateway_model::Usage::default(),
            spent_by_step: std::collections::BTreeMap::new(),
        }]);
        let lineage = Branch {
            number: 1,
            branch: 1,
            parent: 0,
            cutoff,
        };
        let turn = Turn {
            appends: vec![append],
            branches: vec![lineage],
            statuses: vec![(1, branch.status(None))],
            ..Turn::default()
        };
        commit(&mut *store, &turn);
        assert_eq!(read_back(&*store, 1), branch.state);
        assert_eq!(store.branches(1).unwrap(), [lineage]);
        // The old branch is as it was.
        let mut count = 0;
        let mut each = |row: super::LogRow<'_>| {
            count += row.events(1)?.len();
            Ok(true)
        };
        store.walk(1, 0, 0, &mut each).unwrap();
        assert_eq!(count as u64, story.state.sequence());
    }
}

#[test]
fn a_snapshot_shortens_a_replay_and_gives_the_same_state() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut story = Story::new(1);
        commit(&mut *store, &story.begin());
        let mut turn = story.signal("go");
        turn.snapshots.push(Snapshot {
            number: 1,
            branch: 0,
            sequence: story.state.sequence(),
            revision: story.state.plan().shared_revision(),
            hash: story.hash,
            data: snapshot(&story.state),
        });
        commit(&mut *store, &turn);
        commit(&mut *store, &story.signal("go2"));
        let kept = store.kept(1).unwrap().unwrap();
        let loaded = load(&*store, kept, &Catalogue::default()).unwrap();
        assert_eq!(loaded.state, story.state);
        assert!(loaded.since_snapshot < 5, "{}", loaded.since_snapshot);
    }
}

#[test]
fn requests_are_remembered_and_forgotten_in_the_order_they_came() {
    for place in places() {
        let mut store = place.open().unwrap();
        let answered = |id: &str, when: i64| Answered {
            id: id.into(),
            body: [3; 16],
            number: 9,
            at: at(when),
        };
        let turn = Turn {
            requests: vec![answered("old", 1), answered("new", 100)],
            ..Turn::default()
        };
        commit(&mut *store, &turn);
        // A recovery may have to write a row again.
        let again = Turn {
            requests: vec![Answered {
                number: 10,
                ..answered("old", 2)
            }],
            ..Turn::default()
        };
        commit(&mut *store, &again);
        assert_eq!(store.answered("old").unwrap().unwrap().number, 10);
        // The row that was written again comes last.
        assert!(store.has_requests_before(at(101)).unwrap());
        assert!(!store.has_requests_before(at(100)).unwrap());
        let forget = Turn {
            forgotten: Some(Forget {
                before: at(50),
                limit: 10,
            }),
            ..Turn::default()
        };
        commit(&mut *store, &forget);
        assert!(store.answered("old").unwrap().is_none());
        assert!(store.answered("new").unwrap().is_some());
    }
}

#[test]
fn removing_one_execution_leaves_the_others() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut stories: Vec<Story> = (1..=2).map(Story::new).collect();
        for story in &mut stories {
            commit(&mut *store, &story.begin());
            commit(&mut *store, &story.signal("go"));
            commit(&mut *store, &story.signal("go2"));
        }
        assert_eq!(store.ended(at(10), None, 10).unwrap(), [0; 0]);
        assert_eq!(store.ended(at(11), None, 10).unwrap(), [1, 2]);
        remove(&mut *store, 1);
        assert!(store.kept(1).unwrap().is_none());
        assert_eq!(read_back(&*store, 2), stories[1].state);
        assert!(
            store
                .log(0, 100)
                .unwrap()
                .iter()
                .all(|record| &*record.execution == "e2")
        );
    }
}

#[test]
fn definitions_keep_every_revision_and_one_is_current() {
    for place in places() {
        let mut store = place.open().unwrap();
        let record = |revision: &str, when| DefinitionRecord {
            name: "d".into(),
            revision: revision.into(),
            source: format!("source of {revision}"),
            created: at(when),
        };
        for (revision, when) in [("r1", 1), ("r2", 2), ("r1", 3)] {
            let turn = Turn {
                definitions: vec![DefinitionChange::Applied(record(revision, when))],
                ..Turn::default()
            };
            commit(&mut *store, &turn);
        }
        assert_eq!(store.definition("d", None).unwrap(), Some(record("r1", 1)));
        assert_eq!(
            store.definition("d", Some("r2")).unwrap(),
            Some(record("r2", 2))
        );
        assert_eq!(
            store.revisions("d").unwrap(),
            [record("r2", 2), record("r1", 1)]
        );
        assert_eq!(store.definitions("", 10).unwrap(), [record("r1", 1)]);
        assert_eq!(store.definition("e", None).unwrap(), None);
    }
}

#[test]
fn a_deleted_definition_keeps_its_revisions_while_an_execution_needs_them() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let revision = definition().revision;
        let mut story = Story::new(1);
        // The execution is written in the turn that deletes its definition.
        let mut turn = story.begin();
        turn.definitions = vec![DefinitionChange::Deleted("gate".into())];
        commit(&mut *store, &turn);
        assert_eq!(store.definition("gate", None).unwrap(), None);
        assert!(store.definitions("", 10).unwrap().is_empty());
        assert!(store.source(&revision).unwrap().is_some());
        assert_eq!(store.open_executions("gate").unwrap(), 1);
        assert_eq!(store.open_executions("other").unwrap(), 0);
        remove(&mut *store, 1);
        assert_eq!(store.source(&revision).unwrap(), None);
        assert!(store.revisions("gate").unwrap().is_empty());
    }
}

#[test]
fn a_definition_that_nothing_needs_is_gone_when_it_is_deleted_and_can_be_applied_again() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let change = |definitions| Turn {
            definitions,
            ..Turn::default()
        };
        let deleted = || DefinitionChange::Deleted("gate".into());
        commit(&mut *store, &change(vec![deleted()]));
        assert!(store.revisions("gate").unwrap().is_empty());
        let applied = || DefinitionChange::Applied(definition());
        commit(&mut *store, &change(vec![applied()]));
        // In one turn, the last change counts.
        commit(&mut *store, &change(vec![deleted(), applied()]));
        assert_eq!(store.definition("gate", None).unwrap(), Some(definition()));
        commit(&mut *store, &change(vec![applied(), deleted()]));
        assert_eq!(store.definition("gate", None).unwrap(), None);
    }
}

#[test]
fn a_disabled_trigger_is_remembered_until_it_is_enabled_or_its_definition_deleted() {
    for place in places() {
        let mut store = place.open().unwrap();
        let disabled = DisabledTrigger {
            by: "ada".into(),
            at: at(5),
            comment: "maintenance".into(),
        };
        let disable = |name: &str| DefinitionChange::TriggerDisabled(name.into(), disabled.clone());
        let turn = |definitions| Turn {
            definitions,
            ..Turn::default()
        };
        let all = vec![disable("a"), disable("b"), disable("c")];
        commit(&mut *store, &turn(all));
        let gone = vec![
            DefinitionChange::TriggerEnabled("a".into()),
            DefinitionChange::Deleted("c".into()),
        ];
        commit(&mut *store, &turn(gone));
        let left = store.disabled_triggers().unwrap();
        assert_eq!(left, [("b".into(), disabled.clone())]);
    }
}

#[test]
fn a_place_in_the_log_is_never_given_twice() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut first = Story::new(1);
        commit(&mut *store, &first.begin());
        commit(&mut *store, &first.signal("go"));
        let last = store.last_position();
        assert_eq!(store.log(0, 100).unwrap().last().unwrap().position, last);
        remove(&mut *store, 1);
        drop(store);
        let mut store = place.open().unwrap();
        assert_eq!(store.last_position(), last);
        commit(&mut *store, &Story::new(2).begin());
        assert_eq!(store.log(last, 100).unwrap()[0].position, last + 1);
    }
}

#[test]
fn executions_with_events_that_someone_needs_are_told_apart() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut stories: Vec<Story> = (1..=2).map(Story::new).collect();
        let mut ends = Vec::new();
        for story in &mut stories {
            commit(&mut *store, &story.begin());
            commit(&mut *store, &story.signal("go"));
            commit(&mut *store, &story.signal("go2"));
            ends.push(store.last_position());
        }
        for (needed, ended, held_back) in [
            (Some(ends[0] - 1), vec![], 2),
            (Some(ends[0]), vec![1], 1),
            (Some(ends[1]), vec![1, 2], 0),
        ] {
            assert_eq!(store.ended(at(11), needed, 10).unwrap(), ended);
            let counted = store.held_back(at(11), needed.unwrap(), 10).unwrap();
            assert_eq!(counted, held_back);
        }
        assert_eq!(store.held_back(at(11), 0, 1).unwrap(), 1);
        assert!(store.has_events_after(1, ends[0] - 1).unwrap());
        assert!(!store.has_events_after(1, ends[0]).unwrap());
    }
}

#[test]
fn a_receiver_of_events_is_remembered_where_it_was() {
    for place in places() {
        let mut store = place.open().unwrap();
        assert_eq!(store.sink_position("s").unwrap(), None);
        for position in [3, 7] {
            let turn = Turn {
                sinks: vec![("s".into(), position)],
                ..Turn::default()
            };
            commit(&mut *store, &turn);
        }
        assert_eq!(store.sink_position("s").unwrap(), Some(7));
    }
}

#[test]
fn nothing_is_found_by_a_text_with_a_zero_byte_except_what_is_stored_with_it() {
    for place in places() {
        let mut store = place.open().unwrap();
        with_definition(&mut *store);
        let mut story = Story::new(1);
        let origin = Arc::get_mut(&mut story.origin).unwrap();
        origin.labels = Arc::new([("k\0".to_owned(), "v\0".to_owned())].into());
        commit(&mut *store, &story.begin());
        let request = Answered {
            id: "r\0".into(),
            body: [7; 16],
            number: 1,
            at: at(10),
        };
        let turn = Turn {
            requests: vec![request.clone()],
            ..Turn::default()
        };
        commit(&mut *store, &turn);
        let listed = |definition: Option<&str>, labels: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let query = ListQuery {
                definition: definition.map(str::to_owned),
                labels: labels.iter().map(owned).collect(),
                limit: 10,
                ..ListQuery::default()
            };
            store.list(&query).unwrap().len()
        };
        for text in ["\0", "e1\0", "\0e1", "gate\0", "gate\0e1"] {
            assert_eq!(store.number_of(text).unwrap(), None);
            assert!(store.listed(text).unwrap().is_none());
            assert_eq!(store.open_executions(text).unwrap(), 0);
            assert!(store.forks(text, 10).unwrap().is_empty());
            assert_eq!(store.definition(text, None).unwrap(), None);
            assert_eq!(store.definition("gate", Some(text)).unwrap(), None);
            assert_eq!(store.source(text).unwrap(), None);
            assert!(store.revisions(text).unwrap().is_empty());
            assert_eq!(store.last_scheduled(text).unwrap(), None);
            assert_eq!(store.sink_position(text).unwrap(), None);
            assert!(store.answered(text).unwrap().is_none());
            assert_eq!(listed(Some(text), &[]), 0);
            assert_eq!(listed(Some(text), &[("k\0", "v\0")]), 0);
            assert_eq!(listed(None, &[(text, text)]), 0);
        }
        assert_eq!(listed(Some("gate"), &[("k\0", "v\0")]), 1);
        let answered = store.answered("r\0").unwrap().unwrap();
        assert_eq!((answered.id, answered.body), (request.id, request.body));
        assert_eq!(store.definitions("gat\0x", 10).unwrap(), [definition()]);
        assert_eq!(store.definitions("gate\0", 10).unwrap(), []);
    }
}

/// A log with three branches, of rows that name their branch and first sequence.
fn branched() -> Turn {
    let row = |branch: u32, first: u64| Append {
        number: 1,
        branch,
        first,
        lines: format!("{branch}/{first}\n").into_bytes(),
        hash: [u8::try_from(first).unwrap(); 16],
    };
    let grown = |branch, parent, cutoff| Branch {
        number: 1,
        branch,
        parent,
        cutoff,
    };
    Turn {
        appends: vec![
            row(0, 1),
            row(0, 4),
            row(0, 6),
            row(1, 5),
            row(1, 9),
            row(2, 3),
            row(3, 8),
        ],
        branches: vec![grown(1, 0, 4), grown(2, 1, 2), grown(3, 1, 7)],
        ..Turn::default()
    }
}

#[test]
fn a_log_is_read_along_its_lineage_or_branch_after_branch() {
    for place in places() {
        let mut store = place.open().unwrap();
        commit(&mut *store, &branched());
        let text = |row: &super::LogRow<'_>| String::from_utf8(row.lines.to_vec()).unwrap();
        let walked = |branch, after| {
            let mut found = String::new();
            let mut each = |row: super::LogRow<'_>| {
                found.push_str(&text(&row));
                Ok(true)
            };
            store.walk(1, branch, after, &mut each).unwrap();
            found
        };
        assert_eq!(walked(0, 0), "0/1\n0/4\n0/6\n");
        assert_eq!(walked(1, 0), "0/1\n0/4\n1/5\n1/9\n");
        // Branch 2 leaves branch 1 before branch 1 leaves branch 0: no row of branch 1 counts.
        assert_eq!(walked(2, 0), "0/1\n2/3\n");
        assert_eq!(walked(3, 0), "0/1\n0/4\n1/5\n3/8\n");
        assert_eq!(walked(3, 4), "1/5\n3/8\n");
        assert_eq!(walked(3, 7), "3/8\n");

        let from = |branch, sequence| {
            let mut found = String::new();
            let mut each = |row: super::LogRow<'_>| {
                found.push_str(&text(&row));
                Ok(row.branch < 3)
            };
            store.chronicle(1, (branch, sequence), &mut each).unwrap();
            found
        };
        assert_eq!(from(0, 7), "0/6\n1/5\n1/9\n2/3\n3/8\n");
        assert_eq!(from(1, 5), "1/5\n1/9\n2/3\n3/8\n");
        assert_eq!(from(2, 1), "2/3\n3/8\n");

        let back = |branch, sequence| {
            let mut found = String::new();
            let mut each = |row: super::LogRow<'_>| {
                found.push_str(&text(&row));
                Ok(row.branch > 0)
            };
            store
                .chronicle_back(1, (branch, sequence), &mut each)
                .unwrap();
            found
        };
        assert_eq!(back(u32::MAX, u64::MAX), "3/8\n2/3\n1/9\n1/5\n0/6\n");
        assert_eq!(back(1, 9), "1/5\n0/6\n");
        assert_eq!(back(1, 5), "0/6\n");
        assert_eq!(back(0, 6), "0/4\n");
        assert_eq!(back(0, 1), "");

        let starts = (0..10).map(|after| store.row_start(1, 1, after).unwrap());
        assert_eq!(starts.collect::<Vec<_>>(), [0, 0, 0, 3, 4, 4, 4, 4, 8, 8]);
        assert_eq!(store.head(1).unwrap(), Some((3, [8; 16])));
        assert_eq!(store.head(2).unwrap(), None);
        assert_eq!(store.recent(3).unwrap(), [1]);
    }
}
