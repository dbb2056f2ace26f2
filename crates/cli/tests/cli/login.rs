//! `stateway login`, `logout`, `whoami` and `contexts`, against a small OpenID provider.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;

use crate::binary::{Answer, Running, command, finish};
use crate::provider::Provider;
use crate::pty::Seen;
use crate::tls::{TLS, certificates, serve};

/// A provider, a gateway that trusts it, and a home for contexts.
struct Scene {
    folder: tempfile::TempDir,
    provider: Arc<Provider>,
    runtime: Runtime,
    _gateway: Running,
    url: String,
}

const KEYS: &str = "[authentication.api_keys]\nfile = \"keys.json\"\n";

/// Everyone who is known may do everything: these tests are about who somebody is.
const EVERYONE: &str =
    "[[access.rules]]\nname = \"everyone\"\nwho = { subject = \"*\" }\nmay = \"admin\"\n";

fn create_key(folder: &Path) -> String {
    let create = ["keys", "create", "--subject", "ci", "--file", "keys.json"];
    let made = finish(command(folder).args(create), "").exits(0);
    made.out.trim().to_owned()
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        certificates(folder.path());
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start());
        let config = format!(
            "{TLS}{EVERYONE}[authentication.jwt]\nissuer = \"{}\"\naudience = [\"stateway-cli\"]\n\
             [authentication.sign_in.cli]\nclient_id = \"stateway-cli\"\n",
            provider.issuer()
        );
        let (gateway, url) = serve(folder.path(), &config);
        Self {
            folder,
            provider,
            runtime,
            _gateway: gateway,
            url,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        at_home(self.folder.path(), arguments)
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        finish(&mut self.command(arguments), "")
    }

    fn sign_in(&self) -> Answer {
        let login = [
            "login", "--server", &self.url, "--tls-ca", "ca.pem", "--name", "prod", "--yes",
        ];
        self.run(&login).exits(0)
    }

    fn kept(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("home/credentials").join(name)
    }

    /// The token that is kept, in the first line of its file.
    fn token(&self) -> String {
        let text = std::fs::read_to_string(self.kept("prod.token")).unwrap();
        text.lines().next().unwrap().to_owned()
    }
}

fn at_home(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = command(folder);
    command
        .env("STATEWAY_HOME", folder.join("home"))
        .args(arguments);
    command
}

