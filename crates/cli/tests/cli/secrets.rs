//! No secret is printed: a text that stands for one is looked for in everything that the process says.

use std::path::Path;

use stateway_cli::config::{Overrides, load};

use crate::binary::{Running, command, finish};
use crate::health;
use crate::tls::{TLS, ask, certificates};

/// In every secret of the configuration below.
const SENTINEL: &str = "5e17e15e17e1";

/// A key of page tokens.
fn token_key() -> String {
    SENTINEL.repeat(6)[..64].to_owned()
}

/// The program, with the credentials of AWS in its environment.
fn program(folder: &Path) -> std::process::Command {
    let mut command = command(folder);
    command.env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE");
    for secret in ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
        command.env(secret, format!("{SENTINEL}-of-enough-bytes"));
    }
    command
}

/// A configuration with a secret at every place that can have one.
fn configure(folder: &Path, probes: u16) -> String {
    let secret = format!("{SENTINEL}-of-enough-bytes");
    for file in [
        "chain.key",
        "webhook.secret",
        "client.secret",
        "engine-webhook.secret",
        "temporal.key",
        "restate.token",
        "store.password",
    ] {
        std::fs::write(folder.join(file), &secret).unwrap();
    }
    let public = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    std::fs::write(folder.join("jwks.json"), public).unwrap();
    std::fs::write(folder.join("token.key"), token_key()).unwrap();
    let config = format!(
        "[server]\ntoken_key_file = \"token.key\"\nmonitoring_listen = \"127.0.0.1:{probes}\"\n{TLS}\
         [authentication.api_keys]\nfile = \"keys.json\"\n\
         [authentication.jwt]\nissuer = \"https://127.0.0.1:9\"\naudience = [\"stateway\"]\n\
         jwks_file = \"jwks.json\"\n\
         [authentication.sign_in.oidc]\npublic_url = \"https://localhost\"\n\
         client_id = \"dashboard\"\nclient_secret_file = \"client.secret\"\nname = \"ID\"\n\
         [audit]\nfile = \"audit.jsonl\"\nkey_file = \"chain.key\"\n\
         [audit.webhook]\nurl = \"https://ada:{SENTINEL}@127.0.0.1:9/in?key={SENTINEL}\"\n\
         secret_file = \"webhook.secret\"\n\
         [[access.rules]]\nname = \"all\"\nwho = {{ subject = \"*\" }}\nmay = \"admin\"\n\
         [providers.memory]\nkind = \"memory\"\n\
         [providers.temporal]\nkind = \"temporal\"\naddress = \"https://127.0.0.1:9\"\n\
         api_key_file = \"temporal.key\"\n\
         [providers.restate]\nkind = \"restate\"\n\
         admin = {{ url = \"http://127.0.0.1:9\", bearer_file = \"restate.token\" }}\n\
         ingress = {{ url = \"http://127.0.0.1:9\" }}\n\
         [providers.builtin]\nkind = \"builtin\"\n[[providers.builtin.webhooks]]\nname = \"w\"\n\
         url = \"http://127.0.0.1:9/\"\nsecret_file = \"engine-webhook.secret\"\n\
         [providers.shared]\nkind = \"builtin\"\n\
         store = \"postgres://ada@127.0.0.1:9/stateway?sslmode=disable\"\n\
         store_password_file = \"store.password\"\n\
         [providers.temporal-host]\nkind = \"temporal-host\"\naddress = \"https://127.0.0.1:9\"\n\
         api_key_file = \"temporal.key\"\n\
         [providers.restate-host]\nkind = \"restate-host\"\n\
         admin = {{ url = \"http://127.0.0.1:9\", bearer_file = \"restate.token\" }}\n\
         ingress = {{ url = \"http://127.0.0.1:9\", bearer_file = \"restate.token\" }}\n\
         [providers.step-functions-host]\nkind = \"step-functions-host\"\nregion = \"eu-west-1\"\n\
         endpoint = \"http://127.0.0.1:9\"\n"
    );
    std::fs::write(folder.join("stateway.toml"), &config).unwrap();
    config
}

#[track_caller]
fn has_no_secret(text: &str) {
    assert!(!text.contains(SENTINEL), "{text}");
}

#[test]
fn a_configuration_is_checked_and_debugged_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    std::fs::write(
        folder.path().join("keys.json"),
        "{\"version\":1,\"keys\":[]}",
    )
    .unwrap();
    let config = configure(folder.path(), 0);
    for arguments in [&["config", "check"][..], &["config", "check", "-o", "json"]] {
        let answer = finish(program(folder.path()).args(arguments), "").exits(0);
        has_no_secret(&answer.out);
        has_no_secret(&answer.err);
    }
    let overrides = Overrides {
        config: Some(folder.path().join("stateway.toml")),
        ..Overrides::default()
    };
    let loaded = load(&overrides).unwrap();
    has_no_secret(&format!("{loaded:?} {loaded:#?}"));
    // Mistakes beside a secret, and a secret in the wrong place.
    let inline = format!("token_key = \"{}\"", token_key());
    let store_password = format!("postgres://ada:{SENTINEL}@");
    for (wrong, right) in [
        (&*inline, "token_key_file = \"token.key\""),
        ("key_files = ", "key_file = "),
        ("secret_files = ", "secret_file = "),
        ("url = 7 # ", "url = "),
        (&*store_password, "postgres://ada@"),
        ("store_password_files = ", "store_password_file = "),
    ] {
        let broken = config.replace(right, wrong);
        assert_ne!(broken, config);
        std::fs::write(folder.path().join("stateway.toml"), broken).unwrap();
        let answer = finish(command(folder.path()).args(["config", "check"]), "").exits(2);
        has_no_secret(&answer.out);
        has_no_secret(&answer.err);
    }
}

