//! A server that is started, asked for `/healthz` and stopped by its process id.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long the answer to `/healthz` may take once the server listens.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What the server prints before its address.
const LISTENING: &str = "stateway is listening on http://";

/// Runs the command until the server answers `/healthz`, then stops the server.
///
/// # Errors
/// The command ends before the server listens, the answer is wrong, or the server does not end well.
pub(super) fn answers(mut command: Command) -> Result<(), String> {
    let mut child = command
        // Another gateway may use the default port: any free one will do.
        .env("STATEWAY_LISTEN", "127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the command does not start: {error}"))?;
    let answered = address(&mut child).and_then(healthz);
    let ended = stop(&mut child)?;
    answered?;
    if ended.success() {
        Ok(())
    } else {
        Err(format!("the server was stopped and ended with {ended}"))
    }
}

/// Reads what the server prints until it names its address. The build comes first, so there is no time
/// limit: a build that fails ends the output.
fn address(child: &mut Child) -> Result<SocketAddr, String> {
    let output = child.stderr.take().ok_or("stderr is not piped")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let found = lines.by_ref().find_map(|line| {
        eprintln!("{line}");
        listening_on(&line)
    });
    // The rest is read too, so that the server never blocks on a full pipe.
    std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
    found.ok_or_else(|| "the command ended before the server listened".to_owned())
}

fn listening_on(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(LISTENING)?;
    rest.split_whitespace().next()?.parse().ok()
}

fn healthz(address: SocketAddr) -> Result<(), String> {
    let answer = ask(address).map_err(|error| format!("http://{address}/healthz: {error}"))?;
    if answer.starts_with("HTTP/1.1 200") {
        println!("http://{address}/healthz answers");
        Ok(())
    } else {
        Err(format!("http://{address}/healthz answers {answer}"))
    }
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Asks the process to end, as Ctrl-C does, and waits for its end. A process that has ended is left
/// alone.
fn stop(child: &mut Child) -> Result<ExitStatus, String> {
    let explain = |error: std::io::Error| format!("the server cannot be stopped: {error}");
    if let Some(status) = child.try_wait().map_err(explain)? {
        return Ok(status);
    }
    let id = child.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &id]).status();
    asked.map_err(explain)?;
    child.wait().map_err(explain)
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;
    use std::net::TcpListener;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Answers one request with this status line.
    fn serve_once(status: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            assert_eq!(lines.next().as_deref(), Some("GET /healthz HTTP/1.1"));
            lines.find(String::is_empty);
            let mut answer = BufWriter::new(&stream);
            write!(answer, "{status}\r\ncontent-length: 0\r\n\r\n").expect("an answer");
        });
        address
    }

    #[test]
    fn a_server_that_answers_is_stopped_by_its_id() {
        let address = serve_once("HTTP/1.1 200 OK");
        let script = format!(
            "trap 'exit 0' TERM; echo building >&2; echo '{LISTENING}{address} (1 provider)' >&2; \
             while :; do sleep 0.02; done"
        );
        assert_eq!(answers(shell(&script)), Ok(()));
    }

    #[test]
    fn a_server_that_answers_something_else_fails() {
        let address = serve_once("HTTP/1.1 503 Service Unavailable");
        let script = format!("echo '{LISTENING}{address}' >&2; exec sleep 3600");
        let failed = answers(shell(&script)).expect_err("503 is no success");
        assert!(failed.contains("503"), "{failed}");
    }

    #[test]
    fn a_server_that_does_not_end_well_fails() {
        let address = serve_once("HTTP/1.1 200 OK");
        let script = format!("echo '{LISTENING}{address}' >&2; exec sleep 3600");
        let failed = answers(shell(&script)).expect_err("a signal ended it");
        assert!(failed.contains("ended with signal: 15"), "{failed}");
    }

    #[test]
    fn a_build_that_fails_is_reported() {
        let failed = answers(shell("echo 'error: no such crate' >&2; exit 101"));
        let expected = "the command ended before the server listened";
        assert_eq!(failed, Err(expected.to_owned()));
    }
}