#[test]
fn the_device_flow_signs_in_until_the_logout() {
    let scene = Scene::new();
    scene.provider.habits().pending = 2;
    let answer = scene.sign_in();
    assert!(answer.err.contains("ABCD-EFGH"), "{}", answer.err);
    assert!(
        answer
            .err
            .contains(&format!("{}/confirm", scene.provider.issuer()))
    );
    assert!(answer.out.contains("ada@example.org"), "{}", answer.out);
    for name in ["prod.token", "prod.json"] {
        let mode = std::fs::metadata(scene.kept(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let token = scene.token();
    assert!(!format!("{answer:?}").contains(token.trim()));
    // Commands use the context: address, authority and token.
    let list = scene.run(&["providers", "list", "-o", "json"]).exits(0);
    assert_eq!(list.json()["providers"][0]["name"], "providers/memory");
    let who = scene.run(&["whoami", "-o", "json"]).exits(0).json();
    assert_eq!(who["subject"], "ada@example.org");
    assert_eq!(
        (&who["context"], &who["method"]),
        (&"prod".into(), &"jwt".into())
    );
    // The refresh token is given back, and nothing is left.
    let out = scene.run(&["logout"]).exits(0);
    assert!(out.err.contains("revoked"), "{}", out.err);
    assert_eq!(scene.provider.habits().revoked, ["refresh-0"]);
    assert!(!scene.kept("prod.token").exists() && !scene.kept("prod.json").exists());
    let answer = scene.run(&["whoami"]).exits(4);
    assert!(answer.err.contains("CREDENTIALS_MISSING"), "{}", answer.err);
}

#[test]
fn the_browser_flow_comes_back_to_this_machine() {
    let scene = Scene::new();
    let arguments = [
        "login",
        "--server",
        &scene.url,
        "--tls-ca",
        "ca.pem",
        "--browser",
        "--no-open",
        "--yes",
    ];
    let login = Running::begin(&mut scene.command(&arguments));
    let line = login.line("Sign in with a browser on this machine: ");
    let address = line
        .split(' ')
        .find(|word| word.starts_with("http://"))
        .unwrap()
        .to_owned();
    stateway_gateway::use_ring();
    let text = scene.runtime.block_on(async {
        let client = reqwest::Client::builder()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let sent = client.get(&address).send().await.unwrap();
        let back = sent.headers()["location"].to_str().unwrap().to_owned();
        assert!(back.starts_with("http://127.0.0.1:"), "{back}");
        // What another page sends to the port changes nothing.
        let forged = back.replace("state=", "state=x");
        let refused = client.get(&forged).send().await.unwrap();
        assert_eq!(refused.status(), 404);
        client
            .get(&back)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    });
    assert!(text.contains("You are signed in"), "{text}");
    login.line("is now the current one");
    let who = scene.run(&["whoami"]).exits(0);
    assert!(who.out.contains("ada@example.org"), "{}", who.out);
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let scene = Scene::new();
    scene.provider.habits().lifetime = Some(30);
    scene.sign_in();
    let first = scene.token();
    // A second passes: another token is another text.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    scene.run(&["providers", "list"]).exits(0);
    let asked = scene
        .provider
        .habits()
        .token_requests
        .last()
        .unwrap()
        .clone();
    assert_eq!(asked["grant_type"], "refresh_token");
    assert_ne!(scene.token(), first);
    let kept = std::fs::read_to_string(scene.kept("prod.json")).unwrap();
    assert!(
        kept.contains("refresh-1"),
        "the new refresh token replaces the old one"
    );
    // A refresh token that is refused asks for a new sign-in.
    std::fs::write(
        scene.kept("prod.json"),
        kept.replace("refresh-1", "refresh-9"),
    )
    .unwrap();
    let answer = scene.run(&["providers", "list"]).exits(4);
    assert!(answer.err.contains("invalid_grant"), "{}", answer.err);
    assert!(answer.err.contains("stateway login"), "{}", answer.err);
}

#[test]
fn a_gateway_without_sign_in_takes_a_key_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let key = create_key(folder.path());
    let (_gateway, url) = serve(folder.path(), &format!("{TLS}{KEYS}{EVERYONE}"));
    let login = [
        "login", "--server", &url, "--tls-ca", "ca.pem", "--name", "prod",
    ];
    let answer = finish(&mut at_home(folder.path(), &login), "stw_wrong_key\n").exits(4);
    assert!(answer.err.contains("API_KEY_UNKNOWN"), "{}", answer.err);
    assert!(!folder.path().join("home/credentials").exists());
    finish(&mut at_home(folder.path(), &login), "").exits(2);
    let answer = finish(&mut at_home(folder.path(), &login), &format!("{key}\n")).exits(0);
    assert!(answer.out.contains("ci"), "{}", answer.out);
    assert!(!format!("{answer:?}").contains(&key));
    finish(&mut at_home(folder.path(), &["providers", "list"]), "").exits(0);
    let device = [&login[..], &["--device"]].concat();
    finish(&mut at_home(folder.path(), &device), "").exits(5);
    // A file that others can read is not used.
    let file = folder.path().join("home/credentials/prod.token");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let answer = finish(&mut at_home(folder.path(), &["providers", "list"]), "").exits(4);
    assert!(answer.err.contains("other users"), "{}", answer.err);
    // A new sign-in replaces it.
    finish(&mut at_home(folder.path(), &login), &key).exits(0);
    finish(&mut at_home(folder.path(), &["providers", "list"]), "").exits(0);
}

#[test]
fn a_key_that_is_typed_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let key = create_key(folder.path());
    let (_gateway, url) = serve(folder.path(), &format!("{TLS}{KEYS}{EVERYONE}"));
    let login = [
        "login", "--server", &url, "--tls-ca", "ca.pem", "--name", "prod",
    ];
    for (keys, code) in [
        (format!("x\u{7f}{key}\r"), 0),
        ("secret\u{3}".to_owned(), 130),
    ] {
        let mut typed = Seen::begin_with_messages(&mut at_home(folder.path(), &login));
        typed.shows("(not shown)");
        typed.press(&keys);
        assert_eq!(typed.code(), Some(code), "{}", typed.bytes());
        assert!(typed.is_as_it_was());
        let shown = typed.bytes();
        assert!(
            !shown.contains(&key) && !shown.contains("secret"),
            "{shown}"
        );
    }
    finish(&mut at_home(folder.path(), &["providers", "list"]), "").exits(0);
}

#[test]
fn the_credentials_of_a_context_go_to_its_own_gateway_only() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let key = create_key(folder.path());
    let (_one, first) = serve(folder.path(), &format!("{TLS}{KEYS}{EVERYONE}"));
    let (_two, second) = serve(folder.path(), &format!("{TLS}{KEYS}{EVERYONE}"));
    let run = |arguments: &[&str]| finish(&mut at_home(folder.path(), arguments), &key);
    for (name, url) in [("one", &first), ("two", &second)] {
        run(&[
            "login",
            "--server",
            url,
            "--tls-ca",
            "ca.pem",
            "--name",
            name,
            "--with-token",
        ])
        .exits(0);
    }
    let list = run(&["contexts", "list", "-o", "json"]).exits(0).json();
    let names: Vec<_> = list["contexts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(names, ["one", "two"]);
    let server = |arguments: &[&str]| run(arguments).exits(0).json()["server"].clone();
    assert_eq!(server(&["whoami", "-o", "json"]), second);
    assert_eq!(server(&["whoami", "-o", "json", "--context", "one"]), first);
    run(&["contexts", "use", "one"]).exits(0);
    assert_eq!(server(&["whoami", "-o", "json"]), first);
    // Another address gets no credential of the current context.
    let other = ["whoami", "--server", &second, "--tls-ca", "ca.pem"];
    let answer = run(&other).exits(4);
    assert!(answer.err.contains("CREDENTIALS_MISSING"), "{}", answer.err);
    run(&["whoami", "--server", &second, "--context", "one"]).exits(2);
    run(&["whoami", "--context", "three"]).exits(3);
    run(&["contexts", "use", "three"]).exits(3);
    run(&["contexts", "delete", "one"]).exits(0);
    assert!(!folder.path().join("home/credentials/one.token").exists());
    let list = run(&["contexts", "list", "-o", "json"]).exits(0).json();
    assert_eq!(list["contexts"].as_array().unwrap().len(), 1);
    run(&["contexts", "delete", "one"]).exits(3);
}

#[test]
fn a_gateway_that_asks_for_nothing_becomes_a_context_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let (_gateway, url) = serve(folder.path(), "");
    let login = ["login", "--server", &url, "--name", "local"];
    let answer = finish(&mut at_home(folder.path(), &login), "").exits(0);
    assert!(
        answer.err.contains("has no authentication"),
        "{}",
        answer.err
    );
    finish(&mut at_home(folder.path(), &["providers", "list"]), "").exits(0);
}

