//! One request and its answer, on a connection of its own.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// Sends a request, and returns the whole answer as it came. `head` is the request line and the headers of the test, each
/// with its line end; the length and the end of the connection are added.
pub async fn exchange(at: impl Into<SocketAddr>, head: &str, body: &[u8]) -> String {
    String::from_utf8_lossy(&exchange_bytes(at.into(), head, body).await).into_owned()
}

pub(crate) async fn exchange_bytes(at: SocketAddr, head: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(&request(head, body)).await.expect("sent");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
    read.await
        .expect("an answer in time")
        .expect("a whole answer");
    answer
}

/// The same for tests that block. The answer ends with its length, also if the connection stays open.
///
/// # Errors
/// Nothing listens, or the answer is not whole.
pub fn exchange_blocking(at: SocketAddr, head: &str, body: &[u8]) -> io::Result<String> {
    let mut stream = std::net::TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&request(head, body))?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 * 1_024];
    while !is_whole(&answer) {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn request(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request =
        format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    request
}

/// Whether an answer has as many bytes as its head says. One without a length ends with the connection.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_it_has_its_length() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\nab"));
    }
}