/// The error of the standard library about a variable that is not UTF-8 quotes its value.
#[test]
fn a_secret_in_a_variable_that_cannot_be_used_is_not_quoted() {
    use std::os::unix::ffi::OsStringExt;
    let folder = tempfile::tempdir().unwrap();
    let broken = [SENTINEL.as_bytes(), &[0xff]].concat();
    for provider in [
        "kind = \"restate\"\nadmin = { url = \"http://127.0.0.1:1\", bearer_env = \"BROKEN\" }\n\
         ingress = { url = \"http://127.0.0.1:1\" }\n",
        "kind = \"temporal\"\naddress = \"http://127.0.0.1:1\"\napi_key_env = \"BROKEN\"\n",
        "kind = \"builtin\"\n[[providers.p.webhooks]]\nname = \"w\"\nurl = \"http://127.0.0.1:1\"\n\
         secret_env = \"BROKEN\"\n",
        "kind = \"builtin\"\nstore = \"postgres://ada@127.0.0.1:1/s\"\nstore_password_env = \"BROKEN\"\n",
        "kind = \"temporal-host\"\naddress = \"http://127.0.0.1:1\"\napi_key_env = \"BROKEN\"\n",
        "kind = \"restate-host\"\nadmin = { url = \"http://127.0.0.1:1\" }\n\
         ingress = { url = \"http://127.0.0.1:1\", bearer_env = \"BROKEN\" }\n",
    ] {
        let config = format!("[providers.p]\n{provider}");
        std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
        let mut check = command(folder.path());
        check.args(["config", "check"]);
        check.env("BROKEN", std::ffi::OsString::from_vec(broken.clone()));
        let answer = finish(&mut check, "").exits(2);
        assert!(answer.err.contains("BROKEN"), "{}", answer.err);
        has_no_secret(&answer.err);
    }
}

#[test]
fn a_gateway_says_no_secret_in_its_log_its_errors_and_its_records() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    std::fs::write(
        folder.path().join("keys.json"),
        "{\"version\":1,\"keys\":[]}",
    )
    .unwrap();
    let probes = health::free_port();
    configure(folder.path(), probes);
    let create = ["keys", "create", "--subject", "ci", "--expires", "1h"];
    let key = finish(command(folder.path()).args(create), "").exits(0).out;
    let key = key.trim().to_owned();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--log", "trace"];
    let gateway = Running::begin(program(folder.path()).args(serve));
    let line = gateway.line("stateway is listening on ");
    let url = line.split(' ').find(|word| word.contains("://")).unwrap();
    let call = |token: &str| {
        std::fs::write(folder.path().join("token"), token).unwrap();
        let signal = ["signal", "providers/memory/executions/x", "go"];
        let security = ["--tls-ca", "ca.pem", "--token-file", "token"];
        ask(folder.path(), url, &[&signal[..], &security].concat())
    };
    // A key that is none, a token that is none, and a key that is one.
    let jwt = format!("e30.{SENTINEL}.{SENTINEL}");
    let forged = format!("stw_{SENTINEL}_{SENTINEL}");
    for token in [&*jwt, &forged] {
        let answer = call(token).exits(4);
        has_no_secret(&answer.err);
    }
    let answer = call(&key).exits(3);
    assert!(!answer.err.contains(&key));
    // Engines that do not answer are asked with their secrets.
    for provider in [
        "temporal",
        "restate",
        "shared",
        "temporal-host",
        "restate-host",
        "step-functions-host",
    ] {
        let name = format!("providers/{provider}/executions/x");
        let get = ["get", &name, "--timeout", "2s", "--tls-ca", "ca.pem"];
        let answer = ask(
            folder.path(),
            url,
            &[&get[..], &["--token-file", "token"]].concat(),
        );
        assert_ne!(answer.code, 0);
        has_no_secret(&answer.err);
    }
    let metrics = health::get(probes, "/metrics", "host: localhost\r\n");
    assert!(metrics.contains("stateway_"), "{metrics}");
    has_no_secret(&metrics);
    assert!(!metrics.contains(&key), "{metrics}");
    let said = gateway.said().join("\n");
    has_no_secret(&said);
    assert!(
        said.contains("API_KEY_UNKNOWN") && !said.contains(&key),
        "{said}"
    );
    let records = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    has_no_secret(&records);
    assert!(
        records.lines().count() >= 4 && !records.contains(&key),
        "{records}"
    );
    let verified = finish(command(folder.path()).args(["audit", "verify"]), "").exits(0);
    has_no_secret(&verified.out);
}
