//! Connections to the server, used from threads that wait.
//!
//! A small runtime drives the connections. A caller polls its request on its own thread and sleeps until the
//! answer arrives, so that it may itself be a thread of another runtime.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Socket, Statement};

use super::config::PostgresConfig;
use super::error::{store_error, unreachable};
use super::tls::Tls;
use crate::store::{Result, StoreError};

/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long the server may take for a statement. It cancels the statement then.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a turn or a take-over waits for the row of the shard.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for an answer: the server has ended the statement by then, or it cannot be reached.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);
/// How long the server may take for a read of a start or a take-over, which may read every open execution.
const START_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long the server keeps a transaction whose client is silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept ready.
const MOST_STATEMENTS: usize = 256;

/// A value of a statement.
pub(super) type Value<'v> = &'v (dyn ToSql + Sync);

/// The server, and the runtime of the connections to it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: PostgresConfig,
    /// The address for people.
    pub(super) shown: String,
    /// None only while this is dropped.
    runtime: Option<Runtime>,
}

impl Server {
    pub(super) fn new(config: PostgresConfig) -> Result<Self> {
        let shown = config.shown();
        // Files that cannot be used are reported when the process starts.
        tls(&config).map_err(|why| unopened(&shown, why))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("stateway-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Failed(format!("no thread for the store: {error}")))?;
        Ok(Self {
            config,
            shown,
            runtime: Some(runtime),
        })
    }

    /// A new connection for turns. The server ends no statement early: a commit that waits for a synchronous replica
    /// would be reported as done then. The client does not wait for ever.
    pub(super) fn connect_writer(&self) -> Result<Session> {
        self.connect_with(&format!(
            "-c search_path={} -c lock_timeout={} -c idle_in_transaction_session_timeout={}",
            self.config.schema,
            LOCK_TIMEOUT.as_millis(),
            IDLE_TIMEOUT.as_millis(),
        ))
    }

    /// A new connection for reading.
    pub(super) fn connect(&self) -> Result<Session> {
        self.connect_with(&format!(
            "-c search_path={} -c statement_timeout={} -c idle_in_transaction_session_timeout={}",
            self.config.schema,
            STATEMENT_TIMEOUT.as_millis(),
            IDLE_TIMEOUT.as_millis(),
        ))
    }

    /// A new connection for a migration, which may take long.
    pub(super) fn connect_patiently(&self) -> Result<Session> {
        self.connect_with(&format!("-c search_path={}", self.config.schema))
    }

    fn connect_with(&self, options: &str) -> Result<Session> {
        let mut config = self.config.address.clone();
        config
            .options(options)
            .application_name("stateway")
            .connect_timeout(CONNECT_PATIENCE)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(PATIENCE)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if let Some(password) = &self.config.password {
            let text = password.read().map_err(|why| unopened(&self.shown, why))?;
            config.password(text);
        }
        config.ssl_mode(self.config.ssl_mode());
        // The certificates may have been renewed.
        let tls = tls(&self.config).map_err(|why| unopened(&self.shown, why))?;
        let Some(runtime) = &self.runtime else {
            return Err(unreachable(&self.shown, "the store is closed"));
        };
        let connecting = runtime.spawn(async move {
            match tls {
                Some(tls) => connected(&config, tls).await,
                None => connected(&config, NoTls).await,
            }
        });
        let late = || unreachable(&self.shown, "no connection in time");
        let connected = wait(connecting, CONNECT_PATIENCE * 2).ok_or_else(late)?;
        let connected = connected.map_err(|_| late())?;
        let (client, connection) = connected.map_err(|error| store_error(&self.shown, &error))?;
        runtime.spawn(connection);
        Ok(Session {
            client,
            store: self.shown.clone(),
            statements: RefCell::default(),
            late: Cell::new(false),
            patience: Cell::new(PATIENCE),
        })
    }
}

/// What connections need for TLS; none if they use none. The certificates of the system are not read then: they need not
/// exist.
fn tls(config: &PostgresConfig) -> std::result::Result<Option<Tls>, String> {
    match config.ssl_mode() {
        SslMode::Disable => Ok(None),
        _ => Tls::new(config.ca_file.as_deref()).map(Some),
    }
}

/// A connection, and what drives it.
async fn connected<T>(
    config: &tokio_postgres::Config,
    tls: T,
) -> std::result::Result<(Client, Driving), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    // Whoever uses the connection gets the error.
    let driving = async move { drop(connection.await) };
    Ok((client, Box::pin(driving)))
}

