//! `stateway config check`, and who has the last word.

use std::path::Path;

use crate::binary::{Answer, command, finish, run};

fn check(text: &str, flags: &[&str]) -> Answer {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("c.toml"), text).unwrap();
    finish(
        command(directory.path())
            .args(["config", "check", "c.toml"])
            .args(flags),
        "",
    )
}

#[test]
fn the_example_is_good_and_shows_the_defaults() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stateway.example.toml");
    let shown = run(&["config", "check", example.to_str().unwrap()]).exits(0);
    let effective: toml::Table = shown.out.parse().unwrap();
    let defaults: toml::Table = run(&["config", "check"]).exits(0).out.parse().unwrap();
    for section in ["server", "watch", "limits", "log", "otlp"] {
        assert_eq!(
            effective[section], defaults[section],
            "[{section}] of the example"
        );
    }
}

#[test]
fn the_example_names_every_key() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stateway.example.toml");
    let text = std::fs::read_to_string(example).unwrap();
    let defaults: toml::Table = run(&["config", "check"]).exits(0).out.parse().unwrap();
    for section in ["server", "watch", "limits", "log", "otlp"] {
        for key in defaults[section].as_table().unwrap().keys() {
            assert!(
                text.contains(&format!("\n{key} = ")),
                "{section}.{key} is not in the example"
            );
        }
    }
}

#[test]
fn a_kind_that_is_cheap_to_look_at_is_looked_at_more_often_unless_it_is_said_otherwise() {
    let slowest = |limits: &str, own: &str| {
        let text = format!(
            "[limits]\n{limits}\n[providers.p]\nkind = \"restate\"\n[providers.p.limits]\n{own}\n"
        );
        let shown: toml::Table = check(&text, &[]).exits(0).out.parse().unwrap();
        let limits = shown["providers"]["p"]["limits"].clone();
        limits["max_poll_interval"].as_str().unwrap().to_owned()
    };
    assert_eq!(slowest("", ""), "1s");
    assert_eq!(slowest("max_poll_interval = \"7s\"", ""), "7s");
    assert_eq!(slowest("", "max_poll_interval = \"9s\""), "9s");
    assert_eq!(slowest("min_poll_interval = \"2s\"", ""), "2s");
}

#[test]
fn what_is_printed_is_a_configuration_that_gives_the_same() {
    let first = check(
        "[limits]\ntimeout = \"7s\"\n[providers.p]\nkind = \"memory\"\nlist_scan = 7\n",
        &[],
    );
    let second = check(&first.exits(0).out, &[]).exits(0);
    assert!(second.out.contains("list_scan = 7"), "{}", second.out);
    assert_eq!(second.out, check(&second.out, &[]).exits(0).out);
}

#[test]
fn every_mistake_is_told_at_once_with_file_line_and_column() {
    let answer = check(
        "[server]\nlisen = \"x\"\n\n[watch]\nbuffer = \"many\"\n[providers.p]\nkind = \"airflow\"\n",
        &[],
    );
    let answer = answer.exits(2);
    let lines: Vec<&str> = answer.err.lines().collect();
    assert!(
        lines[0].starts_with("error: c.toml:2:1: unknown field `lisen`"),
        "{lines:#?}"
    );
    assert!(
        lines[1].starts_with("error: c.toml:5:10: invalid type"),
        "{lines:#?}"
    );
    assert!(
        lines[2].starts_with(
            "error: c.toml:7:8: `airflow` is not a kind of provider; supported kinds: builtin"
        ),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("hint: "), "{lines:#?}");
    assert!(answer.out.is_empty());
}