const SIGN_IN: &str = "\
[authentication.jwt]
issuer = \"https://id.example.org\"
audience = [\"stateway\"]
header = \"x-assertion\"
[authentication.sign_in.oidc]
public_url = \"https://stateway.example.org\"
client_id = \"dashboard\"
client_secret_file = \"client-secret\"
[authentication.sign_in.cli]
client_id = \"cli\"
token = \"access_token\"
";

fn check(text: &str) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
    std::fs::write(folder.path().join("client-secret"), "hunter2").unwrap();
    finish(
        command(folder.path()).args(["config", "check", "c.toml"]),
        "",
    )
}

#[test]
fn the_configuration_of_the_sign_in_is_checked_and_shows_no_secret() {
    let good = check(SIGN_IN).exits(0);
    for text in [
        "client-secret",
        "idle_timeout = \"30m\"",
        "token = \"access_token\"",
    ] {
        assert!(good.out.contains(text), "{text}: {}", good.out);
    }
    assert!(!format!("{good:?}").contains("hunter2"));
    let file = "client_secret_file = \"client-secret\"";
    for (from, to, expected) in [
        (
            "https://stateway.example.org",
            "http://stateway.example.org",
            "public_url",
        ),
        (
            "https://stateway.example.org",
            "https://stateway.example.org/x",
            "public_url",
        ),
        (
            file,
            "client_secret_file = \"a\"\nclient_secret_env = \"B\"",
            "not both",
        ),
        (file, "client_secret = \"hunter2\"", "client_secret"),
        (file, "scopes = [\"profile\"]", "openid"),
        ("\"access_token\"", "\"refresh_token\"", "refresh_token"),
        ("\"x-assertion\"", "\"x assertion\"", "header"),
        (
            "[authentication.sign_in.oidc]",
            "[authentication.sign_in]\nlifetime = \"1s\"\n[authentication.sign_in.oidc]",
            "at least 1m",
        ),
    ] {
        let answer = check(&SIGN_IN.replace(from, to)).exits(2);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
        assert!(!answer.err.contains("hunter2"), "{}", answer.err);
    }
}