/// Drives a connection until its end.
type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last handle may be dropped on a thread of another runtime, which must not block.
            runtime.shutdown_background();
        }
    }
}

fn unopened(store: &str, why: String) -> StoreError {
    StoreError::Unopened {
        store: store.to_owned(),
        why,
    }
}

/// One connection.
pub(super) struct Session {
    client: Client,
    /// The address for people.
    store: String,
    statements: RefCell<HashMap<Box<str>, Statement>>,
    /// An answer did not arrive in time: what arrives later must not be taken for another answer.
    late: Cell<bool>,
    /// How long a caller waits for an answer.
    patience: Cell<Duration>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("store", &self.store)
            .finish()
    }
}

impl Session {
    /// Whether the connection can be used.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.late.get()
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// The rows of a statement.
    pub(super) fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = self.statement(sql)?;
        self.finish(self.client.query(&statement, values))
    }

    /// The one row of a statement, if there is one.
    pub(super) fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Does something that may take longer than other statements.
    pub(super) fn patiently<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.limit_statements(START_TIMEOUT)?;
        self.patience.set(START_TIMEOUT + PATIENCE);
        let done = work(self);
        self.patience.set(PATIENCE);
        if self.is_open() && self.limit_statements(STATEMENT_TIMEOUT).is_err() {
            // A connection without the usual limit is not used again.
            self.late.set(true);
        }
        done
    }

    fn limit_statements(&self, timeout: Duration) -> Result<()> {
        let sql = format!("SET statement_timeout = {}", timeout.as_millis());
        self.batch(&sql, PATIENCE)
    }

    /// Statements without values.
    pub(super) fn batch(&self, sql: &str, patience: Duration) -> Result<()> {
        self.finish_within(self.client.batch_execute(sql), patience)
    }

    /// A prepared statement.
    pub(super) fn statement(&self, sql: &str) -> Result<Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.finish(self.client.prepare(sql))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= MOST_STATEMENTS {
            statements.clear();
        }
        statements.insert(sql.into(), prepared.clone());
        Ok(prepared)
    }

    fn finish<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.finish_within(work, self.patience.get())
    }

    fn finish_within<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
        patience: Duration,
    ) -> Result<T> {
        match self.within(work, patience) {
            None => Err(self.no_answer()),
            Some(done) => done.map_err(|error| store_error(&self.store, &error)),
        }
    }

    /// Waits for an answer; none if it does not arrive in time.
    pub(super) fn within<T>(&self, work: impl Future<Output = T>, patience: Duration) -> Option<T> {
        let done = wait(work, patience);
        if done.is_none() {
            self.late.set(true);
        }
        done
    }

    pub(super) fn no_answer(&self) -> StoreError {
        unreachable(&self.store, "no answer in time")
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread; none if it is not ready in time.
fn wait<T>(future: impl Future<Output = T>, patience: Duration) -> Option<T> {
    let deadline = Instant::now() + patience;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_read_only_if_tls_is_used() {
        let server = |url: &str| {
            let mut config = PostgresConfig::new(url).unwrap();
            config.ca_file = Some("/nowhere/ca.pem".into());
            Server::new(config).map(drop)
        };
        let refused = server("postgres://a@127.0.0.1/d").unwrap_err();
        assert!(refused.to_string().contains("/nowhere/ca.pem"), "{refused}");
        server("postgres://a@db.example/d?sslmode=disable").unwrap();
    }

    #[test]
    fn a_thread_waits_for_an_answer_of_another_thread_and_not_for_ever() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            send.send(7)
        });
        assert_eq!(wait(receive, PATIENCE).unwrap(), Ok(7));
        sender.join().unwrap().unwrap();
        let never = std::future::pending::<()>();
        assert!(wait(never, Duration::from_millis(5)).is_none());
    }
}