#[test]
fn mistakes_can_be_read_by_programs() {
    let found = check("x = 1\n", &["-o", "json"]).exits(2).json();
    assert_eq!(
        (&found[0]["line"], &found[0]["column"]),
        (&1.into(), &1.into())
    );
    assert_eq!(found[0]["file"], "c.toml");
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let listen = |file: &str, environment: Option<&str>, flag: Option<&str>| {
        std::fs::write(directory.path().join("stateway.toml"), file).unwrap();
        let mut command = command(directory.path());
        command.args(["config", "check"]);
        command.envs(environment.map(|value| ("STATEWAY_LISTEN", value)));
        if let Some(flag) = flag {
            command.args(["--listen", flag]);
        }
        let shown: toml::Table = finish(&mut command, "").exits(0).out.parse().unwrap();
        shown["server"]["listen"].as_str().unwrap().to_owned()
    };
    let file = "[server]\nlisten = \"127.0.0.1:2\"\n";
    assert_eq!(listen("", None, None), "127.0.0.1:7380");
    assert_eq!(listen(file, None, None), "127.0.0.1:2");
    assert_eq!(listen(file, Some("127.0.0.1:3"), None), "127.0.0.1:3");
    assert_eq!(
        listen(file, Some("127.0.0.1:3"), Some("127.0.0.1:4")),
        "127.0.0.1:4"
    );
}

#[test]
fn secrets_are_checked_and_never_printed() {
    let secret = "ab".repeat(32);
    let inline = check(&format!("[server]\ntoken_key = \"{secret}\"\n"), &[]).exits(2);
    assert!(
        inline.err.contains("set `token_key_file`"),
        "{}",
        inline.err
    );
    assert!(!inline.out.contains(&secret) && !inline.err.contains(&secret));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token.key");
    let named = format!(
        "[server]\ntoken_key_file = {:?}\n",
        file.display().to_string()
    );
    std::fs::write(&file, &secret).unwrap();
    let good = check(&named, &[]).exits(0);
    assert!(!good.out.contains(&secret) && !good.err.contains(&secret));
    std::fs::write(&file, "hunter2").unwrap();
    let bad = check(&named, &[]).exits(2);
    assert!(
        bad.err.contains("64 hexadecimal digits") && !bad.err.contains("hunter2"),
        "{}",
        bad.err
    );
    let missing = check("[server]\ntoken_key_file = \"no.key\"\n", &[]).exits(2);
    assert!(missing.err.contains("no.key"), "{}", missing.err);
}

#[test]
fn values_that_cannot_work_are_refused() {
    let answer = check(
        "[limits]\nmax_concurrent = 0\nmin_poll_interval = \"9s\"\n",
        &[],
    )
    .exits(2);
    assert!(
        answer
            .err
            .contains("[limits] `max_concurrent` must be at least 1"),
        "{}",
        answer.err
    );
    assert!(
        answer
            .err
            .contains("`min_poll_interval` must not be longer"),
        "{}",
        answer.err
    );
    let answer = check(
        "[providers.p]\nkind = \"memory\"\ndisable = [\"flying\"]\n",
        &[],
    )
    .exits(2);
    assert!(answer.err.contains("flying"), "{}", answer.err);
    check("", &["--log", "a=b=c"]).exits(2);
}

