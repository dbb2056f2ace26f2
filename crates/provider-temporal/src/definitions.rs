//! What can be started, and schedules. The server stores neither workflow types nor their code, so types
//! are the configured ones, or those of the newest runs. Schedules can be read but not started here: they
//! start workflows themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stateway_provider_api::adapter::cursor::{self, DEFINITIONS};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    DefinitionsPage, DefinitionsRequest, Error, ErrorKind, NativeDefinition, Result, Verb,
};

use crate::TemporalProvider;
use crate::api::schedule::v1::schedule_action::Action;
use crate::api::schedule::v1::{ScheduleActionResult, ScheduleListEntry, ScheduleSpec};
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::{
    DescribeScheduleRequest, DescribeScheduleResponse, ListSchedulesRequest,
};
use crate::client::Ask;
use crate::list::LONGEST_PAGE;
use crate::query;
use crate::quota::Api;
use crate::time::{duration, timestamp};

/// What begins the name of a schedule.
pub(crate) const SCHEDULE: &str = "schedule:";
/// The most definitions of one page.
const LONGEST: u32 = 200;

/// Where a list continues: after this type, or with this token of the schedules.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Position {
    Types { after: String },
    Schedules { token: Vec<u8> },
}

pub(crate) async fn list(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    request: &DefinitionsRequest,
) -> Result<DefinitionsPage> {
    let from = cursor::read(DEFINITIONS, request.cursor.as_deref(), ask.verb)?;
    let size = page_size(request.page_size, LONGEST, ask.verb)?;
    match from {
        Some(Position::Schedules { token }) => schedules(provider, ask, size, token).await,
        Some(Position::Types { after }) => types(provider, ask, size as usize, Some(after)).await,
        None => types(provider, ask, size as usize, None).await,
    }
}

/// A page of types. The schedules follow.
async fn types(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    size: usize,
    after: Option<String>,
) -> Result<DefinitionsPage> {
    let known = known_types(provider, ask, query::ALL).await?;
    let is_left = |(name, _): &(String, Source)| after.as_ref().is_none_or(|after| name > after);
    let mut left: Vec<_> = known.into_iter().filter(is_left).collect();
    let has_more = left.len() > size;
    left.truncate(size);
    let next = match left.last() {
        Some((last, _)) if has_more => Position::Types {
            after: last.clone(),
        },
        _ => Position::Schedules { token: Vec::new() },
    };
    let definition = |(name, _): (String, Source)| NativeDefinition {
        name,
        ..NativeDefinition::default()
    };
    let room = u32::try_from(size - left.len()).unwrap_or_default();
    let mut page = DefinitionsPage {
        definitions: left.into_iter().map(definition).collect(),
        next: Some(cursor::write(DEFINITIONS, &next)),
    };
    if room > 0 {
        let rest = schedules(provider, ask, room, Vec::new()).await?;
        page.definitions.extend(rest.definitions);
        page.next = rest.next;
    }
    Ok(page)
}

/// What the newest runs show of a type.
#[derive(Debug, Clone, Default)]
struct Source {
    task_queue: Option<String>,
    last_started: Option<jiff::Timestamp>,
}

async fn known_types(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    query: &str,
) -> Result<BTreeMap<String, Source>> {
    let page = provider
        .reader
        .runs(ask, query, LONGEST_PAGE, Vec::new())
        .await?;
    let mut types: BTreeMap<String, Source> = BTreeMap::new();
    for run in &page.rows {
        let known = types.entry(type_of(run)).or_default();
        let started = timestamp(run.start_time.as_ref());
        if started >= known.last_started {
            known.last_started = started;
            known.task_queue = Some(run.task_queue.clone());
        }
    }
    let configured = &provider.config.workflow_types;
    if !configured.is_empty() {
        types.retain(|name, _| configured.contains(name));
        for name in configured {
            types.entry(name.clone()).or_default();
        }
    }
    Ok(types)
}

fn type_of(run: &WorkflowExecutionInfo) -> String {
    run.r#type
        .as_ref()
        .map(|kind| kind.name.clone())
        .unwrap_or_default()
}

