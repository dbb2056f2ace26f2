//! Counts the control frames of an HTTP/2 connection against a budget.
//!
//! The HTTP/2 library bounds resets, CONTINUATION frames and empty DATA frames. It answers or
//! ignores PING, SETTINGS, WINDOW_UPDATE, PRIORITY, GOAWAY and unknown frames without a bound, so a
//! client could keep a core busy with them. Here each of them costs one credit. Requests and data
//! earn credits, because both bring window updates with them, and time earns a few.
//!
//! Only the nine bytes in front of each frame are read; everything else is skipped.

use std::time::{Duration, Instant};

/// What a client sends first over HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADER: usize = 9;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const CONTINUATION: u8 = 0x9;

/// Maximum and initial credits of a connection. The settings, priorities and window updates with which
/// clients open a connection cost less.
const MOST_CREDITS: i64 = 10_000;

/// Credits for a request: a client may send two window updates, a ping and a priority with it.
const PER_REQUEST: i64 = 4;

/// Bytes of data, in either direction, that earn one credit. An answer to a ping (17 bytes) or to
/// settings (9 bytes) does not pay for the next one.
const BYTES_PER_CREDIT: i64 = 32;

/// Credits that are refilled over time.
const CREDITS_PER_SECOND: i64 = 100;

/// The client sent more control frames than its requests and data explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flood;

/// What a connection speaks, as far as it was read.
#[derive(Debug)]
enum Reading {
    /// The number of bytes of the preface that were read.
    Preface(usize),
    /// HTTP/1: nothing to count.
    Plain,
    /// A frame's header, and the number of its bytes that were read.
    Header([u8; HEADER], usize),
    /// The number of bytes of a frame that are still to be read.
    Payload(usize),
}

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct FrameBudget {
    reading: Reading,
    credits: i64,
    /// Bytes that do not make a whole credit yet.
    rest: i64,
    refilled: Instant,
    has_begun: bool,
}