#[test]
fn each_value_that_cannot_work_is_refused_by_its_rule() {
    let rules = [
        (
            "[watch]\nheartbeat = \"99ms\"",
            "`heartbeat` must be at least 100ms",
        ),
        ("[watch]\nbuffer = 0", "`buffer` must be at least 1"),
        ("[watch]\nbuffer = 65537", "`buffer` must be at most 65536"),
        (
            "[watch]\nmax_streams = 0",
            "`max_streams` must be at least 1",
        ),
        ("[watch]\nmax_topics = 0", "`max_topics` must be at least 1"),
        (
            "[watch]\nmax_watched_executions = 0",
            "`max_watched_executions` must be at least 1",
        ),
        (
            "[server]\ndefault_deadline = \"0s\"",
            "`default_deadline` must not be 0",
        ),
        (
            "[server]\ndefault_deadline = \"2h\"",
            "`default_deadline` must not be longer than `max_deadline`",
        ),
        (
            "[server]\nmax_message_bytes = 65535",
            "`max_message_bytes` must be at least 65536 (64 KiB)",
        ),
        (
            "[server]\nmax_message_bytes = 67108865",
            "`max_message_bytes` must be at most 67108864 (64 MiB)",
        ),
        (
            "[server]\ntoken_lifetime = \"59s\"",
            "`token_lifetime` must be at least 1m",
        ),
        (
            "[server]\nhandshake_timeout = \"99ms\"",
            "`handshake_timeout` must be at least 100ms",
        ),
        (
            "[server]\nidle_timeout = \"999ms\"",
            "`idle_timeout` must be at least 1s",
        ),
        ("[watch]\nmax_waits = 0", "`max_waits` must be at least 1"),
    ];
    for (text, rule) in rules {
        let section = text.lines().next().unwrap();
        let answer = check(text, &[]).exits(2);
        let lines: Vec<&str> = answer.err.lines().collect();
        let expected = [
            &*format!("error: c.toml: {section} {rule}"),
            "hint: docs/stateway.example.toml shows every key.",
        ];
        assert_eq!(lines, expected, "{text}");
    }
}

#[test]
fn an_origin_that_is_none_is_refused_with_its_place() {
    for wrong in ["*", "ops.example.org", "https://ops.example.org/", "null"] {
        let text = format!("[server]\nallowed_origins = [\"{wrong}\"]\n");
        let answer = check(&text, &[]).exits(2);
        let expected = format!("`{wrong}` is not an origin");
        assert!(answer.err.contains(&expected), "{}", answer.err);
        assert!(answer.err.contains("c.toml:2:"), "{}", answer.err);
    }
}

#[test]
fn no_deadline_at_all_breaks_two_rules() {
    let answer = check("[server]\nmax_deadline = \"0s\"\n", &[]).exits(2);
    assert!(
        answer.err.contains("`max_deadline` must not be 0")
            && answer.err.contains("must not be longer than"),
        "{}",
        answer.err
    );
}

#[test]
fn values_at_the_very_edge_are_good() {
    for text in [
        "[watch]\nheartbeat = \"100ms\"\nbuffer = 1\nmax_streams = 1\nmax_topics = 1\nmax_watched_executions = 1\n",
        "[watch]\nbuffer = 65536\n",
        "[server]\ndefault_deadline = \"1h\"\nmax_message_bytes = 65536\ntoken_lifetime = \"1m\"\nhandshake_timeout = \"100ms\"\nidle_timeout = \"1s\"\nallowed_origins = [\"https://ops.example.org\"]\n",
        "[server]\nmax_message_bytes = 67108864\n",
    ] {
        check(text, &[]).exits(0);
    }
}

#[test]
fn an_overlay_that_is_no_table_is_refused_with_its_file() {
    let answer = check(
        "[providers.p]\nkind = \"memory\"\ntable = \"no-such.toml\"\n",
        &[],
    )
    .exits(2);
    assert!(
        answer.err.contains("no-such.toml: cannot be read"),
        "{}",
        answer.err
    );
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_and_none_at_all_is_not() {
    let answer = run(&["config", "check", "nowhere.toml"]).exits(2);
    assert!(
        answer.err.contains("nowhere.toml: cannot be read"),
        "{}",
        answer.err
    );
    let defaults = run(&["config", "check"]).exits(0);
    assert!(
        defaults
            .out
            .contains("[providers.builtin]\nkind = \"builtin\""),
        "{}",
        defaults.out
    );
}

#[test]
fn a_check_leaves_stores_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stateway.toml"), "").unwrap();
    let check = || finish(command(folder.path()).args(["config", "check"]), "");
    check().exits(0);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let gateway = crate::binary::Running::begin(command(folder.path()).args(serve));
    gateway.line("stateway is listening");
    check().exits(0);

    // A second gateway does not get it, and says why in the store's own word, the path once.
    let second = finish(command(folder.path()).args(serve), "").exits(4);
    assert!(second.err.contains("(STORE_IN_USE)"), "{}", second.err);
    assert_eq!(
        second.err.matches("stateway.db").count(),
        1,
        "{}",
        second.err
    );
    assert!(second.err.contains("hint: "), "{}", second.err);
}