/// A server on all addresses of this machine that answers like a gateway with API keys, and keeps what it was
/// sent.
fn listener() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::<Mutex<String>>::default();
    let sink = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            sink.lock().unwrap().push_str(&request);
            let body = if request.contains("/sign-in/methods") {
                r#"{"authentication": true, "oidc": null, "api_keys": true, "tokens": true}"#
            } else {
                r#"{"subject": "ci", "roles": [], "tenant": null, "method": "api-key"}"#
            };
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close");
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    (port, seen)
}

#[test]
fn a_token_is_not_sent_without_encryption() {
    let folder = tempfile::tempdir().unwrap();
    let (port, seen) = listener();
    // An address that is not one of this machine alone.
    let url = format!("http://0.0.0.0:{port}");
    let login = ["login", "--server", &url, "--with-token", "--name", "prod"];
    let answer = finish(&mut at_home(folder.path(), &login), "s3cret-token\n").exits(4);
    assert!(answer.err.contains("without encryption"), "{}", answer.err);
    assert!(!folder.path().join("home/credentials").exists());
    let mut whoami = at_home(folder.path(), &["whoami", "--server", &url]);
    let answer = finish(whoami.env("STATEWAY_TOKEN", "s3cret-token"), "").exits(4);
    assert!(answer.err.contains("without encryption"), "{}", answer.err);
    let seen = seen.lock().unwrap().to_ascii_lowercase();
    assert!(seen.contains("/sign-in/methods"), "{seen}");
    assert!(
        !seen.contains("s3cret") && !seen.contains("authorization"),
        "{seen}"
    );
}

#[test]
fn a_proxy_does_not_see_what_is_sent_to_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let ((gateway, seen), (proxy, seen_by_proxy)) = (listener(), listener());
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{gateway}");
        let mut whoami = at_home(folder.path(), &["whoami", "--server", &url]);
        let proxy = format!("http://127.0.0.1:{proxy}");
        whoami.env("STATEWAY_TOKEN", "s3cret-token");
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            whoami.env(name, &proxy);
        }
        finish(&mut whoami, "").exits(0);
    }
    assert!(seen.lock().unwrap().contains("s3cret-token"));
    assert_eq!(*seen_by_proxy.lock().unwrap(), "");
}

