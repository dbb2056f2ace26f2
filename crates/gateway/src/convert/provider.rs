//! Providers: capabilities, health, table.

use stateway_proto::v1;
use stateway_proto::v1::provider_health::{Breaker, Status};
use stateway_provider_api::table::{Row, Scope};
use stateway_provider_api::{Capabilities, for_each_capability};

use super::{int32, reason, sub_state, timestamp};
use crate::upstream::{Position, Serving, Upstream};

pub(crate) fn provider(upstream: &Upstream, with_table: bool) -> v1::Provider {
    let description = upstream.describe();
    let table = &description.table;
    v1::Provider {
        name: upstream.id.resource_name(),
        kind: upstream.kind.clone(),
        title: table.title.clone(),
        capabilities: Some(capabilities(upstream.capabilities())),
        health: Some(provider_health(upstream)),
        table: if with_table {
            table.rows().iter().map(table_row).collect()
        } else {
            Vec::new()
        },
    }
}

fn provider_health(upstream: &Upstream) -> v1::ProviderHealth {
    let report = upstream.report();
    let status = match report.serving {
        Serving::NotAskedYet => Status::Unknown,
        Serving::Yes => Status::Serving,
        Serving::No => Status::NotServing,
    };
    let breaker = match upstream.breaker_position() {
        Position::Closed => Breaker::Closed,
        Position::Open => Breaker::Open,
        Position::HalfOpen => Breaker::HalfOpen,
    };
    v1::ProviderHealth {
        status: status.into(),
        breaker: breaker.into(),
        engine_version: report.engine_version,
        detail: report.detail,
        check_time: report.checked.map(timestamp),
        open_call_count: int32(upstream.calls_in_flight()),
        max_open_call_count: int32(upstream.settings.max_concurrent),
    }
}

pub(crate) fn table_row(row: &Row) -> v1::TableRow {
    v1::TableRow {
        scope: match row.scope {
            Scope::Execution => v1::table_row::Scope::Execution,
            Scope::Step => v1::table_row::Scope::Step,
        }
        .into(),
        native_state: row.native.clone(),
        when: row.when.clone().into_iter().collect(),
        sub_state: sub_state(row.sub_state).into(),
        reason: reason(row.reason).into(),
        terminal: row.terminal,
        refine: row.refine,
        source: row.source.clone(),
        note: row.note.clone(),
    }
}

/// A capability that either side lacks does not compile.
fn capabilities(from: Capabilities) -> v1::Capabilities {
    macro_rules! converted {
        ($( $(#[$doc:meta])* $name:ident, )+) => { v1::Capabilities { $( $name: from.$name, )+ } };
    }
    for_each_capability!(converted)
}
