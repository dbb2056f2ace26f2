//! Requests that start and read, and their pages.

use std::time::{Duration, Instant};

use stateway_model::{ExecutionId, ProviderId, SubState};
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{
    ANONYMOUS, Call, Count, EventOrder, HistoryRequest, ListPage, RequestId, StartDefinition,
    StartRequest, Table, View,
};

use crate::misfit::{required, signed, signed32, unsigned};
use crate::observation::{observation, read_observation};
use crate::parts::{payload, read_payload};
use crate::time::{duration, read_span, read_time, timestamp};
use crate::v1::list_events_request::Order;
use crate::{MAX_CURSOR_BYTES, MAX_GROUPS, Misfit, v1};

/// Who asks, for the wire.
#[must_use]
pub fn context(call: &Call) -> v1::CallContext {
    v1::CallContext {
        correlation_id: call.correlation_id.to_string(),
        actor: call.actor.to_string(),
        roles: call.roles.iter().map(ToString::to_string).collect(),
    }
}

/// A call of the wire that may take this long from now on.
#[must_use]
pub fn read_call(context: Option<v1::CallContext>, budget: Duration) -> Call {
    let context = context.unwrap_or_default();
    let actor = if context.actor.is_empty() {
        ANONYMOUS
    } else {
        context.actor.as_str()
    };
    Call {
        deadline: Instant::now() + budget,
        correlation_id: context.correlation_id.into(),
        actor: actor.into(),
        roles: context.roles.into_iter().map(Into::into).collect(),
    }
}

/// How much is wanted, for the wire.
#[must_use]
pub fn view(view: View) -> i32 {
    match view {
        View::Basic => v1::View::Basic.into(),
        View::Full => v1::View::Full.into(),
    }
}

/// The view that is wanted, as a number of the wire.
#[must_use]
pub fn read_view(view: i32) -> View {
    match v1::View::try_from(view) {
        Ok(v1::View::Full) => View::Full,
        Ok(v1::View::Basic | v1::View::Unspecified) | Err(_) => View::Basic,
    }
}

/// The id of an execution.
///
/// # Errors
/// It is empty or too long.
pub fn read_id(field: &str, id: &str) -> Result<ExecutionId, Misfit> {
    ExecutionId::new(id).map_err(|error| Misfit::new(field, error.to_string()))
}

/// The id of an execution, none when empty.
pub(crate) fn optional_id(field: &str, id: &str) -> Result<Option<ExecutionId>, Misfit> {
    if id.is_empty() {
        return Ok(None);
    }
    read_id(field, id).map(Some)
}

pub(crate) fn read_request_id(id: &str) -> Result<RequestId, Misfit> {
    id.parse()
        .map_err(|error| Misfit::new("request_id", format!("{error}")))
}

/// Refuses a page with more rows than asked for.
pub(crate) fn check_page(field: &str, rows: usize, page_size: u32) -> Result<(), Misfit> {
    if rows > page_size as usize {
        let rule = format!("has {rows} rows, more than the {page_size} that were asked for");
        return Err(Misfit::new(field, rule));
    }
    Ok(())
}

/// Where the next page begins; none when empty.
pub(crate) fn read_next_cursor(cursor: String) -> Result<Option<String>, Misfit> {
    match cursor.len() {
        0 => Ok(None),
        1..=MAX_CURSOR_BYTES => Ok(Some(cursor)),
        _ => Err(Misfit::new("next_cursor", "is longer than 2 KiB")),
    }
}

/// A start for the wire; `None` for a portable definition, which is not part of the contract.
#[must_use]
pub fn start_request(call: &Call, request: StartRequest) -> Option<v1::StartExecutionRequest> {
    let StartDefinition::Native(definition) = request.definition else {
        return None;
    };
    Some(v1::StartExecutionRequest {
        context: Some(context(call)),
        definition,
        execution_id: request
            .execution_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        input: request.input.as_ref().map(payload),
        labels: request.labels.into_iter().collect(),
        delay: request.delay.map(duration),
        options: request.options.into_iter().collect(),
        request_id: request.request_id.to_string(),
    })
}

/// A start of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_start_request(request: v1::StartExecutionRequest) -> Result<StartRequest, Misfit> {
    Ok(StartRequest {
        definition: StartDefinition::Native(request.definition),
        options: request.options.into_iter().collect(),
        execution_id: optional_id("execution_id", &request.execution_id)?,
        input: request.input.map(read_payload),
        labels: request.labels.into_iter().collect(),
        delay: read_span("delay", request.delay)?,
        request_id: read_request_id(&request.request_id)?,
    })
}

