//! `stateway access`: explanations and tables of expected decisions, without a gateway.

use std::path::Path;

use crate::binary::{Answer, PATIENCE, command, finish};
use crate::tls::{ask, serve};

const CONFIG: &str = r#"
[authentication.api_keys]
file = "keys.json"

[[access.rules]]
name = "admins"
who = { role = "admin" }
may = "admin"

[[access.rules]]
name = "tenants"
who = { role = "member" }
may = ["developer"]
where = "definition = order-* AND labels.tenant = caller.tenant"
"#;

fn access(folder: &Path, arguments: &[&str]) -> Answer {
    finish(command(folder).arg("access").args(arguments), "")
}

fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
    folder
}

#[test]
fn an_explanation_names_the_rule_that_allows() {
    let folder = folder(CONFIG);
    let asked = |arguments: &[&str]| access(folder.path(), arguments);
    let ada = [
        "explain", "--as", "ada", "--role", "member", "--tenant", "acme",
    ];
    let start =
        |tail: &[&str]| asked(&[&ada[..], &["start", "definitions/order-saga"], tail].concat());
    let allowed = start(&["--label", "tenant=acme"]).exits(0);
    assert!(
        allowed.out.contains("allowed by rule `tenants`"),
        "{allowed:?}"
    );
    let denied = start(&["--label", "tenant=evil"]).exits(4);
    assert!(denied.out.contains("denied"), "{denied:?}");
    assert!(
        denied.out.contains("the condition does not hold"),
        "{denied:?}"
    );
    assert!(
        denied
            .out
            .contains("`admins`: gives the permission to other callers"),
        "{denied:?}"
    );
    start(&[]).exits(4);
    let json = asked(&[&ada[..], &["operate", "providers/builtin", "-o", "json"]].concat());
    let json = json.exits(4).json();
    assert_eq!(json["allowed"], false);
    assert_eq!(json["rules"][0]["rule"], "admins");
    let root = [
        "explain",
        "--as",
        "root",
        "--role",
        "admin",
        "operate",
        "providers/builtin",
    ];
    assert_eq!(
        asked(&[&root[..], &["-o", "json"]].concat())
            .exits(0)
            .json()["rule"],
        "admins"
    );
    // Without the labels of the execution the answer is not certain.
    let unknown = [&ada[..], &["read", "providers/builtin/executions/17"]].concat();
    let unknown = asked(&unknown).exits(4);
    assert!(unknown.out.contains("not given"), "{unknown:?}");
}

#[test]
fn wrong_words_are_a_mistake() {
    let folder = folder(CONFIG);
    let asked = |arguments: &[&str]| access(folder.path(), arguments);
    let wrong = asked(&["explain", "--as", "ada", "fly", "definitions/x"]).exits(2);
    assert!(wrong.err.contains("read-payloads"), "{wrong:?}");
    asked(&["explain", "--as", "ada", "start", "x/y/z"]).exits(2);
    asked(&[
        "explain",
        "--as",
        "ada",
        "start",
        "definitions/x",
        "--label",
        "x",
    ])
    .exits(2);
}

#[test]
fn without_authentication_there_is_nothing_to_explain() {
    let explain = ["explain", "--as", "ada", "start", "definitions/x"];
    let open = folder("[server]\nlisten = \"127.0.0.1:0\"\n");
    let refused = access(open.path(), &explain).exits(2);
    let expected = "the configuration has no [authentication]: the gateway allows every request";
    assert!(refused.err.contains(expected), "{refused:?}");
    let empty = tempfile::tempdir().unwrap();
    let refused = access(empty.path(), &explain).exits(2);
    let expected = "there is no stateway.toml in this folder";
    assert!(refused.err.contains(expected), "{refused:?}");
    assert!(refused.err.contains("Give --config FILE."), "{refused:?}");
    // Authentication without rules denies everything.
    let locked = folder("[authentication.api_keys]\nfile = \"keys.json\"\n");
    let denied = access(locked.path(), &explain).exits(4);
    assert!(denied.out.contains("there is no rule"), "{denied:?}");
}

