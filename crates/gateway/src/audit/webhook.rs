//! Sends every record to a receiver: CloudEvents, signed, at least once, in the order of the log.
//!
//! The log itself is the queue. What was delivered is written down beside it, so that nothing is held in
//! memory, a receiver that is down costs nothing, and after a crash the last records come again.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use metrics::{counter, gauge};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use sha2::Sha256;
use stateway_audit::{ChainKey, Line, cloud_event, file, parse};
use stateway_identity::Secret;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::files::{first_record, read_line, rotated};
use super::log::opened;
use super::settings::AuditWebhook;
use super::{AuditError, secret};

/// `source` of every event.
const SOURCE: &str = "stateway/audit";
const CONTENT: &str = "application/cloudevents-batch+json; charset=utf-8";
/// The most records of one message.
const BATCH: usize = 100;
/// The shortest secret in bytes.
const SHORTEST_SECRET: usize = 16;
/// The pauses after failures: doubled from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A receiver, and how far it has got. Has no `Debug`: the address may contain a secret.
pub(super) struct Webhook {
    client: Client,
    url: Url,
    secret: Secret,
    log: Log,
    committed: watch::Receiver<u64>,
}

/// The log as the receiver reads it.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    key: ChainKey,
    /// The number of the last record that was delivered.
    sent: u64,
    open: Option<BufReader<File>>,
}