#[test]
fn two_providers_cannot_have_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let two = "[providers.a]\nkind = \"builtin\"\n[providers.b]\nkind = \"builtin\"\n";
    std::fs::write(folder.path().join("stateway.toml"), two).unwrap();
    let answer = finish(command(folder.path()).args(["config", "check"]), "").exits(2);
    assert!(
        answer.err.contains("the same store, stateway.db"),
        "{}",
        answer.err
    );
}

/// The names and contents of the files of a folder.
fn contents(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut found: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let is_file = entry.file_type().unwrap().is_file();
            let text = is_file.then(|| std::fs::read(entry.path()).unwrap());
            (entry.file_name(), text.unwrap_or_default())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_check_opens_what_serve_opens_reports_every_mistake_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    crate::tls::certificates(folder.path());
    let key = "0123456789abcdef0123456789abcdef";
    for (name, text) in [
        ("keys.json", "{\"version\":1,\"keys\":[]}"),
        (
            "jwks.json",
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\
             \"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        ),
        ("chain.key", key),
        ("hook.secret", key),
        ("client.secret", key),
        (
            "rules.toml",
            "[[rules]]\nname = \"a\"\nwho = { role = \"a\" }\nmay = \"admin\"\n",
        ),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    std::fs::create_dir(path("log")).unwrap();
    let config = "listen = \"0.0.0.0:7380\"\n[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n\
        client_ca = \"ca.pem\"\n[authentication.api_keys]\nfile = \"keys.json\"\n\
        [authentication.jwt]\nissuer = \"https://id.example.org\"\naudience = [\"a\"]\njwks_file = \"jwks.json\"\n\
        [authentication.sign_in.oidc]\npublic_url = \"https://stateway.example.org\"\nclient_id = \"d\"\n\
        client_secret_file = \"client.secret\"\n[access]\nfile = \"rules.toml\"\n\
        [audit]\nfile = \"log/audit.jsonl\"\nkey_file = \"chain.key\"\n\
        [audit.webhook]\nurl = \"https://siem.example.org/in\"\nsecret_file = \"hook.secret\"\n\
        [providers.m]\nkind = \"memory\"\n";
    std::fs::write(path("stateway.toml"), format!("[server]\n{config}")).unwrap();
    let check = |flags: &[&str]| {
        let mut check = command(folder.path());
        finish(check.args(["config", "check"]).args(flags), "")
    };
    let before = contents(folder.path());
    check(&[]).exits(0);
    assert_eq!(contents(folder.path()), before);
    assert_eq!(contents(&path("log")), []);

    // Every file is broken in a way of its own.
    for (name, text) in [
        ("server.pem", "garbage"),
        ("ca.pem", "garbage"),
        ("keys.json", "garbage"),
        ("jwks.json", "garbage"),
        ("chain.key", "short"),
        ("hook.secret", "short"),
        ("client.secret", ""),
        ("rules.toml", "[[rules]]\nname = 1\n"),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    std::fs::remove_file(path("server.key")).unwrap();
    std::fs::remove_dir(path("log")).unwrap();
    let before = contents(folder.path());
    let answer = check(&[]).exits(2);
    for key in [
        "server.tls.cert",
        "server.tls.key",
        "server.tls.client_ca",
        "authentication.api_keys.file",
        "authentication.jwt.jwks_file",
        "authentication.sign_in.oidc",
        "rules.toml",
        "audit.file",
        "audit.key_file",
        "audit.webhook.secret_file",
    ] {
        assert!(answer.err.contains(key), "{key}: {}", answer.err);
    }
    assert!(!answer.err.contains("garbage"), "{}", answer.err);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_configuration_of_another_machine_is_checked_without_its_files() {
    let config = "[server.tls]\ncert = \"/nowhere/a\"\nkey = \"/nowhere/b\"\n";
    let answer = check(config, &[]).exits(2);
    assert!(answer.err.contains("/nowhere/a") && answer.err.contains("/nowhere/b"));
    check(config, &["--without-files"]).exits(0);
}

#[test]
fn a_log_of_another_key_is_found_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let audit = "[audit]\nfile = \"audit.jsonl\"\n";
    let (gateway, _) = crate::tls::serve(folder.path(), audit);
    // The log of a gateway that runs with this configuration is good.
    let check = || finish(command(folder.path()).args(["config", "check"]), "");
    check().exits(0);
    drop(gateway);
    std::fs::write(
        folder.path().join("chain.key"),
        "0123456789abcdef".repeat(2),
    )
    .unwrap();
    let keyed = format!("{audit}key_file = \"chain.key\"\n[providers.memory]\nkind = \"memory\"\n");
    std::fs::write(folder.path().join("stateway.toml"), keyed).unwrap();
    let answer = check().exits(2);
    assert!(answer.err.contains("another key"), "{}", answer.err);
}

#[test]
fn a_store_in_a_database_is_checked_without_the_database_and_its_secrets_are_never_printed() {
    let provider = |store: &str| format!("[providers.p]\nkind = \"builtin\"\n{store}\n");
    let good = "store = \"postgres://stateway@db.invalid/flows\"\nstore_lease = \"5s\"";
    check(&provider(good), &[]).exits(0);
    let refused = check(
        &provider("store = \"postgres://ada:hush@db.invalid/flows\""),
        &[],
    );
    assert_ne!(refused.code, 0);
    let printed = format!("{}{}", refused.out, refused.err);
    assert!(printed.contains("store_password_file"), "{printed}");
    assert!(!printed.contains("hush"), "{printed}");
    let same = format!(
        "{}[providers.q]\nkind = \"builtin\"\n{good}\n",
        provider(good)
    );
    let refused = check(&same, &[]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.err.contains("have the same store"),
        "{}",
        refused.err
    );
}

#[test]
fn a_gateway_that_others_reach_is_checked_for_a_safe_way() {
    let store = "store = \"postgres://stateway@db.invalid/flows\"";
    let provider = |address: &str| {
        format!("[providers.p]\nkind = \"builtin\"\n{store}\nstore_address = \"{address}\"\n")
    };
    let refused = |config: &str, why: &str| {
        let refused = check(config, &[]);
        assert_ne!(refused.code, 0, "{config}");
        assert!(refused.err.contains(why), "{why}: {}", refused.err);
    };
    let here = provider("http://127.0.0.1:7380");
    check(&here, &[]).exits(0);
    // Without authentication nobody proves who calls.
    refused(&provider("http://192.0.2.1:7380"), "only on this machine");
    refused(&provider("https://127.0.0.1:7380"), "only on this machine");
    refused(
        &provider("http://127.0.0.1"),
        "is not the address of a gateway",
    );
    let peers = "[server.peers]\nca_file = \"a\"\ncert = \"b\"\nkey = \"c\"\n";
    refused(&format!("{peers}{here}"), "only with [authentication]");
    let alone = format!("{peers}[providers.p]\nkind = \"memory\"\n");
    refused(&alone, "only with `store_address`");
    let keys = "[authentication.api_keys]\nfile = \"keys.json\"\n";
    for why in [
        "write `https://host:port`",
        "configure [server.tls]",
        "configure [server.peers]",
        "`subjects` of [authentication.proxy]",
    ] {
        refused(&format!("{keys}{here}"), why);
    }
    // Every call is forwarded, also those of the other provider.
    let other = format!("{here}[providers.q]\nkind = \"memory\"\n");
    refused(&other, "provider q");
    let without_store =
        "[providers.p]\nkind = \"builtin\"\nstore_address = \"http://127.0.0.1:1\"\n";
    refused(without_store, "is set without `store`");
}
