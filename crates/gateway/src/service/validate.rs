//! What a request may hold. Everything that comes in is bounded and checked here.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use stateway_model::{ExecutionId, ExecutionName, Labels};
use stateway_provider_api::RequestId;
use stateway_provider_api::filter::Filter;
use tonic::Status;

use crate::access::ApiCall;
use crate::convert;
use crate::parent::Parent;
use crate::status::Refusal;

/// The most options of a start.
const MOST_OPTIONS: usize = 64;
/// The longest key of an option, in bytes.
const LONGEST_OPTION_KEY: usize = 64;
/// The longest value of an option, in bytes.
const LONGEST_OPTION_VALUE: usize = 4_096;
const MOST_LABELS: usize = 64;
const LONGEST_LABEL_KEY: usize = 63;
const LONGEST_LABEL_VALUE: usize = 255;
const LONGEST_TEXT: usize = 1_024;
/// The largest page, and the size of one when the client does not say.
const LARGEST_PAGE: usize = 1_000;

pub(super) fn execution_name(field: &'static str, name: &str) -> Result<ExecutionName, Status> {
    name.parse()
        .map_err(|error| Refusal::invalid(field, format!("{error}")).into())
}

pub(super) fn parent(text: &str) -> Result<Parent, Status> {
    Parent::parse(text).map_err(|error| Refusal::invalid("parent", format!("{error}")).into())
}

/// The id to give a new execution; none when the provider is to choose.
pub(super) fn execution_id(id: &str) -> Result<Option<ExecutionId>, Status> {
    if id.is_empty() {
        return Ok(None);
    }
    let checked = ExecutionId::new(id);
    checked
        .map(Some)
        .map_err(|e| Refusal::invalid("execution_id", e.to_string()).into())
}

/// The client's request id, or a new one when it sent none.
pub(super) fn request_id(call: &ApiCall, id: &str) -> Result<RequestId, Status> {
    let wrong = |error| Status::from(Refusal::invalid("request_id", format!("{error}")));
    if id.is_empty() {
        return uuid::Uuid::new_v4().to_string().parse().map_err(wrong);
    }
    let sent: RequestId = id.parse().map_err(wrong)?;
    call.access.request_id(sent.as_str()).parse().map_err(wrong)
}

pub(super) fn page_size(size: i32, default: usize) -> Result<usize, Status> {
    match usize::try_from(size) {
        Ok(0) => Ok(default),
        Ok(size) => Ok(size.min(LARGEST_PAGE)),
        Err(_) => Err(Refusal::invalid("page_size", "a page size must not be negative").into()),
    }
}

pub(super) fn filter(text: &str) -> Result<Filter, Status> {
    Filter::parse(text).map_err(|error| {
        Refusal::invalid("filter", format!("filter: {error}"))
            .reason("INVALID_FILTER")
            .with("column", error.column.to_string())
            .hint(error.hint)
            .into()
    })
}

/// A field that must not be empty.
pub(super) fn required<'v>(field: &'static str, value: &'v str) -> Result<&'v str, Status> {
    if value.is_empty() {
        return Err(Refusal::invalid(field, format!("`{field}` must not be empty")).into());
    }
    Ok(value)
}

/// A text that goes into a record or names something; bounded.
pub(super) fn text(field: &'static str, text: String) -> Result<String, Status> {
    if text.len() > LONGEST_TEXT {
        let message = format!(
            "`{field}` has {} bytes, more than {LONGEST_TEXT}",
            text.len()
        );
        return Err(Refusal::invalid(field, message).into());
    }
    Ok(text)
}

pub(super) fn signal(name: String) -> Result<String, Status> {
    if name.is_empty() {
        return Err(Refusal::invalid("signal", "a signal needs a name").into());
    }
    text("signal", name)
}

pub(super) fn delay(delay: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
    let Some(delay) = delay else { return Ok(None) };
    match convert::duration_from(delay) {
        Some(delay) => Ok(Some(delay).filter(|delay| !delay.is_zero())),
        None => Err(Refusal::invalid("delay", "a delay must not be negative").into()),
    }
}

/// Options of a start, for the provider to judge.
pub(super) fn options(
    options: HashMap<String, String>,
) -> Result<BTreeMap<String, String>, Status> {
    if options.len() > MOST_OPTIONS {
        let message = format!(
            "{} options are given; at most {MOST_OPTIONS} are allowed",
            options.len()
        );
        return Err(Refusal::invalid("options", message).into());
    }
    let good = |(key, value): (&String, &String)| {
        (1..=LONGEST_OPTION_KEY).contains(&key.len()) && value.len() <= LONGEST_OPTION_VALUE
    };
    if !options.iter().all(good) {
        let message = format!(
            "an option's key is 1 to {LONGEST_OPTION_KEY} bytes, its value at most \
             {LONGEST_OPTION_VALUE} bytes"
        );
        return Err(Refusal::invalid("options", message).into());
    }
    Ok(options.into_iter().collect())
}

pub(super) fn labels(labels: HashMap<String, String>) -> Result<Labels, Status> {
    if labels.len() > MOST_LABELS {
        let message = format!(
            "{} labels are given; at most {MOST_LABELS} are allowed",
            labels.len()
        );
        return Err(Refusal::invalid("labels", message).into());
    }
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    for (key, value) in &labels {
        let good_key = (1..=LONGEST_LABEL_KEY).contains(&key.len()) && key.bytes().all(allowed);
        if !good_key || value.len() > LONGEST_LABEL_VALUE {
            let message = format!(
                "a label's key is 1 to {LONGEST_LABEL_KEY} letters, digits or `-_./`, its value \
                 at most {LONGEST_LABEL_VALUE} bytes"
            );
            return Err(Refusal::invalid("labels", message).into());
        }
    }
    Ok(labels.into_iter().collect())
}
