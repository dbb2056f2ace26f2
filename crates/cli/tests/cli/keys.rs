//! `stateway keys`, and a gateway that asks for them.

use std::path::Path;

use crate::binary::{Answer, command, finish};
use crate::tls::{TLS, ask, certificates, serve};

const KEYS: &str = "[authentication]\nreload_interval = \"100ms\"\n\
                    [authentication.api_keys]\nfile = \"keys.json\"\n\
                    [[access.rules]]\nname = \"operators\"\nwho = { role = \"operator\" }\n\
                    may = \"operator\"\n";

fn keys(folder: &Path, arguments: &[&str]) -> Answer {
    finish(command(folder).arg("keys").args(arguments), "")
}

fn create(folder: &Path, subject: &str) -> (String, String) {
    let arguments = [
        "create",
        "--file",
        "keys.json",
        "--subject",
        subject,
        "--key-role",
        "operator",
        "-o",
        "json",
    ];
    let created = keys(folder, &arguments).exits(0).json();
    let text = |name: &str| created[name].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

#[test]
fn a_key_is_shown_once_listed_without_its_secret_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let (id, key) = create(folder.path(), "ci");
    let file = std::fs::read_to_string(folder.path().join("keys.json")).unwrap();
    assert!(!file.contains(&key));
    let mode = std::os::unix::fs::MetadataExt::mode(
        &std::fs::metadata(folder.path().join("keys.json")).unwrap(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let list = ["list", "--file", "keys.json", "-o", "json"];
    let listed = keys(folder.path(), &list).exits(0);
    assert!(!listed.out.contains(&key));
    let listed = &listed.json()["keys"][0];
    assert_eq!(listed["id"], *id);
    assert_eq!(listed["subject"], "ci");
    assert_eq!(listed["state"], "active");
    assert!(listed["last_used"].is_null());
    let table = keys(folder.path(), &["list", "--file", "keys.json"]).exits(0);
    assert!(
        table.out.contains("SUBJECT") && table.out.contains(&id),
        "{table:?}"
    );
    keys(folder.path(), &["revoke", "--file", "keys.json", &id]).exits(0);
    let listed = keys(folder.path(), &list).exits(0).json();
    assert_eq!(listed["keys"][0]["state"], "revoked");
    keys(folder.path(), &["revoke", "--file", "keys.json", "nope"]).exits(3);
}

#[test]
fn the_file_keeps_its_mode_and_its_owner() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let (id, _) = create(folder.path(), "ci");
    let path = folder.path().join("keys.json");
    let permissions = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&path, permissions).unwrap();
    // Only root may give a file away; the mode is checked by everyone.
    let _ = std::os::unix::fs::chown(&path, Some(65_534), Some(65_534));
    let shown = || {
        let file = std::fs::metadata(&path).unwrap();
        (file.mode() & 0o777, file.uid(), file.gid())
    };
    let before = shown();
    keys(folder.path(), &["revoke", "--file", "keys.json", &id]).exits(0);
    assert_eq!(shown(), before);
}

#[test]
fn mistakes_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let answer = keys(folder.path(), &["list"]).exits(2);
    assert!(
        answer.err.contains("authentication.api_keys"),
        "{}",
        answer.err
    );
    keys(folder.path(), &["list", "--file", "keys.json"]).exits(3);
    let unfit = ["create", "--file", "keys.json", "--subject", "a b"];
    let answer = keys(folder.path(), &unfit).exits(2);
    assert!(answer.err.contains("without blanks"), "{}", answer.err);
    assert!(!folder.path().join("keys.json").exists());
    let soon = [
        "create",
        "--file",
        "keys.json",
        "--subject",
        "a",
        "--expires",
        "soon",
    ];
    keys(folder.path(), &soon).exits(2);
}

#[test]
fn commands_send_a_key_from_a_file_or_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (id, key) = create(folder.path(), "ci");
    let (_gateway, url) = serve(folder.path(), &format!("{TLS}{KEYS}"));
    let list = ["providers", "list", "--tls-ca", "ca.pem"];
    // Without a key, and with a name of one's own choice.
    let answer = ask(folder.path(), &url, &list).exits(4);
    assert!(answer.err.contains("CREDENTIALS_MISSING"), "{}", answer.err);
    assert!(answer.err.contains("--token-file"), "{}", answer.err);
    std::fs::write(folder.path().join("token"), format!("{key}\n")).unwrap();
    let with_file = [&list[..], &["--token-file", "token"]].concat();
    ask(folder.path(), &url, &with_file).exits(0);
    let named = [&with_file[..], &["--as", "root"]].concat();
    let answer = ask(folder.path(), &url, &named).exits(4);
    assert!(
        answer.err.contains("IDENTITY_HEADERS_NOT_ACCEPTED"),
        "{}",
        answer.err
    );
    let mut by_environment = command(folder.path());
    by_environment
        .args(["--server", &url])
        .args(list)
        .env("STATEWAY_TOKEN", &key)
        .env("USER", "somebody");
    finish(&mut by_environment, "").exits(0);
    // The use is listed soon.
    let begin = std::time::Instant::now();
    loop {
        let list = ["list", "--file", "keys.json", "-o", "json"];
        let listed = keys(folder.path(), &list).exits(0).json();
        if let Some(used) = listed["keys"][0]["last_used"].as_str() {
            let used: jiff::Timestamp = used.parse().unwrap();
            assert!(used <= jiff::Timestamp::now(), "{used}");
            break;
        }
        assert!(begin.elapsed() < crate::binary::PATIENCE, "{listed}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // A key that was revoked is refused soon.
    keys(folder.path(), &["revoke", "--file", "keys.json", &id]).exits(0);
    let begin = std::time::Instant::now();
    loop {
        let answer = ask(folder.path(), &url, &with_file);
        if answer.code == 4 {
            assert!(answer.err.contains("API_KEY_REVOKED"), "{}", answer.err);
            assert!(!answer.err.contains(&key));
            break;
        }
        assert!(begin.elapsed() < crate::binary::PATIENCE, "{answer:?}");
    }
}

#[test]
fn a_name_without_credentials_is_refused_by_a_gateway_with_authentication() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), "ci");
    // On loopback authentication also works without TLS.
    let (_gateway, url) = serve(folder.path(), KEYS);
    let answer = ask(folder.path(), &url, &["--as", "root", "providers", "list"]).exits(4);
    assert!(
        answer.err.contains("IDENTITY_HEADERS_NOT_ACCEPTED"),
        "{}",
        answer.err
    );
}

