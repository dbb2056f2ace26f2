//! The examples.

use futures::future::BoxFuture;
use stateway_client::{Client, Worker};

use crate::Outcome;
use crate::stage::Verdict;

#[path = "../agent-correction/worker.rs"]
mod agent_correction;
#[path = "../fan-out/worker.rs"]
mod fan_out;
#[path = "../nightly/worker.rs"]
mod nightly;
#[path = "../order-saga/worker.rs"]
mod order_saga;
#[path = "../release-approval/worker.rs"]
mod release_approval;

/// What a person does about an execution.
pub type Person = fn(Client, String) -> BoxFuture<'static, Outcome<()>>;

/// One example.
pub struct Example {
    /// Its name, and that of its folder.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The definitions it needs; the last one is started.
    pub definitions: &'static [&'static str],
    /// What it is started with, as JSON.
    pub input: &'static str,
    /// Who does the work.
    pub worker: fn(&str) -> Worker,
    /// What a person does meanwhile.
    pub person: Option<Person>,
    /// Whether steps run side by side, so that their order is not the same every time.
    pub parallel: bool,
    /// What it comes to.
    pub golden: &'static str,
    /// Where that is written down.
    pub golden_path: &'static str,
}

macro_rules! folder {
    ($file:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/", $file)
    };
}

/// All of them.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "order-saga",
        about: "an order whose delivery fails is undone, newest step first",
        definitions: &[include_str!(folder!("order-saga/order-saga.yaml"))],
        input: r#"{"order":"o-17","amount":4200,"address":"the moon"}"#,
        worker: order_saga::worker,
        person: None,
        parallel: false,
        golden: include_str!(folder!("order-saga/trajectory.txt")),
        golden_path: folder!("order-saga/trajectory.txt"),
    },
    Example {
        name: "release-approval",
        about: "a release waits for a person, who is not the one who asked for it",
        definitions: &[include_str!(folder!("release-approval/release.yaml"))],
        input: r#"{"version":"1.4.0"}"#,
        worker: release_approval::worker,
        person: Some(release_approval::person),
        parallel: false,
        golden: include_str!(folder!("release-approval/trajectory.txt")),
        golden_path: folder!("release-approval/trajectory.txt"),
    },
    Example {
        name: "fan-out",
        about: "six images side by side, some of which need more than one attempt",
        definitions: &[include_str!(folder!("fan-out/fan-out.yaml"))],
        input: r#"{"album":"a-1"}"#,
        worker: fan_out::worker,
        person: None,
        parallel: true,
        golden: include_str!(folder!("fan-out/trajectory.txt")),
        golden_path: folder!("fan-out/trajectory.txt"),
    },
    Example {
        name: "agent-correction",
        about: "an agent's answer does not fit its schema; it is told why and corrects it",
        definitions: &[include_str!(folder!("agent-correction/brief.yaml"))],
        input: r#"{"topic":"durable execution"}"#,
        worker: agent_correction::worker,
        person: None,
        parallel: false,
        golden: include_str!(folder!("agent-correction/trajectory.txt")),
        golden_path: folder!("agent-correction/trajectory.txt"),
    },
    Example {
        name: "nightly",
        about: "a nightly run whose parts are executions of their own",
        definitions: &[
            include_str!(folder!("nightly/import.yaml")),
            include_str!(folder!("nightly/nightly.yaml")),
        ],
        input: r#"{"scheduledTime":"2026-11-16T02:00:00Z"}"#,
        worker: nightly::worker,
        person: None,
        parallel: true,
        golden: include_str!(folder!("nightly/trajectory.txt")),
        golden_path: folder!("nightly/trajectory.txt"),
    },
];

impl Example {
    /// Compares what it came to with what it is known to come to.
    #[must_use]
    pub fn judge(&self, trajectory: &str, bless: bool) -> Verdict {
        if bless && std::fs::write(self.golden_path, trajectory).is_ok() {
            return Verdict::Blessed;
        }
        match trajectory == self.golden {
            true => Verdict::Same,
            false => Verdict::Other,
        }
    }
}