/// Passes connections on to a gateway until they are cut.
struct Line {
    port: u16,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn to(url: &str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let open = streams.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let far = TcpStream::connect(&address).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        // A connection that is cut ends the copy.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
                open.lock().unwrap().extend([near, far]);
            }
        });
        Self { port, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Two gateways with a key each: folder, gateway, address, key.
fn two_gateways() -> [(tempfile::TempDir, Running, String, String); 2] {
    [(), ()].map(|()| {
        let folder = tempfile::tempdir().unwrap();
        let key = create_key(folder.path());
        let (gateway, url) = serve(folder.path(), &format!("{KEYS}{EVERYONE}"));
        (folder, gateway, url, key)
    })
}

#[test]
fn a_running_watch_does_not_send_the_credential_of_another_gateway() {
    let [
        (folder, _one, first, first_key),
        (_other, _two, second, second_key),
    ] = two_gateways();
    let line = Line::to(&first);
    let through = format!("http://127.0.0.1:{}", line.port);
    let login = |url: &str, key: &str| {
        let login = ["login", "--server", url, "--name", "prod", "--with-token"];
        finish(&mut at_home(folder.path(), &login), key).exits(0);
    };
    login(&through, &first_key);
    let watch = Running::begin(&mut at_home(
        folder.path(),
        &["watch", "--provider", "memory"],
    ));
    let start = |id: &str| {
        let start = ["start", "memory/script", "--id", id, "--server", &first];
        let mut start = at_home(folder.path(), &start);
        start.args(["--input", crate::scripts::WAITING]);
        finish(start.env("STATEWAY_TOKEN", &first_key), "").exits(0);
    };
    start("before");
    watch.line("memory/before");
    // The name of the context is used for another gateway now.
    login(&second, &second_key);
    // Token files are checked every second.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    line.cut();
    start("after");
    watch.line("memory/after");
    assert!(
        !watch.said().iter().any(|line| line.contains("API_KEY")),
        "{:?}",
        watch.said()
    );
}

#[test]
fn a_context_that_cannot_be_saved_gets_no_credential_of_another_gateway() {
    let [
        (folder, _one, first, first_key),
        (_other, _two, second, second_key),
    ] = two_gateways();
    let login = |url: &str, key: &str| {
        let login = ["login", "--server", url, "--name", "prod", "--with-token"];
        finish(&mut at_home(folder.path(), &login), key)
    };
    login(&first, &first_key).exits(0);
    // A folder in place of the lock: the contexts cannot be changed.
    let lock = folder.path().join("home/contexts.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    login(&second, &second_key).exits(4);
    let whoami = finish(&mut at_home(folder.path(), &["whoami"]), "").exits(4);
    assert!(whoami.err.contains("CREDENTIALS_MISSING"), "{}", whoami.err);
    // A file that is put there by other means is not used either.
    let kept = folder.path().join("home/credentials/prod.token");
    std::fs::write(&kept, format!("{second_key}\n{second}\n")).unwrap();
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o600)).unwrap();
    let whoami = finish(&mut at_home(folder.path(), &["whoami"]), "").exits(4);
    assert!(whoami.err.contains("CREDENTIALS_MISSING"), "{}", whoami.err);
}

/// The transcript in docs/sign-in.md is that of this sign-in, with other addresses and another code.
fn compare_with_the_documentation(scene: &Scene, screen: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sign-in.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, shown) = page.split_once("\n$ stateway login --server").unwrap();
    let shown = shown.split("\n$ ").next().unwrap().lines().skip(1);
    let shown: Vec<_> = shown.map(|line| words(line, &[])).collect();
    let issuer = scene.provider.issuer();
    let names = [
        (issuer.as_str(), "https://id.example.org"),
        (scene.url.as_str(), "https://stateway.example.org"),
        ("ABCD-EFGH", "WDJB-MJHT"),
        ("/confirm", "/device"),
    ];
    let seen: Vec<_> = screen.lines().map(|line| words(line, &names)).collect();
    let seen: Vec<_> = seen.into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(seen, shown);
}