/// Hints for the wire: sub-states as the native states of the table that show none of them.
#[must_use]
pub fn hints(hints: &Hints, table: &Table, provider: &ProviderId) -> v1::ListHints {
    let excluded = table.states_without(&hints.sub_states).into_iter();
    let definitions = hints.definition.iter();
    let definitions = definitions.flat_map(|pattern| pattern.native_ids(provider));
    v1::ListHints {
        excluded_native_states: excluded.map(str::to_owned).collect(),
        definitions: definitions.map(str::to_owned).collect(),
        min_start_time: hints.started_from.map(timestamp),
        max_start_time: hints.started_until.map(timestamp),
    }
}

/// Hints of the wire, for a provider with this table: every sub-state that a native state may show which
/// is not excluded. `running` is always among them, because a native state in no table shows it.
///
/// # Errors
/// A time breaks its rule.
pub fn read_hints(hints: &v1::ListHints, table: &Table) -> Result<Hints, Misfit> {
    let mut wanted = table.native_states_for(SubState::ALL);
    wanted.retain(|state| !hints.excluded_native_states.iter().any(|one| one == state));
    let is_shown = |state: &SubState| wanted.iter().any(|one| table.may_show(one, &[*state]));
    let sub_states = SubState::ALL.iter().copied();
    let sub_states = sub_states.filter(|state| *state == SubState::Running || is_shown(state));
    Ok(Hints {
        sub_states: sub_states.collect(),
        definition: match hints.definitions.as_slice() {
            [only] => Some(DefinitionPattern::Short(only.clone())),
            _ => None,
        },
        started_from: read_time("hints.min_start_time", hints.min_start_time)?,
        started_until: read_time("hints.max_start_time", hints.max_start_time)?,
        // Not part of the contract over the wire: the gateway applies them itself.
        ..Hints::none()
    })
}

/// A page of executions for the wire.
#[must_use]
pub fn list_page(page: &ListPage) -> v1::ListExecutionsResponse {
    v1::ListExecutionsResponse {
        observations: page.observations.iter().map(observation).collect(),
        next_cursor: page.next.clone().unwrap_or_default(),
    }
}

/// A page of executions of the wire.
///
/// # Errors
/// An observation breaks a rule, or there are more of them than asked for.
pub fn read_list_page(
    page: v1::ListExecutionsResponse,
    page_size: u32,
) -> Result<ListPage, Misfit> {
    check_page("observations", page.observations.len(), page_size)?;
    let observations = page.observations.into_iter().map(read_observation);
    let observations: Result<Vec<_>, _> = observations.collect();
    Ok(ListPage {
        observations: observations.map_err(|misfit| misfit.inside("observations"))?,
        next: read_next_cursor(page.next_cursor)?,
    })
}

/// Counts for the wire.
#[must_use]
pub fn counts(counts: &[Count]) -> v1::CountExecutionsResponse {
    let groups = counts.iter().map(|count| v1::ExecutionGroup {
        example: Some(observation(&count.example)),
        count: signed(count.count),
        at_least: count.at_least,
    });
    v1::CountExecutionsResponse {
        groups: groups.collect(),
    }
}

/// Counts of the wire.
///
/// # Errors
/// There are too many groups, an example breaks a rule, or a count is negative.
pub fn read_counts(response: v1::CountExecutionsResponse) -> Result<Vec<Count>, Misfit> {
    if response.groups.len() > MAX_GROUPS {
        return Err(Misfit::new("groups", "has more than 1,000 groups"));
    }
    let groups = response.groups.into_iter().map(read_count);
    let groups: Result<Vec<_>, _> = groups.collect();
    groups.map_err(|misfit| misfit.inside("groups"))
}

fn read_count(group: v1::ExecutionGroup) -> Result<Count, Misfit> {
    let mut example = required("example", group.example)?;
    if example.id.is_empty() {
        Count::EXAMPLE.clone_into(&mut example.id);
    }
    let example = read_observation(example).map_err(|misfit| misfit.inside("example"))?;
    Ok(Count {
        example,
        count: unsigned("count", group.count)?,
        at_least: group.at_least,
    })
}

/// A request for a history, for the wire.
#[must_use]
pub fn history_request(call: &Call, request: HistoryRequest) -> v1::ListEventsRequest {
    let order = match request.order {
        EventOrder::OldestFirst => Order::OldestFirst,
        EventOrder::NewestFirst => Order::NewestFirst,
    };
    v1::ListEventsRequest {
        context: Some(context(call)),
        id: request.id.to_string(),
        page_size: signed32(request.page_size),
        cursor: request.cursor.unwrap_or_default(),
        view: view(request.view),
        order: order.into(),
    }
}

