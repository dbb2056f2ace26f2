//! A provider with its capabilities and its health.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;
use stateway_client::v1::provider_health::{Breaker, Status};
use stateway_client::word_of;
use stateway_provider_api::for_each_capability;

use super::execution::{label, optional, texts};
use super::{Text, timestamp};

/// A configured provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provider {
    /// `providers/{provider}`.
    pub name: Text,
    /// The kind of the engine.
    pub kind: Text,
    /// The engine's name for people.
    pub title: Text,
    /// Every capability, on or off.
    pub capabilities: BTreeMap<&'static str, bool>,
    /// The health of the provider.
    pub health: Option<Health>,
    /// Its state table; empty in lists.
    pub table: Vec<Row>,
}

/// The health of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `SERVING`, `NOT_SERVING` or `UNKNOWN`.
    pub status: &'static str,
    /// `CLOSED`, `OPEN` or `HALF_OPEN`.
    pub breaker: &'static str,
    /// The engine's version, where known.
    pub engine_version: Option<Text>,
    /// A remark of the provider about its health, in one line.
    pub detail: Option<Text>,
    /// The time of the last check.
    pub check_time: Option<Timestamp>,
    /// The number of calls in progress.
    pub open_call_count: i32,
    /// The maximum number of calls in progress.
    pub max_open_call_count: i32,
}

/// One row of a state table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.TableRow, explained there"
)]
pub struct Row {
    pub scope: &'static str,
    pub native_state: Text,
    pub when: BTreeMap<Text, Text>,
    pub sub_state: &'static str,
    pub reason: Option<&'static str>,
    pub terminal: bool,
    pub refine: bool,
    pub source: Text,
    pub note: Text,
}

impl From<&v1::Provider> for Provider {
    fn from(wire: &v1::Provider) -> Self {
        let capabilities = wire.capabilities.unwrap_or_default();
        Self {
            name: (&wire.name).into(),
            kind: (&wire.kind).into(),
            title: (&wire.title).into(),
            capabilities: words(&capabilities).into_iter().collect(),
            health: wire.health.as_ref().map(Health::from),
            table: wire.table.iter().map(Row::from).collect(),
        }
    }
}

/// Every capability with its name in the API.
fn words(wire: &v1::Capabilities) -> impl IntoIterator<Item = (&'static str, bool)> {
    macro_rules! named {
        ($( $(#[$doc:meta])* $name:ident, )+) => { [ $( (stringify!($name), wire.$name), )+ ] };
    }
    for_each_capability!(named)
}

impl From<&v1::ProviderHealth> for Health {
    fn from(wire: &v1::ProviderHealth) -> Self {
        Self {
            status: match wire.status() {
                Status::Serving => "SERVING",
                Status::NotServing => "NOT_SERVING",
                Status::Unknown | Status::Unspecified => "UNKNOWN",
            },
            breaker: match wire.breaker() {
                Breaker::Closed | Breaker::Unspecified => "CLOSED",
                Breaker::Open => "OPEN",
                Breaker::HalfOpen => "HALF_OPEN",
            },
            engine_version: optional(&wire.engine_version),
            detail: optional(&wire.detail),
            check_time: timestamp(wire.check_time.as_ref()),
            open_call_count: wire.open_call_count,
            max_open_call_count: wire.max_open_call_count,
        }
    }
}

impl From<&v1::TableRow> for Row {
    fn from(wire: &v1::TableRow) -> Self {
        Self {
            scope: wire.scope().label(),
            native_state: (&wire.native_state).into(),
            when: texts(&wire.when),
            sub_state: word_of(wire.sub_state),
            reason: label(wire.reason().label()),
            terminal: wire.terminal,
            refine: wire.refine,
            source: (&wire.source).into(),
            note: (&wire.note).into(),
        }
    }
}
