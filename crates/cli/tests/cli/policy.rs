//! Policy rules in the configuration file: checked by `config check`, recorded for good by `serve`.

use std::path::Path;

use crate::binary::{Answer, PATIENCE, Running, command, finish};

const DEPLOY: &str = "\
name: deploy
steps:
  - {name: promote, agent: deployer, timeout: 5m}
";

const NO_RULES: &str = "[providers.builtin]\nkind = \"builtin\"\npath = \"store.db\"\n";

const RULE: &str = r#"
[[providers.builtin.policy]]
name = "sign-off"
when = 'step = "promote"'
decision = "require-approval"
role = "managers"
"#;

/// A gateway in a directory that outlives it.
struct Server {
    process: Running,
    url: String,
}

impl Server {
    fn start(directory: &Path, config: &str) -> Self {
        std::fs::write(directory.join("stateway.toml"), config).unwrap();
        let mut serve = command(directory);
        let process = Running::begin(serve.args(["serve", "--listen", "127.0.0.1:0"]));
        let ready = process.line("stateway is listening on http://");
        let mut words = ready.split_whitespace();
        let url = words.find(|word| word.starts_with("http://")).unwrap();
        let url = url.to_owned();
        Self { process, url }
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Answer {
        let mut asked = command(directory);
        finish(asked.env("STATEWAY_SERVER", &self.url).args(arguments), "")
    }

    fn worker(&self, directory: &Path) -> Running {
        let mut worker = command(directory);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = "echo $STATEWAY_EXECUTION >> done.log; echo 1";
        worker
            .env("STATEWAY_SERVER", &self.url)
            .env("PATH", path)
            .args(["worker", "--role", "deployer", "--exec", program]);
        Running::begin(&mut worker)
    }

    /// The names of the approvals that wait for a decision, once there is one.
    #[track_caller]
    fn approval(&self, directory: &Path) -> String {
        let begin = std::time::Instant::now();
        loop {
            let listed = self.run(directory, &["approvals", "list", "-o", "json"]);
            let listed = listed.exits(0).json();
            if let Some(name) = listed["approvals"][0]["name"].as_str() {
                return name.to_owned();
            }
            assert!(begin.elapsed() < PATIENCE, "{listed}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_decision_outlives_a_kill_and_the_rule_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("deploy.yaml"), DEPLOY).unwrap();
    let server = Server::start(at, &format!("{NO_RULES}{RULE}"));
    server
        .run(at, &["definitions", "apply", "deploy.yaml"])
        .exits(0);
    let worker = server.worker(at);
    let start = |server: &Server, id: &str| {
        let arguments = ["start", "definitions/deploy", "--id", id, "--as", "ada"];
        server.run(at, &arguments).exits(0);
    };
    start(&server, "d1");
    let asked = server.approval(at);
    server.process.signal("-KILL");
    drop((worker, server));

    let server = Server::start(at, NO_RULES);
    let _worker = server.worker(at);
    start(&server, "d2");
    let wait = ["wait", "builtin/d2", "--timeout", "10s"];
    server.run(at, &wait).exits(0);
    assert_eq!(server.approval(at), asked, "the first one still waits");
    let done = || std::fs::read_to_string(at.join("done.log")).unwrap();
    assert_eq!(done(), "providers/builtin/executions/d2\n");

    let grant = [
        "approvals",
        "grant",
        &asked,
        "--as",
        "bea",
        "--role",
        "managers",
    ];
    server.run(at, &grant).exits(0);
    let wait = ["wait", "builtin/d1", "--timeout", "10s"];
    server.run(at, &wait).exits(0);
    assert!(done().ends_with("/d1\n"), "{}", done());
    let history = server.run(at, &["history", "builtin/d1"]).exits(0).out;
    let decided = "policy rule sign-off requires an approval by managers";
    assert_eq!(history.matches(decided).count(), 1, "{history}");
}

#[test]
fn a_mistake_in_a_rule_is_reported_with_its_place_and_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = RULE.replace("step =", "setp =");
    std::fs::write(
        folder.path().join("wrong.toml"),
        format!("{NO_RULES}{wrong}"),
    )
    .unwrap();
    let arguments = ["config", "check", "wrong.toml"];
    let answer = finish(command(folder.path()).args(arguments), "").exits(2);
    let place = "wrong.toml:7:8: `when`: `setp` is not a field at column 1 (Did you mean `step`?";
    assert!(answer.err.contains(place), "{}", answer.err);
    std::fs::write(folder.path().join("good.toml"), format!("{NO_RULES}{RULE}")).unwrap();
    let arguments = ["config", "check", "good.toml"];
    let answer = finish(command(folder.path()).args(arguments), "").exits(0);
    assert!(answer.out.contains("sign-off"), "{}", answer.out);
}
