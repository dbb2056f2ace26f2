//! The campaign inside Temporal.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stateway_provider_api::Provider;
use stateway_provider_api::table::compiled_in;
use stateway_provider_temporal::{HostConfig, hosted_provider};

use crate::campaign::{self, Engine};
use crate::hosts::{Stage, begin_gateway, begin_host};
use crate::temporal::{Namespace, Peers};

struct Temporal {
    stage: Stage,
}

pub(crate) fn many_executions(peers: &Peers) {
    let stage = Stage::new(peers);
    campaign::run(&mut Temporal { stage });
}

impl Engine for Temporal {
    fn folder(&self) -> &Path {
        self.stage.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.stage.command(arguments)
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.stage.run(arguments)
    }

    fn provider(&self) -> Box<dyn Provider> {
        let mut config = HostConfig::at(self.stage.server.address());
        config.host.task_queue = "flows".to_owned();
        Box::new(hosted_provider(&config, compiled_in("builtin").unwrap()).unwrap())
    }

    fn kill_host(&mut self) {
        self.stage.host.kill();
    }

    fn begin_host(&mut self) {
        self.stage.host = begin_host(self.stage.folder.path());
    }

    fn kill_gateway(&mut self) {
        self.stage.gateway.kill();
    }

    fn begin_gateway(&mut self) {
        let port = self.stage.url.rsplit(':').next().unwrap().parse().unwrap();
        self.stage.gateway = begin_gateway(self.stage.folder.path(), port);
    }

    fn kill_server(&mut self) {
        self.stage.server.kill();
    }

    fn begin_server(&mut self) {
        self.stage.server.restart();
    }

    /// Workflows of executions that are paused or closed: the workflow of an execution stays open.
    fn count_given_up(&self) -> u64 {
        let namespace = Namespace::of(&self.stage.server, "default");
        let count = |status: &str| -> u64 {
            let query = format!("WorkflowType='stateway.Execution'ANDExecutionStatus{status}");
            let query = query.replace("AND", "%20AND%20").replace('\'', "%27");
            let query = query.replace('=', "%3D").replace('!', "%21");
            let path = format!("workflow-count?query={query}");
            let (status, answer) = namespace.call("GET", &path, &Value::Null);
            assert_eq!(status, 200, "{answer}");
            // Without any the field is left out.
            let count = answer["count"].as_str().unwrap_or("0");
            count.parse().unwrap()
        };
        assert!(count("='Running'") > 0, "the query finds nothing");
        count("!='Running'")
    }
}
