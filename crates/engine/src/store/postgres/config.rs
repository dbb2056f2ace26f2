//! Where the database is, and how to sign in. The password is nowhere in it: it is read when a connection begins.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};

/// The lease of the owner unless configured.
const DEFAULT_LEASE: Duration = Duration::from_secs(10);
/// A shorter lease ends while a busy database answers.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The schema of the tables unless configured.
const DEFAULT_SCHEMA: &str = "stateway";
/// A host name has at most 253 characters.
const LONGEST_ADDRESS: usize = 300;
/// PostgreSQL cuts longer names.
const LONGEST_SCHEMA: usize = 63;

/// The settings of a store in PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    pub(super) address: tokio_postgres::Config,
    /// Whether the address says when TLS is used.
    has_ssl_mode: bool,
    pub(super) password: Option<Password>,
    /// The certificates that are trusted; none: those of the system.
    pub ca_file: Option<PathBuf>,
    pub(super) schema: String,
    pub(super) lease: Duration,
    /// This gateway, for people.
    pub(super) name: String,
    /// Where other gateways reach this one.
    pub(super) reached_at: Option<String>,
}

/// The source of a password.
#[derive(Clone)]
pub enum Password {
    /// A file, which is read for each new connection.
    File(PathBuf),
    /// The password itself.
    Text(String),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text"),
        }
    }
}

impl Password {
    /// The password. The error never quotes it.
    pub(super) fn read(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("the password file {}: {error}", path.display()))?;
                Ok(text.trim_end_matches(['\n', '\r']).to_owned())
            }
        }
    }
}

impl PostgresConfig {
    /// The settings for an address: `postgres://user@host:5432/database`.
    ///
    /// # Errors
    /// The address cannot be used. The message does not quote the address, which may have a password.
    pub fn new(url: &str) -> Result<Self, String> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err("a store is an address that begins with `postgres://`".to_owned());
        }
        let mut address: tokio_postgres::Config = url
            .parse()
            .map_err(|_| "the address of the store cannot be read".to_owned())?;
        if address.get_password().is_some() {
            return Err("the address of the store must not contain a password".to_owned());
        }
        if address.get_options().is_some() {
            return Err("the address of the store must not contain `options`".to_owned());
        }
        if address.get_hosts().is_empty() {
            return Err("the address of the store names no host".to_owned());
        }
        if address.get_dbname().is_none() || address.get_user().is_none() {
            return Err("the address of the store must name a user and a database".to_owned());
        }
        let (_, parameters) = url.split_once('?').unwrap_or_default();
        let has_ssl_mode = parameters
            .split('&')
            .any(|parameter| parameter.starts_with("sslmode="));
        // Without TLS nobody knows who answers. On this machine, the system does.
        if address.get_ssl_mode() == SslMode::Prefer && !is_all_local(&address) {
            address.ssl_mode(SslMode::Require);
        }
        Ok(Self {
            address,
            has_ssl_mode,
            password: None,
            ca_file: None,
            schema: DEFAULT_SCHEMA.to_owned(),
            lease: DEFAULT_LEASE,
            name: format!("process {}", std::process::id()),
            reached_at: None,
        })
    }

    /// The same with a password.
    #[must_use]
    pub fn with_password(mut self, password: Password) -> Self {
        self.password = Some(password);
        self
    }

    /// The same with tables in another schema.
    ///
    /// # Errors
    /// A name that needs quotes.
    pub fn with_schema(mut self, schema: &str) -> Result<Self, String> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let plain = schema
            .bytes()
            .all(|byte| letter(byte) || byte.is_ascii_digit());
        let begins = schema.bytes().next().is_some_and(letter);
        if !plain || !begins || schema.len() > LONGEST_SCHEMA || schema.starts_with("pg_") {
            return Err(format!(
                "`{schema}` is not a schema: at most {LONGEST_SCHEMA} lower-case letters, digits or `_`, not beginning with a \
                 digit or `pg_`"
            ));
        }
        schema.clone_into(&mut self.schema);
        Ok(self)
    }

    /// The same with another lease: how long after its last sign of life another gateway takes over.
    ///
    /// # Errors
    /// A lease that is too short.
    pub fn with_lease(mut self, lease: Duration) -> Result<Self, String> {
        if lease < SHORTEST_LEASE {
            return Err("the lease of the store must be at least one second".to_owned());
        }
        self.lease = lease;
        Ok(self)
    }

    /// The same with a name of this gateway, for people.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The same with the address at which other gateways reach this one. A gateway that stands by learns it from the
    /// store.
    ///
    /// # Errors
    /// Not a plain address.
    pub fn with_reached_at(mut self, address: &str) -> Result<Self, String> {
        let rest = ["http://", "https://"].iter();
        let host = rest
            .filter_map(|scheme| address.strip_prefix(scheme))
            .next();
        let (name, port) = host
            .and_then(|host| host.rsplit_once(':'))
            .unwrap_or_default();
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte));
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if name.is_empty() || !is_plain || !is_port || address.len() > LONGEST_ADDRESS {
            return Err(format!(
                "`{address}` is not the address of a gateway: write `http://host:port` or `https://host:port`"
            ));
        }
        self.reached_at = Some(address.to_owned());
        Ok(self)
    }

    /// Whether connections use TLS. On this machine they do only if the configuration asks for it, by the address or by
    /// certificates: a server has a certificate that nobody vouches for when it was only installed.
    pub(super) fn ssl_mode(&self) -> SslMode {
        match self.address.get_ssl_mode() {
            SslMode::Prefer if self.has_ssl_mode => SslMode::Prefer,
            SslMode::Prefer if self.ca_file.is_some() => SslMode::Require,
            SslMode::Prefer => SslMode::Disable,
            chosen => chosen,
        }
    }

    /// The address for people: user, hosts and database.
    pub(super) fn shown(&self) -> String {
        let ports = self.address.get_ports();
        let hosts = self
            .address
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(index, host)| {
                let host = match host {
                    Host::Tcp(name) => name.clone(),
                    Host::Unix(path) => path.display().to_string(),
                };
                match ports.get(index).or(ports.first()) {
                    Some(port) => format!("{host}:{port}"),
                    None => host,
                }
            });
        let hosts: Vec<_> = hosts.collect();
        let user = self.address.get_user().unwrap_or_default();
        let database = self.address.get_dbname().unwrap_or_default();
        format!("postgres://{user}@{}/{database}", hosts.join(","))
    }
}

