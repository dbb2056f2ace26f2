//! The plainest HTTP there is, for WebDriver. It blocks, so that a browser can be ended while a test
//! unwinds, when nothing can be awaited.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No command of the driver takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends JSON and reads JSON; the status beside it.
pub(crate) fn exchange(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut reader = BufReader::new(stream);
    let (status, length) = head(&mut reader)?;
    // Not to the end of the stream: the browser that is started inherits it and keeps it open.
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok((status, serde_json::from_slice(&answer)?))
}

/// The status, and the length of what follows.
fn head(reader: &mut impl BufRead) -> io::Result<(u16, usize)> {
    let (mut status, mut length) = (None, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.starts_with("http/") {
            status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        }
        if let Some(told) = line.strip_prefix("content-length:") {
            length = told.trim().parse().ok();
        }
    }
    let (Some(status), Some(length)) = (status, length) else {
        return Err(io::Error::other(
            "the driver's answer has no status or no length",
        ));
    };
    Ok((status, length))
}
