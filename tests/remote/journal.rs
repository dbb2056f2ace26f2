//! An engine that is one file, and a provider of it that runs in a process of its own. The file outlives the
//! process, whatever kills it: one line per change, and the number of the line is the version.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use stateway_model::ExecutionId;
use stateway_provider_api::table::MEMORY;
use stateway_provider_api::{
    Call, Capabilities, Description, Error, ErrorKind, Health, NativeState, Observation, Provider,
    Result, Table, Verb, Version, View, WatchScope, WatchStream, Watched,
};
use stateway_provider_server::{About, Listener, ProviderServer, serve};

/// The variables that tell the process where it listens and where its engine is.
const SOCKET: &str = "STATEWAY_TEST_PROVIDER_SOCKET";
const JOURNAL: &str = "STATEWAY_TEST_PROVIDER_JOURNAL";
/// How often a watch reads the file.
const PAUSE: Duration = Duration::from_millis(2);
/// The state of an execution that the engine no longer has.
pub(super) const GONE: &str = "-";

/// Writes the journal.
pub(super) struct JournalFile(File);

impl JournalFile {
    pub(super) fn new(path: &Path) -> Self {
        Self(File::create_new(path).expect("a new file"))
    }

    pub(super) fn set(&mut self, id: &str, state: &str) {
        let line = format!("{id} {state}\n");
        self.0
            .write_all(line.as_bytes())
            .expect("the disk has room");
    }
}

/// The provider process. Dropping it kills it with SIGKILL.
pub(super) struct ProviderProcess(Child);

impl ProviderProcess {
    /// Starts this test binary again, as a provider.
    pub(super) fn start(socket: &Path, journal: &Path) -> Self {
        let program = std::env::current_exe().expect("the path of this binary");
        let child = Command::new(program)
            .args(["--ignored", "--exact", "remote::journal::provider_process"])
            .env(SOCKET, socket)
            .env(JOURNAL, journal)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("the process starts"))
    }

    /// Kills the process. It has left when this returns.
    pub(super) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.0.kill().expect("SIGKILL reaches the process");
        let ended = self.0.wait().expect("the process has ended");
        assert_eq!(ended.code(), None, "the process ended by itself: {ended}");
    }
}

impl Drop for ProviderProcess {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
    }
}

/// Not a test: what the process of [`ProviderProcess`] does.
#[test]
#[ignore = "the program that other tests start and kill"]
fn provider_process() {
    let path = |variable| PathBuf::from(std::env::var_os(variable).expect("started by a test"));
    let provider = Journal::new(path(JOURNAL));
    let server = ProviderServer::new(Arc::new(provider), About::new("journal", "1"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = Listener::unix(path(SOCKET)).expect("the socket of a killed process");
        let served = serve(listener, server.routes(), std::future::pending()).await;
        served.expect("until it is killed");
    });
}

/// Reads the journal.
struct Journal {
    path: PathBuf,
    description: Arc<Description>,
    read: Mutex<Known>,
}

/// What was read so far.
#[derive(Default)]
struct Known {
    bytes: u64,
    lines: u64,
    /// The last line of each execution, and its number.
    last: BTreeMap<String, (u64, String)>,
}

impl Journal {
    fn new(path: PathBuf) -> Self {
        let can = Capabilities {
            watch_all: true,
            watch_one: true,
            ..Capabilities::NONE
        };
        let table = Arc::new(Table::parse(MEMORY).expect("a good table"));
        Self {
            path,
            description: Description::fixed(can, table),
            read: Mutex::default(),
        }
    }

    /// The executions that changed after this line, by the line of their last change.
    fn since(&self, line: u64) -> Vec<(u64, String, String)> {
        let mut known = self.read.lock().expect("nothing panics");
        let mut file = File::open(&self.path).expect("the engine is there");
        file.seek(SeekFrom::Start(known.bytes)).expect("a file");
        let mut text = String::new();
        file.read_to_string(&mut text)
            .expect("the engine writes text");
        // The last line may be half written.
        for whole in text.split_inclusive('\n').filter(|one| one.ends_with('\n')) {
            known.bytes += whole.len() as u64;
            known.lines += 1;
            let (id, state) = whole.trim_end().split_once(' ').expect("id and state");
            let last = (known.lines, state.to_owned());
            known.last.insert(id.to_owned(), last);
        }
        let changed = known.last.iter().filter(|(_, (at, _))| *at > line);
        let changed = changed.map(|(id, (at, state))| (*at, id.clone(), state.clone()));
        let mut changed: Vec<_> = changed.collect();
        changed.sort();
        changed
    }

    fn of(&self, id: &ExecutionId) -> Result<Observation> {
        let all = self.since(0).into_iter();
        let found = all.map(item).find(|(_, item)| match item {
            Watched::Seen(seen) => seen.id == *id,
            Watched::Gone(_) | Watched::InSync => false,
        });
        match found {
            Some((_, Watched::Seen(seen))) => Ok(*seen),
            _ => Err(Error::new(ErrorKind::NotFound, Verb::Get, "unknown")),
        }
    }
}

fn item((line, id, state): (u64, String, String)) -> (u64, Watched) {
    let id = ExecutionId::new(id).expect("the test writes good ids");
    if state == GONE {
        return (line, Watched::Gone(id));
    }
    let mut seen = Observation::new(id, NativeState::new(state));
    seen.version = Some(Version::of_parts([line, 0, 0]));
    (line, Watched::seen(seen))
}

#[async_trait]
impl Provider for Journal {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        Ok(Health::default())
    }

    async fn get(&self, _: &Call, id: &ExecutionId, _: View) -> Result<Observation> {
        self.of(id)
    }

    async fn observe(&self, _: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        ids.iter().map(|id| self.of(id)).collect()
    }

    async fn watch(&self, _: &Call, scope: WatchScope) -> Result<WatchStream> {
        let only = match scope {
            WatchScope::All | WatchScope::Within(_) => None,
            WatchScope::One(id) | WatchScope::End(id) => Some(self.of(&id)?.id),
        };
        let journal = Self::new(self.path.clone());
        let batches = stream::unfold((journal, 0_u64), move |(journal, line)| {
            let only = only.clone();
            async move {
                if line > 0 {
                    tokio::time::sleep(PAUSE).await;
                }
                let changed = journal.since(line.saturating_sub(1));
                let last = changed.last().map_or(line, |(last, ..)| line.max(last + 1));
                let items = changed.into_iter().map(item).map(|(_, item)| item);
                let is_wanted = |item: &Watched| match item {
                    Watched::Seen(seen) => only.as_ref().is_none_or(|only| seen.id == *only),
                    Watched::Gone(id) => only.as_ref().is_none_or(|only| id == only),
                    Watched::InSync => true,
                };
                let mut items: Vec<_> = items.filter(is_wanted).collect();
                if line == 0 {
                    // The current set has no removals.
                    items.retain(|item| !matches!(item, Watched::Gone(_)));
                    items.push(Watched::InSync);
                }
                Some((items, (journal, last.max(1))))
            }
        });
        let items = batches.flat_map(|items| stream::iter(items.into_iter().map(Ok)));
        Ok(items.boxed())
    }
}