impl FrameBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            reading: Reading::Preface(0),
            credits: MOST_CREDITS,
            rest: 0,
            refilled: now,
            has_begun: false,
        }
    }

    /// Whether the other end has chosen a protocol and started to use it.
    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes in what the client sent.
    pub(super) fn received(
        &mut self,
        mut bytes: &[u8],
        now: impl Fn() -> Instant,
    ) -> Result<(), Flood> {
        while !bytes.is_empty() {
            let taken = match &mut self.reading {
                Reading::Plain => return Ok(()),
                Reading::Preface(read) => {
                    let taken = bytes.len().min(PREFACE.len() - *read);
                    let is_preface = bytes[..taken] == PREFACE[*read..*read + taken];
                    *read += taken;
                    if !is_preface {
                        self.reading = Reading::Plain;
                        self.has_begun = true;
                    } else if *read == PREFACE.len() {
                        self.reading = Reading::Header([0; HEADER], 0);
                    }
                    taken
                }
                Reading::Header(header, read) => {
                    let taken = bytes.len().min(HEADER - *read);
                    header[*read..*read + taken].copy_from_slice(&bytes[..taken]);
                    *read += taken;
                    if *read == HEADER {
                        let header = *header;
                        self.frame(header, &now)?;
                    }
                    taken
                }
                Reading::Payload(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    if *left == 0 {
                        self.reading = Reading::Header([0; HEADER], 0);
                    }
                    taken
                }
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Earns credits for what was sent to the client.
    pub(super) fn sent(&mut self, bytes: usize) {
        if !matches!(self.reading, Reading::Plain) {
            self.earn_for(bytes);
        }
    }

    fn frame(&mut self, header: [u8; HEADER], now: impl Fn() -> Instant) -> Result<(), Flood> {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        self.has_begun = true;
        self.reading = match length {
            0 => Reading::Header([0; HEADER], 0),
            length => Reading::Payload(length),
        };
        match header[3] {
            DATA => self.earn_for(length),
            HEADERS => self.earn(PER_REQUEST),
            RST_STREAM | CONTINUATION => {}
            _ => return self.spend(now),
        }
        Ok(())
    }

    fn earn_for(&mut self, bytes: usize) {
        // A frame has at most 16 MiB.
        self.rest += i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        self.earn(self.rest / BYTES_PER_CREDIT);
        self.rest %= BYTES_PER_CREDIT;
    }

    fn earn(&mut self, credits: i64) {
        self.credits = self.credits.saturating_add(credits).min(MOST_CREDITS);
    }

    /// The clock is read only when nothing is left.
    fn spend(&mut self, now: impl Fn() -> Instant) -> Result<(), Flood> {
        self.credits -= 1;
        if self.credits >= 0 {
            return Ok(());
        }
        let now = now();
        self.earn(credits_for(now.saturating_duration_since(self.refilled)));
        self.refilled = now;
        if self.credits >= 0 {
            Ok(())
        } else {
            Err(Flood)
        }
    }
}

fn credits_for(elapsed: Duration) -> i64 {
    let millis = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX / CREDITS_PER_SECOND);
    millis.saturating_mul(CREDITS_PER_SECOND) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 0x6;
    const SETTINGS: u8 = 0x4;
    const WINDOW_UPDATE: u8 = 0x8;
    const PRIORITY: u8 = 0x2;
    const GOAWAY: u8 = 0x7;
    const UNKNOWN: u8 = 0x42;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        let mut frame = vec![size[1], size[2], size[3], kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER + length, 7);
        frame
    }

    struct Client {
        budget: FrameBudget,
        now: Instant,
    }

    impl Client {
        fn new() -> Self {
            let now = Instant::now();
            let mut budget = FrameBudget::new(now);
            budget.received(PREFACE, || now).unwrap();
            Self { budget, now }
        }

        fn send(&mut self, bytes: &[u8]) -> Result<(), Flood> {
            self.budget.received(bytes, || self.now)
        }
    }

    #[test]
    fn a_flood_of_each_control_frame_ends_after_the_budget() {
        for (kind, length) in [
            (PING, 8),
            (SETTINGS, 0),
            (WINDOW_UPDATE, 4),
            (PRIORITY, 5),
            (GOAWAY, 8),
            (UNKNOWN, 1),
        ] {
            let mut client = Client::new();
            let sent = (0..).find(|_| {
                // A ping and settings are answered.
                client.budget.sent(17);
                client.send(&frame(kind, length)).is_err()
            });
            let sent = sent.unwrap();
            assert!((10_000..25_000).contains(&sent), "{kind}: {sent}");
        }
    }

    #[test]
    fn where_the_bytes_are_cut_makes_no_difference() {
        for cut in 1..40 {
            let mut client = Client::new();
            let flood = [frame(PING, 8), frame(DATA, 3)].concat().repeat(10_002);
            let flooded = flood.chunks(cut).any(|part| client.send(part).is_err());
            // The data earns 3 of 32 of a credit for each ping.
            assert!(!flooded, "{cut}");
            let more = frame(PING, 8).repeat(1_500);
            assert!(
                more.chunks(cut).any(|part| client.send(part).is_err()),
                "{cut}"
            );
        }
    }

    #[test]
    fn two_window_updates_for_every_message_are_never_too_many() {
        let mut client = Client::new();
        for _ in 0..1_000_000 {
            client.budget.sent(HEADER + 55);
            client.send(&frame(WINDOW_UPDATE, 4)).unwrap();
            client.send(&frame(WINDOW_UPDATE, 4)).unwrap();
        }
    }

    #[test]
    fn calls_with_window_updates_and_a_ping_each_are_never_too_many() {
        let mut client = Client::new();
        let call = [
            frame(HEADERS, 60),
            frame(DATA, 40),
            frame(WINDOW_UPDATE, 4),
            frame(WINDOW_UPDATE, 4),
            frame(PING, 8),
        ]
        .concat();
        for _ in 0..100_000 {
            client.send(&call).unwrap();
        }
    }

    #[test]
    fn a_quiet_connection_that_pings_every_second_lives() {
        let mut client = Client::new();
        for _ in 0..100_000 {
            client.now += Duration::from_secs(1);
            client.send(&frame(PING, 8)).unwrap();
        }
    }

    #[test]
    fn plain_http_is_not_counted() {
        let now = Instant::now();
        let mut budget = FrameBudget::new(now);
        assert!(!budget.has_begun());
        budget.received(b"PRI", || now).unwrap();
        assert!(!budget.has_begun());
        let rest = b"X / HTTP/1.1\r\n".repeat(10_000);
        budget.received(&rest, || now).unwrap();
        assert!(budget.has_begun());
    }

    #[test]
    fn the_preface_alone_is_no_beginning() {
        let mut client = Client::new();
        assert!(!client.budget.has_begun());
        client.send(&frame(SETTINGS, 0)).unwrap();
        assert!(client.budget.has_begun());
    }
}
