//! A Chromium of the test's own, spoken to by WebDriver. It ends with the test, however that ends.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::driver::Driver;
use crate::wire::exchange;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);
/// Keys, as WebDriver writes them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
/// The key under which WebDriver hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

/// Where Chromium and its driver are.
#[derive(Clone)]
pub(crate) struct Programs {
    chromium: PathBuf,
    driver: PathBuf,
}

impl Programs {
    /// As `cargo xtask test` names them, or where Debian puts them.
    pub(crate) fn here() -> Result<Self, String> {
        if std::env::var("STATEWAY_BROWSER_TESTS").is_ok_and(|told| told == "off") {
            return Err("STATEWAY_BROWSER_TESTS is off".to_owned());
        }
        let place = |variable: &str, usual: &str| {
            let place = std::env::var_os(variable).map_or_else(|| usual.into(), PathBuf::from);
            if place.is_file() {
                Ok(place)
            } else {
                let place = place.display();
                Err(format!(
                    "{place} does not exist; `cargo xtask test` installs it"
                ))
            }
        };
        Ok(Self {
            chromium: place("STATEWAY_CHROMIUM", "/usr/bin/chromium")?,
            driver: place("STATEWAY_CHROMEDRIVER", "/usr/bin/chromedriver")?,
        })
    }
}

/// One browser with a profile of its own.
pub(crate) struct Browser {
    driver: Driver,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn open(programs: &Programs) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let driver = Driver::start(|| {
            let mut command = Command::new(&programs.driver);
            command.arg("--port=0");
            command
        });
        let driver = driver.unwrap_or_else(|error| panic!("{error}"));
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            // A dialog stays open, so that a test can see that there is one.
            "unhandledPromptBehavior": "ignore",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": programs.chromium, "args": flags},
        }}});
        let mut browser = Self {
            driver,
            session: String::new(),
            _profile: profile,
        };
        let begun = exchange(browser.driver.port, "POST", "/session", Some(&wanted));
        let begun = begun.expect("the driver answers");
        let id = begun.1["value"]["sessionId"].as_str();
        browser.session = id
            .unwrap_or_else(|| panic!("no session: {begun:?}"))
            .to_owned();
        browser
    }

    /// One command of WebDriver; its value, or the driver's word for what went wrong.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        let answer = exchange(self.driver.port, method, &path, body);
        let (status, mut answer) = answer.expect("the driver answers");
        match status {
            200 => Ok(answer["value"].take()),
            _ => Err(format!(
                "{}: {}",
                answer["value"]["error"].as_str().unwrap_or_default(),
                answer["value"]["message"].as_str().unwrap_or_default()
            )),
        }
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        let told = self.ask("POST", path, Some(body));
        told.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    pub(crate) fn go(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    pub(crate) fn url(&self) -> String {
        let url = self.ask("GET", "/url", None).expect("a URL");
        url.as_str().unwrap_or_default().to_owned()
    }

    /// The cookies of the page, those that no script sees included.
    pub(crate) fn cookies(&self) -> Vec<Value> {
        let cookies = self.ask("GET", "/cookie", None).expect("cookies");
        cookies.as_array().cloned().unwrap_or_default()
    }

    /// What a piece of script returns.
    pub(crate) fn script(&self, body: &str, arguments: &[Value]) -> Value {
        self.tell("/execute/sync", &json!({"script": body, "args": arguments}))
    }

    /// A command of the browser's own protocol.
    pub(crate) fn chrome(&self, command: &str, parameters: &Value) {
        self.tell(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        );
    }

    /// What `look` finds, as soon as it finds something.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if begin.elapsed() > PATIENCE {
                panic!("not within {PATIENCE:?}: {what}\n{}", self.shown());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the page shows this text.
    #[track_caller]
    pub(crate) fn sees(&self, text: &str) {
        self.until(&format!("`{text}` is shown"), || {
            self.visible().contains(text).then_some(())
        });
    }

    /// Waits until the first element of this selector holds this text.
    #[track_caller]
    pub(crate) fn sees_in(&self, selector: &str, text: &str) {
        self.until(&format!("`{text}` is shown in {selector}"), || {
            self.text(selector)?.contains(text).then_some(())
        });
    }

    /// The text of the first element of this selector, if there is one.
    pub(crate) fn text(&self, selector: &str) -> Option<String> {
        let script = "const found = document.querySelector(arguments[0]); \
                      return found && found.innerText";
        let text = self.script(script, &[json!(selector)]);
        text.as_str().map(str::to_owned)
    }

    /// All the text that a person sees.
    pub(crate) fn visible(&self) -> String {
        self.text("body").unwrap_or_default()
    }

    /// How many elements this selector has.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.script(script, &[json!(selector)])
            .as_u64()
            .unwrap_or_default()
    }

    /// Clicks, as a person would: what is covered or hidden cannot be clicked. What a live page
    /// replaces under the mouse is looked for again.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.on_element(selector, "click", &json!({}));
    }

    /// Empties a field and types into it.
    #[track_caller]
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        self.on_element(selector, "clear", &json!({}));
        self.on_element(selector, "value", &json!({"text": text}));
    }

    #[track_caller]
    fn on_element(&self, selector: &str, verb: &str, body: &Value) {
        let mut trouble = String::new();
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let wanted = json!({"using": "css selector", "value": selector});
            let done = self
                .ask("POST", "/element", Some(&wanted))
                .and_then(|found| {
                    let id = found[ELEMENT].as_str().unwrap_or_default().to_owned();
                    self.ask("POST", &format!("/element/{id}/{verb}"), Some(body))
                });
            match done {
                Ok(_) => return,
                Err(error) => trouble = error,
            }
            std::thread::sleep(LOOK);
        }
        panic!("{verb} on {selector}: {trouble}\n{}", self.shown());
    }

    /// Presses keys one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
            })
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.tell("/actions", &json!({"actions": [keyboard]}));
    }

    /// A window of another size, as a phone has.
    pub(crate) fn phone(&self) {
        let size = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
        self.chrome("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the person has asked the system for.
    pub(crate) fn prefers(&self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.chrome(
            "Emulation.setEmulatedMedia",
            &json!({"features": [feature]}),
        );
    }

    /// Whether a dialog is open.
    pub(crate) fn has_dialog(&self) -> bool {
        self.ask("GET", "/alert/text", None).is_ok()
    }

    /// What the browser has complained of since it was last asked: errors of scripts, refusals of
    /// the Content-Security-Policy, answers that failed.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.tell("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The page as a picture.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let picture = self.ask("GET", "/screenshot", None).expect("a picture");
        STANDARD
            .decode(picture.as_str().unwrap_or_default())
            .expect("base64")
    }

    /// Where the browser is and what it shows, for the message of a failing test.
    fn shown(&self) -> String {
        format!(
            "at {}:\n{}\n{:#?}",
            self.url(),
            self.visible(),
            self.complaints()
        )
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with the session; both may have ended already.
        let path = format!("/session/{}", self.session);
        let _ = exchange(self.driver.port, "DELETE", &path, None);
    }
}
