//! Starts and ends the emulator.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Emulator {
    process: std::sync::Mutex<Child>,
    port: u16,
    home: PathBuf,
}

impl Emulator {
    pub(crate) fn start(python: &Path) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let launcher = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/peers/step-functions/sfn_emulator.py");
        // A port that is free now. Whoever takes it in between makes the start fail, loudly.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(text)?
            .port();
        let home = std::env::temp_dir().join(format!("stateway-sfn-{}", std::process::id()));
        std::fs::create_dir_all(&home).map_err(text)?;
        let log = File::create(home.join("emulator.log")).map_err(text)?;
        let process = Command::new(python)
            .arg(&launcher)
            .envs([
                ("GATEWAY_LISTEN", format!("127.0.0.1:{port}")),
                (
                    "FILESYSTEM_ROOT",
                    home.join("state").to_string_lossy().into_owned(),
                ),
                // The default server listens on every interface, whatever is said above.
                ("GATEWAY_SERVER", "hypercorn".to_owned()),
                ("DNS_ADDRESS", "0".to_owned()),
                ("DISABLE_EVENTS", "1".to_owned()),
                ("SKIP_SSL_CERT_DOWNLOAD", "1".to_owned()),
                (
                    "SERVICES",
                    "stepfunctions,sqs,iam,sts,events,logs".to_owned(),
                ),
                ("STRICT_SERVICE_LOADING", "1".to_owned()),
                ("EAGER_SERVICE_LOADING", "1".to_owned()),
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(text)?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        let emulator = Self {
            process: std::sync::Mutex::new(process),
            port,
            home,
        };
        emulator.wait_until_ready()?;
        Ok(emulator)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("emulator.log")
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(mut process) = self.process.lock()
                && let Ok(Some(status)) = process.try_wait()
            {
                let log = std::fs::read_to_string(self.log()).unwrap_or_default();
                return Err(format!("it ended with {status}:\n{log}"));
            }
            if self
                .health()
                .is_some_and(|told| told.contains("\"stepfunctions\": \"running\""))
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        Err(format!("it is not ready after {PATIENCE:?}:\n{log}"))
    }

    fn health(&self) -> Option<String> {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        line.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let request = "GET /_localstack/health HTTP/1.0\r\nHost: localhost\r\n\r\n";
        line.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        line.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Ok(process) = self.process.get_mut() {
            // It holds nothing that is worth a clean end.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
