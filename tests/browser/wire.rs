//! Commands to WebDriver, over HTTP. They block, so that a browser can be ended while a test unwinds, when nothing can be
//! awaited.

use std::io;
use std::net::Ipv4Addr;

use serde_json::Value;
use stateway_visitor::exchange_blocking;

/// Sends JSON and reads JSON, with the status.
pub(crate) fn exchange(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    );
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let answer = exchange_blocking(address, &head, body.as_bytes())?;
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    let parts = answer.split_once("\r\n\r\n");
    let (Some(status), Some((_, body))) = (status, parts) else {
        return Err(io::Error::other("the driver's answer has no status"));
    };
    Ok((status, serde_json::from_str(body)?))
}