async fn schedules(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    size: u32,
    token: Vec<u8>,
) -> Result<DefinitionsPage> {
    let client = &provider.reader.client;
    client.turn(ask, Api::Visibility).await?;
    let request = ListSchedulesRequest {
        namespace: client.namespace(),
        maximum_page_size: i32::try_from(size).unwrap_or(i32::MAX),
        next_page_token: token,
        query: String::new(),
    };
    let page = match client.list_schedules(ask, request).await {
        Ok(page) => page,
        // Servers without schedules have none.
        Err(error) if error.kind == ErrorKind::Unsupported => return Ok(DefinitionsPage::default()),
        Err(error) => return Err(error),
    };
    let definition = |entry: &ScheduleListEntry| NativeDefinition {
        name: format!("{SCHEDULE}{}", entry.schedule_id),
        ..NativeDefinition::default()
    };
    let next = Position::Schedules {
        token: page.next_page_token.clone(),
    };
    let has_more = !page.next_page_token.is_empty();
    Ok(DefinitionsPage {
        definitions: page.schedules.iter().map(definition).collect(),
        next: has_more.then(|| cursor::write(DEFINITIONS, &next)),
    })
}

pub(crate) async fn read(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    name: &str,
    revision: Option<&str>,
) -> Result<NativeDefinition> {
    if revision.is_some_and(|revision| !revision.is_empty()) {
        return Err(unknown(name).with_hint("Temporal has no revisions of workflow types."));
    }
    if let Some(id) = name.strip_prefix(SCHEDULE) {
        return schedule(provider, ask, id).await;
    }
    let query = query::of_type(name);
    let types = known_types(provider, ask, &query).await?;
    let source = types.get(name).ok_or_else(|| unknown(name))?;
    let document = json!({
        "workflowType": name,
        "taskQueue": source.task_queue,
        "lastStarted": source.last_started,
    });
    Ok(NativeDefinition {
        name: name.to_owned(),
        source: pretty(&document),
        ..NativeDefinition::default()
    })
}

fn unknown(name: &str) -> Error {
    let mut error = Error::no_definition(name, []);
    error.verb = Verb::Definitions;
    error
}

async fn schedule(provider: &TemporalProvider, ask: Ask<'_>, id: &str) -> Result<NativeDefinition> {
    let client = &provider.reader.client;
    let request = DescribeScheduleRequest {
        namespace: client.namespace(),
        schedule_id: id.to_owned(),
    };
    let name = format!("{SCHEDULE}{id}");
    client.count(Api::Reads);
    let described = match client.describe_schedule(ask, request).await {
        Ok(described) => described,
        Err(error) if error.kind == ErrorKind::NotFound => return Err(unknown(&name)),
        Err(error) => return Err(error),
    };
    let info = described.info.clone().unwrap_or_default();
    Ok(NativeDefinition {
        name,
        source: pretty(&schedule_document(&described)),
        create_time: timestamp(info.create_time.as_ref()),
        ..NativeDefinition::default()
    })
}

/// A schedule for people: when it starts what, what it did last and what comes next.
fn schedule_document(described: &DescribeScheduleResponse) -> Value {
    let schedule = described.schedule.clone().unwrap_or_default();
    let info = described.info.clone().unwrap_or_default();
    let state = schedule.state.unwrap_or_default();
    let Some(Action::StartWorkflow(action)) = schedule.action.and_then(|action| action.action)
    else {
        return json!({ "paused": state.paused, "notes": state.notes });
    };
    let next = info.future_action_times.iter();
    let next: Vec<_> = next.filter_map(|time| timestamp(Some(time))).collect();
    json!({
        "workflowType": action.workflow_type.unwrap_or_default().name,
        "workflowId": action.workflow_id,
        "taskQueue": action.task_queue.unwrap_or_default().name,
        "spec": spec(&schedule.spec.unwrap_or_default()),
        "paused": state.paused,
        "notes": state.notes,
        "actions": info.action_count,
        "recent": info.recent_actions.iter().map(recent).collect::<Vec<_>>(),
        "next": next,
    })
}

fn spec(spec: &ScheduleSpec) -> Value {
    let seconds = |span: Option<&prost_types::Duration>| duration(span).map(|span| span.as_secs());
    let intervals: Vec<_> = spec
        .interval
        .iter()
        .map(|it| json!({ "everySeconds": seconds(it.interval.as_ref()), "phaseSeconds": seconds(it.phase.as_ref()) }))
        .collect();
    // The server keeps calendars and cron expressions in one form, with the text in a comment.
    let calendars: Vec<_> = spec
        .structured_calendar
        .iter()
        .map(|it| it.comment.clone())
        .collect();
    json!({
        "intervals": intervals,
        "calendars": calendars,
        "cron": spec.cron_string,
        "timeZone": spec.timezone_name,
        "jitterSeconds": seconds(spec.jitter.as_ref()),
    })
}

fn recent(action: &ScheduleActionResult) -> Value {
    let workflow = action.start_workflow_result.clone().unwrap_or_default();
    json!({
        "scheduled": timestamp(action.schedule_time.as_ref()),
        "started": timestamp(action.actual_time.as_ref()),
        "workflowId": workflow.workflow_id,
    })
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}
