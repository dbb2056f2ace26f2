//! The campaign inside Restate.

use std::path::Path;
use std::process::Command;

use stateway_provider_api::Provider;
use stateway_provider_api::table::compiled_in;
use stateway_provider_restate::{HostConfig, hosted_provider};

use crate::campaign::{self, Engine};
use crate::hosts::{Stage, begin_gateway, begin_host};
use crate::lab::Lab;
use crate::process::post;

struct Restate<'l> {
    lab: &'l mut Lab,
    stage: Stage,
}

pub(crate) fn many_executions(lab: &mut Lab) {
    let stage = Stage::new(lab);
    campaign::run(&mut Restate { lab, stage });
}

impl Engine for Restate<'_> {
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
        let (admin, ingress) = self.lab.api_ports();
        let mut config = HostConfig::default();
        config.admin.url = format!("http://127.0.0.1:{admin}");
        config.ingress.url = format!("http://127.0.0.1:{ingress}");
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
        self.lab.server.kill();
    }

    fn begin_server(&mut self) {
        self.lab.restart_server();
    }

    /// Invocations that Restate has paused.
    fn count_given_up(&self) -> u64 {
        let (admin, _) = self.lab.api_ports();
        let query = "{\"query\":\"select count(*) as n from sys_invocation where status = 'paused' and target_service_name like 'stateway.%'\"}";
        let (status, answer) = post(admin, "/query", query).unwrap();
        assert_eq!(status, 200, "{answer}");
        let count = answer.split("\"n\":").nth(1).unwrap();
        let count: String = count.chars().take_while(char::is_ascii_digit).collect();
        count.parse().unwrap()
    }
}