impl Webhook {
    pub(super) fn new(
        settings: &AuditWebhook,
        path: &Path,
        key: ChainKey,
        committed: watch::Receiver<u64>,
    ) -> Result<Self, AuditError> {
        let secret = secret("webhook.secret_file", &settings.secret_file, |text| {
            let text = text.trim();
            if text.len() < SHORTEST_SECRET {
                return Err(format!(
                    "the secret must have at least {SHORTEST_SECRET} bytes"
                ));
            }
            Ok(Secret::new(text.to_owned()))
        })?;
        // The address may contain a secret of the receiver: errors do not repeat it.
        let wrong = |why: &str| AuditError::Url(why.to_owned());
        let url: Url = settings
            .url
            .parse()
            .map_err(|_| wrong("it is not an address"))?;
        let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
            return Err(wrong("it must be https, or http on this machine"));
        }
        // The first choice in this process counts; both are good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .timeout(settings.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")));
        if url.scheme() == "http" {
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| wrong(&error.to_string()))?;
        Ok(Self {
            client,
            url,
            secret,
            log: Log::new(path, key),
            committed,
        })
    }

    /// Starts from the oldest record if the position beside the log does not fit a log that ends with `last`,
    /// which the gateway has just written: the receiver cannot have that record.
    pub(super) fn check_position(&mut self, last: u64) {
        if self.log.sent >= last {
            tracing::error!(
                position = self.log.sent,
                last,
                "the position of the receiver of audit records is ahead of the log: all records are sent again"
            );
            self.log.sent = 0;
        }
    }

    /// Delivers until the gateway stops.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let last = *self.committed.borrow_and_update();
            if self.log.sent >= last {
                if self.committed.changed().await.is_err() {
                    return;
                }
                continue;
            }
            self.measure(last);
            match self.log.next() {
                Ok(lines) => {
                    if let Some(end) = lines.last().map(|line| line.seq) {
                        self.deliver(&lines).await;
                        self.log.delivered(end);
                        self.measure(last);
                        pause = FIRST_PAUSE;
                    } else {
                        // The last record cannot be read, or not yet.
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
                Err(error) => {
                    tracing::warn!("the audit log cannot be read for its receiver: {error}");
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
            }
        }
    }

    /// Sends records until the receiver takes them.
    async fn deliver(&self, lines: &[Line]) {
        let events: Vec<_> = lines.iter().map(|line| cloud_event(SOURCE, line)).collect();
        let body = serde_json::Value::from(events).to_string();
        let end = &lines[lines.len() - 1];
        let (first, last) = (lines[0].seq, end.seq);
        // Several gateways send the same numbers to one receiver.
        let id = format!("audit-{first}-{last}-{}", &end.chain().hash()[..16]);
        let mut pause = FIRST_PAUSE;
        let mut is_failing = false;
        loop {
            let outcome = match self.post(&id, body.clone()).await {
                Ok(()) => "delivered",
                Err(why) => {
                    if !is_failing {
                        tracing::warn!(first, last, "audit records cannot be delivered: {why}");
                    }
                    "failed"
                }
            };
            counter!("stateway_audit_webhook_attempts_total", "outcome" => outcome).increment(1);
            if outcome == "delivered" {
                return;
            }
            is_failing = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn post(&self, id: &str, body: String) -> Result<(), String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = since.unwrap_or_default().as_secs();
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, CONTENT)
            .header("webhook-id", id)
            .header("webhook-timestamp", time)
            .header("webhook-signature", self.signature(id, time, &body))
            .body(body);
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("the receiver answered {}", response.status())),
            Err(error) => Err(error.without_url().to_string()),
        }
    }

    /// As the Standard Webhooks scheme has it.
    fn signature(&self, id: &str, time: u64, body: &str) -> String {
        let key = self.secret.expose();
        let key = match key.strip_prefix("whsec_").map(|key| STANDARD.decode(key)) {
            Some(Ok(key)) => key,
            _ => key.as_bytes().to_vec(),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
        mac.update(format!("{id}.{time}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    fn measure(&self, last: u64) {
        let behind = last.saturating_sub(self.log.sent);
        gauge!("stateway_audit_webhook_lag").set(behind as f64);
    }
}

impl Log {
    fn new(path: &Path, key: ChainKey) -> Self {
        let sent = std::fs::read_to_string(file::sent(path)).ok();
        Self {
            path: path.to_owned(),
            key,
            sent: sent.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            open: None,
        }
    }

    /// The next records, oldest first.
    fn next(&mut self) -> std::io::Result<Vec<Line>> {
        let mut found = self.read()?;
        if found.is_empty() {
            // The file may have been rotated, and the records that follow may be in any later file.
            for file in self.files()? {
                self.open = Some(file);
                found = self.read()?;
                if !found.is_empty() {
                    break;
                }
            }
        }
        self.report_lost(&found);
        Ok(found)
    }

    /// Records that no file has any more cannot be delivered. A new receiver begins with the oldest record.
    fn report_lost(&self, found: &[Line]) {
        let (Some(first), Some(last)) = (found.first(), found.last()) else {
            return;
        };
        let sent = if self.sent == 0 {
            first.seq - 1
        } else {
            self.sent
        };
        let lost = last.seq.saturating_sub(sent + found.len() as u64);
        if lost > 0 {
            tracing::error!(
                lost,
                after = self.sent,
                "audit records were rotated away, removed or damaged before they were delivered"
            );
        }
    }

    fn read(&mut self) -> std::io::Result<Vec<Line>> {
        let Some(file) = &mut self.open else {
            return Ok(Vec::new());
        };
        let (mut found, mut line) = (Vec::new(), Vec::new());
        while found.len() < BATCH {
            let at = file.stream_position()?;
            if read_line(file, &mut line)? == 0 {
                break;
            }
            let Some(whole) = line.strip_suffix(b"\n") else {
                // Half of a line that is being written.
                file.seek(std::io::SeekFrom::Start(at))?;
                break;
            };
            if let Ok(record) = parse(&self.key, whole)
                && record.seq > self.sent
            {
                found.push(record);
            }
        }
        Ok(found)
    }

    /// The files that can contain the next records, oldest first.
    fn files(&self) -> std::io::Result<Vec<BufReader<File>>> {
        let begins_before = |file: &mut BufReader<File>| {
            let first = first_record(&self.key, file)?;
            file.rewind()?;
            Ok::<_, std::io::Error>(first.is_some_and(|first| first <= self.sent + 1))
        };
        // Opened first, so that a rotation in between hides nothing.
        let mut newest = opened(&self.path)?.map(BufReader::new);
        if let Some(file) = &mut newest
            && begins_before(file)?
        {
            return Ok(newest.into_iter().collect());
        }
        let mut found = Vec::new();
        for number in rotated(&self.path)?.into_iter().rev() {
            let Some(file) = opened(&file::rotated(&self.path, number))? else {
                continue;
            };
            let inode = file.metadata()?.ino();
            let has_inode = |newest: &BufReader<File>| {
                let newest = newest.get_ref().metadata();
                newest.is_ok_and(|newest| newest.ino() == inode)
            };
            // It was rotated since it was opened.
            newest = newest.filter(|newest| !has_inode(newest));
            let mut file = BufReader::new(file);
            let is_first = begins_before(&mut file)?;
            found.push(file);
            if is_first {
                break;
            }
        }
        found.reverse();
        found.extend(newest);
        Ok(found)
    }

    fn delivered(&mut self, seq: u64) {
        self.sent = seq;
        // Without it the last records are sent again after a restart.
        if let Err(error) = std::fs::write(file::sent(&self.path), format!("{seq}\n")) {
            tracing::warn!(
                "the position of the receiver of audit records cannot be written: {error}"
            );
        }
    }
}