#[test]
fn the_check_of_a_configuration_warns_that_there_is_no_rule() {
    let check = |config: &str| {
        let folder = folder(config);
        let keys = folder.path().join("keys.json");
        std::fs::write(keys, "{\"version\":1,\"keys\":[]}").unwrap();
        finish(command(folder.path()).args(["config", "check"]), "").exits(0)
    };
    let warning = "warning: every request will be denied";
    let warned = check("[authentication.api_keys]\nfile = \"keys.json\"\n");
    assert!(warned.err.contains(warning), "{warned:?}");
    assert!(!check(CONFIG).err.contains(warning));
    assert!(!check("").err.contains(warning));
}

#[test]
fn a_table_of_expected_decisions_decides_the_exit_code() {
    let folder = folder(CONFIG);
    let cases = r#"
[[cases]]
as = "ada"
role = "member"
tenant = "acme"
may = "start"
on = "definitions/order-saga"
labels = { tenant = "acme" }
expect = "allow"
rule = "tenants"

[[cases]]
as = "ada"
role = "member"
tenant = "acme"
may = "read"
on = "providers/builtin/executions/17"
definition = "order-saga"
labels = { tenant = "evil" }
expect = "deny"
"#;
    let file = folder.path().join("cases.toml");
    std::fs::write(&file, cases).unwrap();
    let passed = access(folder.path(), &["test", "cases.toml"]).exits(0);
    assert!(passed.out.contains("ok     1:"), "{passed:?}");
    assert!(passed.err.contains("2 cases, 0 failed"), "{passed:?}");
    // Another rule than the expected one is a failure too.
    for (from, to) in [
        ("rule = \"tenants\"", "rule = \"admins\""),
        ("expect = \"deny\"", "expect = \"allow\""),
    ] {
        std::fs::write(&file, cases.replace(from, to)).unwrap();
        let failed = access(folder.path(), &["test", "cases.toml"]).exits(8);
        assert!(failed.out.contains("FAILED"), "{failed:?}");
        assert!(failed.err.contains("1 failed"), "{failed:?}");
    }
    for broken in [
        "",
        "[[cases]]\nas = \"a\"\nmay = \"read\"\n",
        "[[cases]]\nwho = \"a\"\n",
    ] {
        std::fs::write(&file, broken).unwrap();
        access(folder.path(), &["test", "cases.toml"]).exits(2);
    }
}