fn is_all_local(address: &tokio_postgres::Config) -> bool {
    let addresses = address.get_hostaddrs().iter();
    address.get_hosts().iter().all(is_local) && addresses.copied().all(|it| it.is_loopback())
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_parameters_and_never_has_a_password() {
        let config =
            PostgresConfig::new("postgres://ada@db.example:5433/flows?sslmode=require").unwrap();
        assert_eq!(config.shown(), "postgres://ada@db.example:5433/flows");
        let refused = PostgresConfig::new("postgres://ada:hush@db.example/flows").unwrap_err();
        assert!(refused.contains("must not contain a password"), "{refused}");
        assert!(!refused.contains("hush"));
        let config = config.with_password(Password::Text("hush".to_owned()));
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn another_machine_is_reached_by_tls_unless_configured() {
        let mode = |url: &str| PostgresConfig::new(url).unwrap().ssl_mode();
        assert_eq!(mode("postgres://a@db.example/d"), SslMode::Require);
        let preferred = "postgres://a@db.example/d?sslmode=prefer";
        assert_eq!(mode(preferred), SslMode::Require);
        assert_eq!(mode("postgres://a@127.0.0.1/d"), SslMode::Disable);
        assert_eq!(mode("postgres://a@[::1]/d"), SslMode::Disable);
        let elsewhere = "postgres://a@localhost/d?hostaddr=10.0.0.5";
        assert_eq!(mode(elsewhere), SslMode::Require);
        let preferred = "postgres://a@127.0.0.1/d?connect_timeout=3&sslmode=prefer";
        assert_eq!(mode(preferred), SslMode::Prefer);
        let mut trusting = PostgresConfig::new("postgres://a@127.0.0.1/d").unwrap();
        trusting.ca_file = Some("ca.pem".into());
        assert_eq!(trusting.ssl_mode(), SslMode::Require);
        let off = "postgres://a@db.example/d?sslmode=disable";
        assert_eq!(mode(off), SslMode::Disable);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for wrong in [
            "mysql://a@b/c",
            "postgres://a@b",
            "postgres://b/c",
            "postgres://a@b/c?options=-csearch_path%3Dx",
            "postgres://a@b/c?sslmode=never",
        ] {
            assert!(PostgresConfig::new(wrong).is_err(), "{wrong}");
        }
        let config = PostgresConfig::new("postgres://a@b/c").unwrap();
        for wrong in ["", "A", "a-b", "1a", "pg_a", "a\"b"] {
            assert!(config.clone().with_schema(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "127.0.0.1:7380",
            "http://127.0.0.1",
            "http://127.0.0.1:0",
            "http://127.0.0.1:7380/",
            "http://a@b:7380",
            "ftp://127.0.0.1:7380",
            "https://:7380",
        ] {
            assert!(config.clone().with_reached_at(wrong).is_err(), "{wrong}");
        }
        for right in ["http://[::1]:7380", "https://gateway-1.example.org:7380"] {
            let config = config.clone().with_reached_at(right).unwrap();
            assert_eq!(config.reached_at.as_deref(), Some(right));
        }
        assert!(config.with_lease(Duration::from_millis(999)).is_err());
    }
}