/// Words without the widths of columns, with some names replaced.
fn words(line: &str, names: &[(&str, &str)]) -> String {
    let mut line = line.to_owned();
    for (from, to) in names {
        line = line.replace(from, to);
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_person_confirms_where_a_sign_in_leads() {
    let scene = Scene::new();
    let login = [
        "login", "--server", &scene.url, "--tls-ca", "ca.pem", "--name", "prod",
    ];
    // Without a terminal nobody can be asked.
    let answer = scene.run(&login).exits(2);
    assert!(answer.err.contains("--yes"), "{}", answer.err);
    let mut refused = Seen::begin_with_messages(&mut scene.command(&login));
    refused.shows("[y/N]");
    let screen = refused.screen();
    for text in [
        scene.provider.issuer().as_str(),
        "stateway-cli",
        "openid",
        &scene.url,
    ] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    refused.press("n\n");
    assert_eq!(refused.code(), Some(4));
    assert_eq!(scene.provider.habits().token_requests.len(), 0);
    assert!(!scene.kept("prod.token").exists());
    let mut agreed = Seen::begin_with_messages(&mut scene.command(&login));
    agreed.shows("[y/N]");
    agreed.press("y\n");
    assert_eq!(agreed.code(), Some(0));
    compare_with_the_documentation(&scene, &agreed.screen());
    // The same gateway, provider and client are not asked about again.
    let answer = scene.run(&login).exits(0);
    assert!(
        answer.err.contains(&scene.provider.issuer()),
        "{}",
        answer.err
    );
}

#[test]
fn an_interval_that_makes_no_sense_is_bounded() {
    let scene = Scene::new();
    for interval in ["0", "18446744073709551615"] {
        scene.provider.habits().interval = interval.parse().ok();
        scene.provider.habits().pending = 3;
        scene.provider.habits().token_requests.clear();
        let mut login = Running::begin(&mut scene.command(&[
            "login", "--server", &scene.url, "--tls-ca", "ca.pem", "--name", "prod", "--yes",
        ]));
        login.line("ABCD-EFGH");
        std::thread::sleep(std::time::Duration::from_millis(300));
        // The first question comes after a second, whatever the provider asks for.
        assert_eq!(
            scene.provider.habits().token_requests.len(),
            0,
            "{interval}"
        );
        if interval == "0" {
            assert_eq!(login.code(), 0);
        } else {
            assert!(!login.said().iter().any(|line| line.contains("panicked")));
        }
    }
}

#[test]
fn silent_connections_do_not_delay_the_browser() {
    let scene = Scene::new();
    let arguments = [
        "login",
        "--server",
        &scene.url,
        "--tls-ca",
        "ca.pem",
        "--browser",
        "--no-open",
        "--yes",
    ];
    let mut login = Running::begin(&mut scene.command(&arguments));
    let line = login.line("Sign in with a browser on this machine: ");
    let address = line
        .split(' ')
        .find(|word| word.starts_with("http://"))
        .unwrap()
        .to_owned();
    stateway_gateway::use_ring();
    let began = std::time::Instant::now();
    scene.runtime.block_on(async {
        let client = reqwest::Client::builder()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let sent = client.get(&address).send().await.unwrap();
        let back = sent.headers()["location"].to_str().unwrap().to_owned();
        let callback = back
            .trim_start_matches("http://")
            .split('/')
            .next()
            .unwrap();
        let silent: Vec<_> = (0..4)
            .map(|_| TcpStream::connect(callback).unwrap())
            .collect();
        client.get(&back).send().await.unwrap();
        drop(silent);
    });
    assert_eq!(login.code(), 0);
    assert!(
        began.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}
