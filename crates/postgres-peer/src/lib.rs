//! A PostgreSQL server of its own for a test: on a free port of this machine, in a folder that is removed at the end, as
//! a user without rights.
//!
//! The server ends with the process that started it, however that process ends.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The folder of the programs of PostgreSQL 15.
pub const VARIABLE: &str = "STATEWAY_POSTGRES";
/// The folder of the programs of PostgreSQL 18.
pub const NEWER_VARIABLE: &str = "STATEWAY_POSTGRES_NEWER";

/// The user that PostgreSQL runs as if a test runs as root, which PostgreSQL refuses.
const USER: &str = "postgres";
/// How long the server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ends the server when the test asks for it, or when the process of the test has ended and its end of the pipe is
/// closed. Then this script also removes the data, because no other process does.
const WATCH: &str = "data=$1; shift; \"$@\" & server=$!; read word; kill -QUIT $server; wait $server; \
     [ \"$word\" = keep ] || rm -rf \"$data\"";

/// The programs that a variable names.
///
/// # Errors
/// The variable is not set.
pub fn programs(variable: &str) -> Result<PathBuf, String> {
    std::env::var_os(variable).map(PathBuf::from).ok_or_else(|| {
        format!("{variable} names no PostgreSQL; `cargo xtask test --only postgres` installs and names it")
    })
}

/// How a server is protected. By default everyone on this machine may connect, without TLS.
#[derive(Debug, Default)]
pub struct Protection {
    /// The password of the user.
    pub password: Option<String>,
    /// The certificate and its private key, in PEM.
    pub certificate: Option<(String, String)>,
}

/// A server.
#[derive(Debug)]
pub struct PostgresPeer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    running: Mutex<Option<Child>>,
    is_secured: bool,
}

impl PostgresPeer {
    /// Creates a database cluster and starts the server.
    ///
    /// # Panics
    /// The server does not start.
    #[must_use]
    pub fn start(programs: &Path) -> Self {
        Self::start_protected(programs, &Protection::default())
    }

    /// The same with a password or TLS.
    ///
    /// # Panics
    /// The server does not start.
    #[must_use]
    pub fn start_protected(programs: &Path, protection: &Protection) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("permissions");
        let peer = Self {
            programs: programs.to_owned(),
            port: free_port(),
            folder,
            running: Mutex::new(None),
            is_secured: protection.certificate.is_some(),
        };
        let mut create = peer.command("initdb");
        create.args(["--username=stateway", "--encoding=UTF8", "--no-sync"]);
        match &protection.password {
            Some(password) => {
                let file = peer.own("password", password);
                create.arg("--auth=scram-sha-256").arg("--pwfile").arg(file);
            }
            None => drop(create.arg("--auth=trust")),
        }
        if let Some((certificate, key)) = &protection.certificate {
            peer.own("server.crt", certificate);
            peer.own("server.key", key);
        }
        create.arg("--locale=C").arg("-D").arg(peer.data());
        let created = create.output().expect("initdb");
        assert!(created.status.success(), "{created:?}");
        peer.run();
        peer
    }

    /// The address of its database.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The address, through something that listens at another port.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://stateway@127.0.0.1:{port}/postgres")
    }

    /// The port of the server.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server again.
    ///
    /// # Panics
    /// The server does not start.
    pub fn run(&self) {
        let data = self.data();
        let mut command = self.as_user("sh");
        command.args(["-c", WATCH, "watch"]).arg(&data);
        command
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(&data);
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            "unix_socket_directories=".to_owned(),
            "max_connections=300".to_owned(),
            "shared_buffers=32MB".to_owned(),
            // Processes are killed here, not machines.
            "fsync=off".to_owned(),
        ];
        if self.is_secured {
            let file = |name| self.folder.path().join(name).display().to_string();
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", file("server.crt")));
            settings.push(format!("ssl_key_file={}", file("server.key")));
        }
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a server");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let ready = || TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.answers();
        let log = || std::fs::read_to_string(self.folder.path().join("log"));
        assert!(eventually(ready), "PostgreSQL does not start: {:?}", log());
    }

    /// Stops the server as if it had crashed.
    ///
    /// # Panics
    /// The server does not end.
    pub fn stop(&self) {
        self.signal(Signal::QUIT);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = running.take() {
            let mut watch = child.stdin.take().expect("a pipe");
            watch.write_all(b"keep\n").expect("a watch");
            child.wait().expect("an end");
        }
    }

    /// Lets the server pause or continue.
    ///
    /// # Panics
    /// The server does not run.
    pub fn signal(&self, signal: Signal) {
        let file = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(file).expect("a server that runs");
        let pid = text
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok());
        let pid = pid.and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("a process");
    }

    /// Whether the cluster has finished its recovery: the file has the word then.
    fn answers(&self) -> bool {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid"));
        file.is_ok_and(|text| {
            text.lines()
                .last()
                .is_some_and(|line| line.trim() == "ready")
        })
    }

    /// A file that only the server can read.
    fn own(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).expect("a file");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, private).expect("permissions");
        if rustix::process::geteuid().is_root() {
            let given = Command::new("chown").arg(USER).arg(&file).status();
            assert!(given.expect("chown").success(), "{}", file.display());
        }
        file
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        self.as_user(self.programs.join(program))
    }

    /// A command as a user without rights.
    fn as_user(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for PostgresPeer {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = running.take() {
            drop(child.stdin.take());
            // Its folder is removed next.
            let _ = child.wait();
        }
    }
}

/// A port of this machine without a listener.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn eventually(is: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if is() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