/// A request for a history, of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_history_request(request: v1::ListEventsRequest) -> Result<HistoryRequest, Misfit> {
    Ok(HistoryRequest {
        id: read_id("id", &request.id)?,
        page_size: read_page_size(request.page_size)?,
        cursor: read_cursor(request.cursor),
        view: read_view(request.view),
        order: match Order::try_from(request.order) {
            Ok(Order::NewestFirst) => EventOrder::NewestFirst,
            Ok(Order::OldestFirst | Order::Unspecified) => EventOrder::OldestFirst,
            Err(_) => return Err(Misfit::new("order", "is not known")),
        },
    })
}

/// The size of a page, which is at least 1.
///
/// # Errors
/// It is not.
pub fn read_page_size(size: i32) -> Result<u32, Misfit> {
    let size = u32::try_from(size).ok().filter(|size| *size > 0);
    size.ok_or_else(|| Misfit::new("page_size", "must be 1 or more"))
}

/// Where a page begins; none for the first one.
#[must_use]
pub fn read_cursor(cursor: String) -> Option<String> {
    Some(cursor).filter(|cursor| !cursor.is_empty())
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::NativeState;
    use stateway_provider_api::table::compiled_in;

    use super::*;

    fn call() -> Call {
        Call::within(Duration::from_secs(1))
    }

    #[test]
    fn a_start_comes_back_as_it_was() {
        let mut start = StartRequest::new(StartDefinition::native("order"), "r-1".parse().unwrap());
        start.options.insert("queue".into(), "a".into());
        start.execution_id = Some(ExecutionId::new("mine").unwrap());
        start.labels.insert("a".into(), "b".into());
        start.delay = Some(Duration::from_secs(5));
        let sent = start_request(&call(), start.clone()).unwrap();
        assert_eq!(read_start_request(sent), Ok(start.clone()));
        start.definition = StartDefinition::Portable {
            id: "p".into(),
            source: None,
        };
        assert_eq!(start_request(&call(), start), None);
    }

    /// Whatever the sub-states of a hint are, no native state that may show one is narrowed away on the
    /// way to a provider with the same table.
    #[test]
    fn hints_over_the_wire_leave_out_nothing() {
        let provider: ProviderId = "shop".parse().unwrap();
        for kind in ["memory", "restate", "step-functions"] {
            let table = compiled_in(kind).unwrap();
            for wanted in SubState::ALL {
                let narrow = Hints {
                    sub_states: vec![*wanted],
                    ..Hints::none()
                };
                let sent = hints(&narrow, &table, &provider);
                let read = read_hints(&sent, &table).unwrap();
                for state in table.native_states_for(SubState::ALL) {
                    let before = table.may_show(state, &narrow.sub_states);
                    let after = table.may_show(state, &read.sub_states);
                    assert!(after || !before, "{kind}: {state} for {wanted}");
                }
            }
        }
    }

    #[test]
    fn counts_come_back_as_they_were_and_carry_no_sub_state() {
        let native = NativeState::new("ACTIVE");
        let mut whole = Count::in_state(native, 7);
        whole.at_least = true;
        let sent = counts(std::slice::from_ref(&whole));
        assert_eq!(read_counts(sent.clone()), Ok(vec![whole.clone()]));
        let mut nameless = sent;
        nameless.groups[0].example.as_mut().unwrap().id.clear();
        assert_eq!(read_counts(nameless), Ok(vec![whole.clone()]));
        let mut reported = whole.clone();
        reported.example.reported = Some((SubState::Failed, None));
        assert_eq!(read_counts(counts(&[reported])), Ok(vec![whole]));
    }

    #[test]
    fn a_group_that_breaks_a_rule_is_refused_with_its_field() {
        let good = counts(&[Count::in_state(NativeState::new("ACTIVE"), 7)]);
        let broken = |change: fn(&mut Vec<v1::ExecutionGroup>)| {
            let mut message = good.clone();
            change(&mut message.groups);
            read_counts(message).unwrap_err().to_string()
        };
        let negative = broken(|groups| groups[0].count = -1);
        assert_eq!(negative, "`groups.count` is negative");
        let missing = broken(|groups| groups[0].example = None);
        assert_eq!(missing, "`groups.example` is missing");
        let stateless = broken(|groups| {
            groups[0].example.as_mut().unwrap().native_state = None;
        });
        assert_eq!(stateless, "`groups.example.native_state` is missing");
        let many = broken(|groups| *groups = vec![groups[0].clone(); 1_001]);
        assert_eq!(many, "`groups` has more than 1,000 groups");
    }

    #[test]
    fn a_page_that_is_too_long_is_refused() {
        assert_eq!(check_page("rows", 2, 2), Ok(()));
        let refused = check_page("rows", 3, 2).unwrap_err().to_string();
        assert_eq!(
            refused,
            "`rows` has 3 rows, more than the 2 that were asked for"
        );
        assert!(read_next_cursor("x".repeat(MAX_CURSOR_BYTES + 1)).is_err());
    }
}