#[test]
fn rules_are_checked_with_the_configuration() {
    for (rules, expected) in [
        (
            "[[access.rules]]\nname = \"x\"\nwho = { role = \"x\" }\nmay = \"fly\"\n",
            "rule `x`: `may`",
        ),
        (
            "[[access.rules]]\nname = \"x\"\nwho = { role = \"x\" }\nmay = \"read\"\nwhere = \"tenant = 1\"\n",
            "`tenant` is not a field",
        ),
        ("[access]\nfile = \"missing.toml\"\n", "missing.toml"),
        ("[access]\nreload_interval = \"1ms\"\n", "100ms"),
    ] {
        let config = format!("[authentication.api_keys]\nfile = \"keys.json\"\n{rules}");
        let folder = folder(&config);
        let checked = finish(command(folder.path()).args(["config", "check"]), "");
        assert!(checked.exits(2).err.contains(expected), "{rules}");
    }
    // Every error of every rule, here and in a file of their own.
    let rules = "[[access.rules]]\nname = \"x\"\nwho = { role = \"x\" }\nmay = \"fly\"\nif = 1\n\
                 [[access.rules]]\nname = \"y\"\nmay = \"read\"\nwhere = \"tenant = 1\"\n";
    let keys = "[authentication.api_keys]\nfile = \"keys.json\"\n";
    let own = folder(&format!("{keys}[access]\nfile = \"rules.toml\"\n"));
    let file = rules.replace("access.rules", "rules");
    std::fs::write(own.path().join("rules.toml"), file).unwrap();
    let inline = folder(&format!("{keys}{rules}"));
    for (folder, places) in [
        (
            &inline,
            ["toml:6:7:", "toml:7:1:", "toml:8:1:", "toml:11:9:"],
        ),
        (&own, ["line 4:", "line 5:", "line 6:", "line 9:"]),
    ] {
        let checked = finish(command(folder.path()).args(["config", "check"]), "");
        let found = checked.exits(2).err;
        let errors = [
            "`fly`",
            "`if`",
            "`who` must have",
            "`tenant` is not a field",
        ];
        for (place, error) in places.into_iter().zip(errors) {
            let is_there = |line: &str| line.contains(place) && line.contains(error);
            assert!(found.lines().any(is_there), "{place} {error}: {found}");
        }
    }
    let open = "[[access.rules]]\nname = \"x\"\nwho = { role = \"x\" }\nmay = \"read\"\n";
    let folder_of_open = folder(open);
    let checked = finish(command(folder_of_open.path()).args(["config", "check"]), "");
    assert!(checked.exits(2).err.contains("[authentication]"));
    // The effective configuration has the rules.
    let folder = folder(CONFIG);
    let keys = folder.path().join("keys.json");
    std::fs::write(keys, "{\"version\":1,\"keys\":[]}").unwrap();
    let checked = finish(command(folder.path()).args(["config", "check"]), "").exits(0);
    std::fs::write(folder.path().join("again.toml"), &checked.out).unwrap();
    let again = finish(
        command(folder.path()).args(["config", "check", "again.toml"]),
        "",
    );
    assert_eq!(again.exits(0).out, checked.out);
    assert!(checked.out.contains("caller.tenant"), "{checked:?}");
}

const KEYS: &str =
    "[authentication.api_keys]\nfile = \"keys.json\"\n[access]\nreload_interval = \"100ms\"\n";

const VIEWERS: &str =
    "[[access.rules]]\nname = \"viewers\"\nwho = { role = \"viewer\" }\nmay = \"viewer\"\n";

/// Asks again until the exit code is as expected.
fn until(code: i32, mut answer: impl FnMut() -> Answer) -> Answer {
    let begin = std::time::Instant::now();
    loop {
        let answer = answer();
        if answer.code == code {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "{answer:?}");
    }
}

#[test]
fn rules_of_the_configuration_are_read_again_and_without_them_everything_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let create = ["keys", "create", "--file", "keys.json", "--subject", "vic"];
    let create = [&create[..], &["--key-role", "viewer"]].concat();
    let key = finish(command(path).args(create), "").exits(0).out;
    std::fs::write(path.join("vic.key"), key).unwrap();
    let (gateway, url) = serve(path, KEYS);
    // The log says what to add.
    let warning = gateway.line("every request will be denied");
    assert!(warning.contains("[[access.rules]]"), "{warning}");
    let list = ["providers", "list", "--token-file", "vic.key"];
    let denied = ask(path, &url, &list).exits(4);
    assert!(denied.err.contains("ACCESS_DENIED"), "{denied:?}");
    let provider = "[providers.memory]\nkind = \"memory\"\n";
    let write = |text: String| {
        std::fs::write(path.join("new.toml"), text).unwrap();
        std::fs::rename(path.join("new.toml"), path.join("stateway.toml")).unwrap();
    };
    write(format!("{KEYS}{VIEWERS}{provider}"));
    until(0, || ask(path, &url, &list));
    // A configuration that cannot be used leaves the rules as they are.
    write(format!(
        "{KEYS}{}{provider}",
        VIEWERS.replace("may = ", "may = 1 #")
    ));
    let error = gateway.line("access rules not reloaded");
    assert!(error.contains("stateway.toml"), "{error}");
    ask(path, &url, &list).exits(0);
    write(format!("{KEYS}{provider}"));
    until(4, || ask(path, &url, &list));
}
