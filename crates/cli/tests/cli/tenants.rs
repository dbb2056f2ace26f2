//! A gateway with keys of several tenants: what one of them gets to see, and the advice that callers with keys get.

use std::path::Path;

use crate::binary::{Answer, PATIENCE, Running, command, finish};
use crate::tls::serve;

const CONFIG: &str = r#"
[audit]
file = "audit.jsonl"

[authentication.api_keys]
file = "keys.json"

[[access.rules]]
name = "admins"
who = { role = "admin" }
may = "admin"

[[access.rules]]
name = "tenants"
who = { role = "member" }
may = "developer"
where = "labels.tenant = caller.tenant"

[providers.builtin]
kind = "builtin"
path = "store.db"
"#;

const RELEASE: &str = "name: release\nsteps:\n  - name: sign-off\n    approval: {role: ops}\n";

struct Tenants {
    folder: tempfile::TempDir,
    url: String,
    _gateway: Running,
}

/// A gateway with these keys: name, role and tenant.
fn tenants(keys: &[(&str, &str, &str)]) -> Tenants {
    let folder = tempfile::tempdir().unwrap();
    for (name, role, tenant) in keys {
        create(folder.path(), name, role, tenant);
    }
    let (gateway, url) = serve(folder.path(), CONFIG);
    Tenants {
        folder,
        url,
        _gateway: gateway,
    }
}

fn create(folder: &Path, name: &str, role: &str, tenant: &str) {
    let mut create = command(folder);
    create.args(["keys", "create", "--file", "keys.json"]);
    create.args(["--subject", name, "--key-role", role, "--tenant", tenant]);
    let created = finish(&mut create, "").exits(0);
    std::fs::write(folder.join(name), created.out).unwrap();
}

impl Tenants {
    fn ask(&self, name: &str, arguments: &[&str], input: &str) -> Answer {
        let mut command = command(self.folder.path());
        command.args(["--server", &self.url, "--token-file", name]);
        finish(command.args(arguments), input)
    }

    fn audit(&self, arguments: &[&str]) -> Answer {
        let mut command = command(self.folder.path());
        finish(command.args(["audit", "list"]).args(arguments), "").exits(0)
    }
}

#[test]
fn the_figures_of_the_provider_are_left_out_for_a_tenant() {
    let tenants = tenants(&[("root", "admin", "ops"), ("ada", "member", "acme")]);
    let queue = |name: &str| {
        let shown = tenants.ask(name, &["queue", "builtin"], "").exits(0);
        let json = ["queue", "builtin", "-o", "json"];
        (shown.out, tenants.ask(name, &json, "").exits(0).json())
    };
    let (text, json) = queue("root");
    assert!(text.contains("\nactive executions  0 "), "{text}");
    assert!(json["max_active_count"].as_i64() > Some(0), "{json}");
    let (text, json) = queue("ada");
    assert!(!text.contains("active executions"), "{text}");
    for figure in [
        "active_count",
        "max_active_count",
        "memory_bytes",
        "max_memory_bytes",
        "memory_full",
    ] {
        assert!(json[figure].is_null(), "{figure}: {json}");
    }
}

#[test]
fn the_advice_for_a_missing_role_does_not_name_an_option_that_is_refused() {
    let tenants = tenants(&[("ada", "admin", "acme"), ("eve", "admin", "acme")]);
    let apply = ["definitions", "apply", "-"];
    tenants.ask("ada", &apply, RELEASE).exits(0);
    let start = [
        "start",
        "definitions/release",
        "--provider",
        "builtin",
        "--id",
        "r1",
    ];
    tenants.ask("ada", &start, "").exits(0);
    let begin = std::time::Instant::now();
    let refused = loop {
        let grant = ["approvals", "grant", "builtin/r1/sign-off~1"];
        let refused = tenants.ask("eve", &grant, "").exits(4);
        if refused.err.contains("ROLE_REQUIRED") {
            break refused.err;
        }
        assert!(begin.elapsed() < PATIENCE, "{refused:?}");
    };
    let advice = "Ask a person who has the role. Roles come from the key, token or certificate.";
    assert!(refused.contains(advice), "{refused}");
    assert!(!refused.contains("--role"), "{refused}");
}

#[test]
fn records_are_listed_with_their_tenant_and_the_id_that_was_asked_for() {
    let tenants = tenants(&[("ada", "admin", "acme"), ("eve", "admin", "evil")]);
    tenants
        .ask("ada", &["definitions", "apply", "-"], RELEASE)
        .exits(0);
    let start = [
        "start",
        "definitions/release",
        "--provider",
        "builtin",
        "--id",
        "r1",
    ];
    tenants.ask("ada", &start, "").exits(0);
    let twice = tenants.ask("eve", &start, "");
    assert!(twice.err.contains("ALREADY_EXISTS"), "{twice:?}");
    let all = tenants.audit(&[]).out;
    assert!(all.contains("TENANT") && all.contains("acme"), "{all}");
    let of_evil = tenants.audit(&["--tenant", "ev*", "-o", "json"]).json();
    let [refused] = &of_evil["records"].as_array().unwrap()[..] else {
        panic!("{of_evil}");
    };
    assert_eq!(refused["verb"], "StartExecution");
    assert_eq!(refused["outcome"], "ALREADY_EXISTS");
    assert_eq!(refused["execution_id"], "r1");
    let shown = tenants.audit(&["--tenant", "evil", "--object", "r1"]).out;
    assert!(shown.contains("definitions/release (r1)"), "{shown}");
}