#[test]
fn the_effective_configuration_has_no_secret_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (_, key) = create(folder.path(), "ci");
    let config = format!(
        "{TLS}client_ca = \"ca.pem\"\n{KEYS}\
         [authentication.proxy]\nsubjects = [\"spiffe://prod/proxy\"]\n\
         [[authentication.certificates.grants]]\nsubject = \"spiffe://prod/*\"\nroles = [\"worker\"]\n\
         [authentication.jwt]\nissuer = \"https://issuer.example\"\naudience = [\"stateway\"]\n\
         jwks_url = \"https://issuer.example/keys\"\nalgorithms = [\"EdDSA\"]\n"
    );
    std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
    let checked = finish(command(folder.path()).args(["config", "check"]), "").exits(0);
    assert!(!checked.out.contains(&key) && !checked.out.contains("PRIVATE"));
    std::fs::write(folder.path().join("again.toml"), &checked.out).unwrap();
    let again = ["config", "check", "again.toml"];
    let again = finish(command(folder.path()).args(again), "").exits(0);
    assert_eq!(again.out, checked.out);
}

#[test]
fn an_algorithm_that_shares_a_secret_cannot_be_configured() {
    let folder = tempfile::tempdir().unwrap();
    for algorithm in ["none", "HS256", "PS256"] {
        let config = format!(
            "[authentication.jwt]\nissuer = \"a\"\naudience = [\"b\"]\njwks_file = \"c\"\n\
             algorithms = [\"{algorithm}\"]\n"
        );
        std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
        let answer = finish(command(folder.path()).args(["config", "check"]), "").exits(2);
        assert!(answer.err.contains(algorithm), "{}", answer.err);
    }
}

#[test]
fn a_watch_beyond_a_quota_is_given_up_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (_, key) = create(folder.path(), "ci");
    let port = crate::health::free_port();
    let config = format!(
        "server.monitoring_listen = \"127.0.0.1:{port}\"\n{TLS}{KEYS}[quotas]\nmax_streams = 1\n"
    );
    let (_gateway, url) = serve(folder.path(), &config);
    let metric = |name: &str| {
        let page = crate::health::get(port, "/metrics", "host: localhost\r\n");
        let mut lines = page.lines().filter(|line| line.starts_with(name));
        let value = lines.next().and_then(|line| line.rsplit(' ').next());
        value.map_or(0.0, |value| value.parse::<f64>().unwrap())
    };
    let refusals = "stateway_quota_refusals_total{quota=\"streams\"}";
    assert!(metric(refusals).abs() < 0.5);
    let watch = |format: &str| {
        let mut watch = command(folder.path());
        watch.args(["--server", &url, "--tls-ca", "ca.pem", "-o", format]);
        watch.arg("watch").env("STATEWAY_TOKEN", &key);
        watch
    };
    let first = crate::binary::Running::begin(&mut watch("json"));
    first.line("BOOKMARK");
    let began = std::time::Instant::now();
    let refused = finish(&mut watch("table"), "").exits(6);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    let tried = "the gateway refuses the watch for now";
    assert!(
        refused.err.contains(tried) && refused.err.contains("trying again in 1 s"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("TOO_MANY_STREAMS"), "{}", refused.err);
    assert!(metric(refusals) >= 1.0);
    // A client that does not speak TLS is cut off.
    let cut = "stateway_connections_cut_total{reason=\"handshake-failed\"}";
    assert!(metric(cut).abs() < 0.5);
    let address = url.strip_prefix("https://").unwrap().parse().unwrap();
    let plain = "GET / HTTP/1.1\r\nhost: localhost\r\n";
    // Whatever it gets, it is no answer of HTTP.
    let _ = stateway_visitor::exchange_blocking(address, plain, b"");
    let begin = std::time::Instant::now();
    while metric(cut) < 1.0 {
        assert!(begin.elapsed() < crate::binary::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_lifetime_of_zero_is_refused_and_a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let create = |file: &str, expires: &str| {
        let arguments = [
            "create",
            "--file",
            file,
            "--subject",
            "ci",
            "--expires",
            expires,
        ];
        keys(folder.path(), &arguments)
    };
    let refused = create("keys.json", "0s").exits(2);
    assert!(
        refused
            .err
            .contains("the lifetime must be greater than zero"),
        "{refused:?}"
    );
    assert!(!folder.path().join("keys.json").exists());
    let refused = create("nodir/keys.json", "1h").exits(4);
    assert!(
        refused.err.contains("The folder `nodir` does not exist."),
        "{refused:?}"
    );
}
