//! The list of the examples.

use futures::future::BoxFuture;
use stateway_client::{Client, Worker};

use crate::stage::Verdict;
use crate::{Outcome, person};

#[path = "../agent-correction/worker.rs"]
#[allow(dead_code, reason = "the program of its own")]
mod agent_correction;
#[path = "../fan-out/worker.rs"]
#[allow(dead_code, reason = "the program of its own")]
mod fan_out;
#[path = "../nightly/worker.rs"]
#[allow(dead_code, reason = "the program of its own")]
mod nightly;
#[path = "../order-saga/worker.rs"]
#[allow(dead_code, reason = "the program of its own")]
mod order_saga;
#[path = "../release-approval/worker.rs"]
#[allow(dead_code, reason = "the program of its own")]
mod release_approval;

/// The actions of a person during an execution.
pub type Person = fn(Client, String) -> BoxFuture<'static, Outcome<()>>;

/// One example.
pub struct Example {
    /// The name of the example and of its folder.
    pub name: &'static str,
    /// What the example shows, in one line.
    pub about: &'static str,
    /// The definitions to apply. The last definition is started.
    pub definitions: &'static [&'static str],
    /// The input of the execution, as JSON.
    pub input: &'static str,
    /// The worker, by the address of the gateway.
    pub worker: fn(&str) -> Worker,
    /// The person who decides, if the example needs a decision.
    pub person: Option<Person>,
    /// Whether steps run in parallel, so that their order differs between runs.
    pub parallel: bool,
    /// The expected trajectory.
    pub golden: &'static str,
    /// The file with the expected trajectory.
    pub golden_path: &'static str,
}

macro_rules! folder {
    ($file:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/", $file)
    };
}

/// All examples.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "order-saga",
        about: "an order whose delivery fails is rolled back, last completed step first",
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
        about: "a release waits for the approval of a person who did not start it",
        definitions: &[include_str!(folder!("release-approval/release.yaml"))],
        input: r#"{"version":"1.4.0"}"#,
        worker: release_approval::worker,
        person: Some(person::release_manager),
        parallel: false,
        golden: include_str!(folder!("release-approval/trajectory.txt")),
        golden_path: folder!("release-approval/trajectory.txt"),
    },
    Example {
        name: "fan-out",
        about: "six images are resized in parallel; some need more than one attempt",
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
        about: "an agent's output does not match its schema; the agent gets feedback and corrects it",
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
        about: "a nightly run starts a child execution for each source",
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
    /// Compares a trajectory with the expected one, or with `bless` saves it as the expected one.
    #[must_use]
    pub fn judge(&self, trajectory: &str, bless: bool) -> Verdict {
        if bless && std::fs::write(self.golden_path, trajectory).is_ok() {
            return Verdict::Blessed;
        }
        if trajectory == self.golden {
            Verdict::Same
        } else {
            Verdict::Other
        }
    }
}
