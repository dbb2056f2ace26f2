//! Sign-in with a browser, over TLS: at a real OpenID provider, with an API key, and from the command
//! line.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::browser::{Browser, PATIENCE};
use crate::demo::binary;
use crate::stage::{mark, not_reloaded};

/// A process that ends with the test, and what it prints.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn begin(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (told, lines) = channel();
        let out: Box<dyn std::io::Read + Send> = Box::new(child.stdout.take().expect("piped"));
        let err: Box<dyn std::io::Read + Send> = Box::new(child.stderr.take().expect("piped"));
        for output in [out, err] {
            let told = told.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // A test that has ended does not listen any more.
                    let _ = told.send(line);
                }
            });
        }
        Self { child, lines }
    }

    /// The first line that holds a text.
    fn line(&self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with `{text}`: {seen:#?}"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already, and that is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The module of the provider, as `cargo xtask test` names it.
pub(crate) fn module() -> Result<PathBuf, String> {
    let named = std::env::var_os("STATEWAY_OIDC_PROVIDER").map(PathBuf::from);
    let reason = "STATEWAY_OIDC_PROVIDER does not name the module; `cargo xtask test` installs it";
    named
        .filter(|module| module.is_file())
        .ok_or_else(|| reason.to_owned())
}

fn provider(gateway: &str) -> (Process, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/oidc-provider/provider.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(gateway);
    let process = Process::begin(&mut node);
    let line = process.line("issuer ");
    let (_, issuer) = line.split_once(' ').expect("an issuer");
    let issuer = issuer.to_owned();
    (process, issuer)
}

/// A gateway over TLS with a home for the command line.
struct Stage {
    folder: tempfile::TempDir,
    url: String,
    issuer: String,
    _processes: Vec<Process>,
}

impl Stage {
    /// With a real provider, or with an API key only.
    fn new(browser: &Browser, has_provider: bool) -> Self {
        assert!(
            binary().is_file(),
            "`cargo build --package stateway-cli` builds the binary"
        );
        // The pages of the provider ask for a font; no test asks another machine for anything.
        browser.chrome("Network.enable", &json!({}));
        let fonts = json!({"urls": ["*://fonts.googleapis.com/*"]});
        browser.chrome("Network.setBlockedURLs", &fonts);
        // The certificate is of an authority that no browser knows.
        browser.chrome(
            "Security.setIgnoreCertificateErrors",
            &json!({"ignore": true}),
        );
        let folder = tempfile::tempdir().expect("a folder");
        certificates(folder.path());
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = free.local_addr().expect("an address");
        drop(free);
        let url = format!("https://localhost:{}", listen.port());
        let mut processes = Vec::new();
        let mut issuer = String::new();
        let mut config = "[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n\
                          [providers.memory]\nkind = \"memory\"\n\
                          [[access.rules]]\nname = \"everyone\"\n\
                          who = { subject = \"*\" }\nmay = \"admin\"\n\
                          [authentication.api_keys]\nfile = \"keys.json\"\n"
            .to_owned();
        if has_provider {
            let (process, named) = provider(&url);
            processes.push(process);
            issuer = named;
            std::fs::write(
                folder.path().join("secret"),
                "a secret/with+signs that is long enough\n",
            )
            .expect("a file");
            config.push_str(&format!(
                "[authentication.jwt]\nissuer = \"{issuer}\"\naudience = [\"stateway-cli\"]\n\
                 [authentication.sign_in.oidc]\npublic_url = \"{url}\"\nname = \"Example ID\"\n\
                 client_id = \"stateway-dashboard\"\nclient_secret_file = \"secret\"\n\
                 scopes = [\"openid\"]\n\
                 [authentication.sign_in.cli]\nclient_id = \"stateway-cli\"\n\
                 scopes = [\"openid\", \"offline_access\"]\n"
            ));
        }
        std::fs::write(folder.path().join("stateway.toml"), config).expect("a file");
        let mut stage = Self {
            folder,
            url,
            issuer,
            _processes: processes,
        };
        stage.run(&[
            "keys",
            "create",
            "--subject",
            "unused",
            "--file",
            "keys.json",
        ]);
        let gateway =
            Process::begin(&mut stage.command(&["serve", "--listen", &listen.to_string()]));
        gateway.line("stateway is listening on ");
        stage._processes.push(gateway);
        stage
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .current_dir(self.folder.path())
            .env_remove("STATEWAY_TOKEN")
            .env("STATEWAY_HOME", self.folder.path().join("home"))
            .args(arguments);
        command
    }

    /// What a command prints that succeeds.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the command runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
}

/// Signs in on the pages of the provider: a name, any password, and the consent.
fn at_provider(browser: &Browser, name: &str) {
    browser.fill("input[name=login]", name);
    browser.fill("input[name=password]", "any");
    browser.click("button[type=submit]");
    browser.until("the consent is asked for", || {
        browser.visible().contains("Authorize").then_some(())
    });
    browser.click("button[type=submit]");
}

fn at(browser: &Browser, address: &str) {
    browser.until(&format!("the browser is at {address}"), || {
        browser.url().starts_with(address).then_some(())
    });
}

pub(crate) async fn a_person_signs_in_at_a_real_provider_and_out_again(browser: &Browser) {
    let stage = Stage::new(browser, true);
    // A visitor is led to the sign-in, and comes back to the page.
    browser.go(&format!("{}/providers", stage.url));
    browser.sees("Sign in with Example ID");
    assert!(browser.url().ends_with("/sign-in?back=%2Fproviders"));
    browser.click("#provider");
    at(browser, &stage.issuer);
    at_provider(browser, "ada");
    at(browser, &format!("{}/providers", stage.url));
    browser.sees_in(".acting", "ada");
    browser.sees_in("#live", "live");
    // The browser keeps the cookie as it should, and no script sees it.
    let cookies = browser.cookies();
    let session = cookies
        .iter()
        .find(|it| it["name"] == "__Host-stateway-identity");
    let session = session.unwrap_or_else(|| panic!("{cookies:#?}"));
    assert_eq!(session["secure"], true);
    assert_eq!(session["httpOnly"], true);
    assert_eq!(session["sameSite"], "Lax");
    assert!(session["expiry"].is_number());
    let seen = browser.script("return document.cookie", &[]);
    assert_eq!(seen, json!(""));
    let who = browser.script(
        "return fetch('/whoami').then((answer) => answer.json())",
        &[],
    );
    let permissions = [
        "read",
        "read-payloads",
        "start",
        "signal",
        "approve",
        "steer",
        "stop",
        "define",
        "work",
        "operate",
    ];
    let expected = json!({
        "subject": "ada", "roles": ["ops"], "tenant": "acme", "method": "oidc",
        "permissions": permissions,
    });
    assert_eq!(who, expected);
    // The pages of the provider lack a font and an icon; that is not the business of the dashboard.
    let mut complaints = browser.complaints();
    complaints
        .retain(|line| !line.starts_with(&stage.issuer) && !line.contains("fonts.googleapis.com"));
    assert_eq!(complaints, [""; 0]);
    // The sign-out ends the session here and at the provider.
    browser.click(".sign-out button");
    at(browser, &format!("{}/session/end", stage.issuer));
    browser.sees("sign-out");
    browser.click("button[value=yes]");
    at(browser, &format!("{}/sign-in", stage.url));
    browser.go(&format!("{}/executions", stage.url));
    browser.sees("Sign in with Example ID");
    browser.click("#provider");
    // The provider asks again: nobody is signed in there.
    browser.until("the provider asks who it is", || {
        (browser.count("input[name=login]") > 0).then_some(())
    });
}

pub(crate) async fn a_session_that_ends_leads_an_open_page_to_the_sign_in(browser: &Browser) {
    let stage = Stage::new(browser, false);
    let create = [
        "keys",
        "create",
        "--subject",
        "ada",
        "--file",
        "keys.json",
        "-o",
        "json",
    ];
    let key: Value = serde_json::from_str(&stage.run(&create)).expect("JSON");
    browser.go(&format!("{}/executions?filter=", stage.url));
    // The gateway reads the file of keys every two seconds.
    browser.until("the key is accepted", || {
        if browser.count("input[name=key]") > 0 {
            browser.fill("input[name=key]", key["key"].as_str().expect("a key"));
            browser.click("form button");
        }
        browser.text(".acting").filter(|text| text.contains("ada"))
    });
    assert_eq!(browser.url(), format!("{}/executions?filter=", stage.url));
    browser.sees_in("#live", "live");
    mark(browser);
    not_reloaded(browser);
    let id = key["id"].as_str().expect("an id");
    stage.run(&["keys", "revoke", id, "--file", "keys.json"]);
    // The page that is open goes to the sign-in by itself.
    at(browser, &format!("{}/sign-in?back=", stage.url));
    assert!(browser.url().ends_with("back=%2Fexecutions%3Ffilter%3D"));
    browser.sees("API key");
    assert!(!browser.has_dialog());
}

pub(crate) async fn the_device_flow_is_confirmed_in_the_browser(browser: &Browser) {
    let stage = Stage::new(browser, true);
    let login = [
        "login", "--server", &stage.url, "--tls-ca", "ca.pem", "--device", "--name", "prod",
        "--yes",
    ];
    let process = Process::begin(&mut stage.command(&login));
    let line = process.line("The address with the code: ");
    let address = line
        .split(' ')
        .find(|word| word.starts_with("http://"))
        .expect("an address");
    browser.go(address);
    browser.click("button[type=submit]");
    browser.until("the provider asks who it is", || {
        (browser.count("input[name=login]") > 0).then_some(())
    });
    at_provider(browser, "ada");
    process.line("is now the current one");
    let who: Value = serde_json::from_str(&stage.run(&["whoami", "-o", "json"])).expect("JSON");
    assert_eq!(
        (&who["subject"], &who["roles"]),
        (&json!("ada"), &json!(["ops"]))
    );
    assert!(stage.run(&["providers", "list"]).contains("memory"));
    stage.run(&["logout"]);
    let refused = stage
        .command(&["whoami"])
        .output()
        .expect("the command runs");
    assert_eq!(refused.status.code(), Some(4));
}

pub(crate) async fn the_browser_flow_of_the_command_line_comes_back(browser: &Browser) {
    let stage = Stage::new(browser, true);
    let login = [
        "login",
        "--server",
        &stage.url,
        "--tls-ca",
        "ca.pem",
        "--browser",
        "--no-open",
        "--yes",
    ];
    let process = Process::begin(&mut stage.command(&login));
    let line = process.line("Sign in with a browser on this machine: ");
    let address = line
        .split(' ')
        .find(|word| word.starts_with("http://"))
        .expect("an address");
    browser.go(address);
    at_provider(browser, "grace");
    browser.sees("You are signed in.");
    process.line("is now the current one");
    assert!(stage.run(&["whoami"]).contains("grace"));
}
