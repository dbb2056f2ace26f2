//! One HTTP request with a JSON body, on a connection of its own.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::process::PATIENCE;

/// The status and the body.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value), String> {
    let answer = exchange(port, method, path, body).map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let status = status.ok_or_else(|| format!("not an HTTP answer: {head}"))?;
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok((status, body))
}

fn exchange(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let length = body.len();
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
