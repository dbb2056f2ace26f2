//! `stateway demo` in a browser, and the pictures of it for the documentation.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::Browser;

const SIX: [&str; 6] = [
    "backing-off",
    "error",
    "failed",
    "running",
    "succeeded",
    "waiting",
];

/// A demo that ends with the test.
pub(crate) struct Demo {
    process: Child,
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

impl Demo {
    pub(crate) fn begin() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut process = Command::new(binary())
            .args(["demo", "--listen", "127.0.0.1:0", "--path"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the demo starts");
        let output = process.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let url = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            words
                .find(|word| word.starts_with("http://"))
                .map(str::to_owned)
        });
        // What else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            url: url.expect("it says where it listens"),
            _folder: folder,
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may be gone already, and that is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The binary that the tests are of: named, or built beside them.
pub(crate) fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("STATEWAY_BINARY") {
        return named.into();
    }
    let own = std::env::current_exe().expect("this program has a place");
    let beside = own
        .parent()
        .and_then(Path::parent)
        .expect("a target folder");
    beside.join("stateway")
}

pub(crate) async fn the_demo_shows_all_six_sub_states_within_a_minute(browser: &Browser) {
    assert!(
        binary().is_file(),
        "{} is not built: `cargo build --package stateway-cli`",
        binary().display()
    );
    let demo = Demo::begin();
    let begin = Instant::now();
    browser.go(&demo.url);
    let mut seen = BTreeSet::new();
    // The list is live: what is on the page without a reload is enough, once every row was there.
    while seen.len() < SIX.len() && begin.elapsed() < Duration::from_secs(60) {
        let words = "return [...document.querySelectorAll('tr.row .badge')].map(b => b.innerText)";
        let words = browser.script(words, &[]);
        seen.extend(words.as_array().into_iter().flatten().filter_map(|word| {
            let word = word.as_str().unwrap_or_default().trim();
            SIX.contains(&word).then(|| word.to_owned())
        }));
        if browser.count("a.fresh") > 0 {
            browser.script("document.querySelector('a.fresh')?.click()", &[]);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = begin.elapsed();
    println!(
        "summary: the demo showed {} sub-states in {took:.1?}",
        seen.len()
    );
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), SIX);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// A picture: its name, the page, and the light.
struct Picture {
    name: &'static str,
    path: String,
    light: &'static str,
}

/// Writes the pictures that README.md and docs/ show. `cargo xtask screenshots` asks for it.
pub(crate) async fn screenshots(browser: &Browser) {
    let folder = PathBuf::from(std::env::var_os("STATEWAY_SCREENSHOTS").expect("it is set"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let demo = Demo::begin();
    browser.go(&format!("{}/acting", demo.url));
    browser.fill("input[name=actor]", "ada");
    browser.fill("input[name=roles]", "release-manager, ops");
    browser.click("#question button.primary");
    // Long enough for every sub-state, for decisions and for escalations.
    std::thread::sleep(Duration::from_secs(50));
    browser.go(&format!("{}/inbox", demo.url));
    browser.click("#requests .card:last-child a.primary");
    browser.fill(
        "dialog textarea[name=comment]",
        "Checked the notes, go ahead.",
    );
    browser.click("dialog button.primary");
    browser.sees("Granted:");
    // Of all executions, one that backs off has most to see.
    let execution = first_of(browser, &demo.url, "sub_state%20%3D%20%22backing-off%22");
    let parent = first_of(browser, &demo.url, "definition%20%3D%20nightly");
    let pictures = [
        picture("executions", "/executions", "light"),
        picture("executions-dark", "/executions", "dark"),
        picture("execution", &execution, "light"),
        picture("family", &parent, "light"),
        picture("inbox", "/inbox", "light"),
        picture("workers", "/workers", "light"),
        picture("definition", "/definitions/order-saga", "light"),
    ];
    let size = json!({"width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": false});
    browser.chrome("Emulation.setDeviceMetricsOverride", &size);
    browser.chrome("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    for picture in pictures {
        browser.prefers(picture.light);
        browser.go(&format!("{}{}", demo.url, picture.path));
        std::thread::sleep(Duration::from_millis(1_500));
        let path = folder.join(format!("{}.png", picture.name));
        std::fs::write(&path, browser.screenshot()).expect("it can be written");
        println!("wrote {}", path.display());
    }
}

fn picture(name: &'static str, path: &str, light: &'static str) -> Picture {
    Picture {
        name,
        path: path.to_owned(),
        light,
    }
}

/// The page of the first execution that matches a filter.
fn first_of(browser: &Browser, url: &str, filter: &str) -> String {
    browser.go(&format!("{url}/executions?filter={filter}"));
    browser.until("an execution", || {
        let href = "return document.querySelector('tr.row a.go')?.getAttribute('href')";
        browser.script(href, &[]).as_str().map(str::to_owned)
    })
}
