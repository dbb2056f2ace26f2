//! Just enough SQL: which table, which ids, and of a list its bounds.

use serde_json::{Value, json};
use wiremock::{Request, ResponseTemplate};

use super::world::World;
use super::{ok, refuse};

pub(super) fn answer(world: &World, request: &Request) -> ResponseTemplate {
    let accepts = request
        .headers
        .get("accept")
        .and_then(|it| it.to_str().ok());
    if accepts != Some("application/json") {
        return ResponseTemplate::new(200)
            .set_body_raw(b"ARROW1".to_vec(), "application/octet-stream");
    }
    if world.starting {
        return refuse(
            500,
            "Datafusion error: External error: node lookup for partition 1 failed",
        );
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let sql = body["query"].as_str().unwrap();
    let rows = match word_after(sql, " FROM ").unwrap() {
        "information_schema.columns" => columns(world),
        "sys_invocation" => invocations(world, sql),
        "sys_invocation_state" => beats(world),
        "sys_journal" => of_each(world, sql, |it| &it.journal, "entry_type"),
        "sys_journal_events" => of_each(world, sql, |it| &it.events, "event_type"),
        "sys_vqueue_entry_status" => {
            let asked = ids(sql);
            let queued = world
                .invocations
                .iter()
                .filter(|(id, _)| asked.contains(id));
            queued.filter_map(|(_, it)| it.queue.clone()).collect()
        }
        table => {
            return refuse(
                500,
                &format!("Error during planning: table '{table}' not found"),
            );
        }
    };
    ok(json!({"rows": rows}))
}

fn columns(world: &World) -> Vec<Value> {
    let recorded = include_str!("../recordings/meta.query_columns.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let rows = recorded["response"]["body"]["rows"].as_array().unwrap();
    let there = |row: &&Value| {
        let name = row["column_name"].as_str().unwrap();
        let table = row["table_name"].as_str().unwrap();
        !world.missing.contains(&format!("{table}.{name}"))
    };
    rows.iter().filter(there).cloned().collect()
}

fn invocations(world: &World, sql: &str) -> Vec<Value> {
    let asked = ids(sql.split(" WHERE id IN ").nth(1).unwrap_or_default());
    if let Some(origin) = sql.split("restarted_from = '").nth(1) {
        let origin = origin.split('\'').next().unwrap();
        let rows = world.invocations.values().map(|it| &it.row);
        let open = rows.filter(|row| text(row, "status") != "completed");
        let restarted = open.filter(|row| text(row, "restarted_from") == origin);
        return restarted.cloned().collect();
    }
    let is_list = sql.contains(" ORDER BY created_at DESC");
    let mut rows: Vec<&Value> = world
        .invocations
        .values()
        .map(|it| &it.row)
        .filter(|row| is_list || sql.contains("LIMIT 1") || asked.contains(&text(row, "id")))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((text(row, "created_at"), text(row, "id"))));
    if let Some(unwanted) = sql.split("status NOT IN (").nth(1) {
        let unwanted = unwanted.split(')').next().unwrap();
        rows.retain(|row| !unwanted.contains(&format!("'{}'", text(row, "status"))));
    }
    if let Some(after) = sql.split("created_at < TIMESTAMP '").nth(1) {
        let time: jiff::Timestamp = after.split('\'').next().unwrap().parse().unwrap();
        let id = after
            .split("id < '")
            .nth(1)
            .unwrap()
            .split('\'')
            .next()
            .unwrap();
        rows.retain(|row| {
            let of: jiff::Timestamp = text(row, "created_at").parse().unwrap();
            of < time || of == time && text(row, "id").as_str() < id
        });
    }
    if let Some(limit) = word_after(sql, " LIMIT ") {
        rows.truncate(limit.parse().unwrap());
    }
    rows.into_iter().cloned().collect()
}

/// What is held in memory: what runs, what backs off, and what was paused while it backed off.
fn beats(world: &World) -> Vec<Value> {
    let rows = world.invocations.values().map(|it| &it.row);
    let in_memory = rows.filter(|row| {
        let status = text(row, "status");
        status == "running" || status == "backing-off" || row["next_retry_at"].is_string()
    });
    let beat = |row: &Value| {
        let mut beat = json!({
            "id": row["id"], "in_flight": row["status"] == "running",
            "failed": row["last_failure"].is_string(),
        });
        for column in ["retry_count", "next_retry_at"] {
            if let Some(value) = row.get(column) {
                beat[column] = value.clone();
            }
        }
        beat
    };
    in_memory.map(beat).collect()
}

/// The rows that belong to the asked ids, of the asked types where any are named.
fn of_each(
    world: &World,
    sql: &str,
    rows: impl Fn(&super::Invocation) -> &Vec<Value>,
    type_column: &str,
) -> Vec<Value> {
    let asked = ids(sql);
    let types = sql.split(&format!("{type_column} ")).nth(1);
    let types = types.filter(|types| types.starts_with("IN (") || types.starts_with("= "));
    let wanted = |row: &&Value| {
        types.is_none_or(|types| types.contains(&format!("'{}'", text(row, type_column))))
    };
    let known = world
        .invocations
        .iter()
        .filter(|(id, _)| asked.contains(id));
    known
        .flat_map(|(id, it)| {
            let with_id = |row: &Value| {
                let mut row = row.clone();
                row["id"] = json!(id);
                row
            };
            rows(it)
                .iter()
                .filter(wanted)
                .map(with_id)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn ids(sql: &str) -> Vec<String> {
    let quoted = sql.split('\'').skip(1).step_by(2);
    quoted
        .filter(|text| text.starts_with("inv_"))
        .map(str::to_owned)
        .collect()
}

fn text(row: &Value, column: &str) -> String {
    row[column].as_str().unwrap_or_default().to_owned()
}

fn word_after<'s>(sql: &'s str, words: &str) -> Option<&'s str> {
    sql.split(words).nth(1)?.split(' ').next()
}
