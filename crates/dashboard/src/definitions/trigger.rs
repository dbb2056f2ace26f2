//! The trigger of a definition: what starts executions, when next, and who disabled it.

use maud::{Markup, html};
use stateway_proto::v1::{DisabledTrigger, Trigger};

use crate::text::{said, said_within};
use crate::time::{Now, ago, moment, until};

pub(super) fn render(trigger: &Trigger, now: Now) -> Markup {
    html! {
        section.card aria-labelledby="trigger-title" {
            h2 #trigger-title { "Trigger" }
            @if let Some(mark) = &trigger.disabled { p.lacking { "✕ " (disabled(mark, now)) } }
            @if !trigger.event.is_empty() {
                p {
                    "Started by the event " b { (said_within(&trigger.event, 120)) }
                    @if !trigger.condition.is_empty() {
                        ", if " code { (said_within(&trigger.condition, 240)) }
                    }
                }
            }
            @if !trigger.schedule.is_empty() {
                p {
                    "Started by the schedule " code { (said_within(&trigger.schedule, 120)) } ", "
                    @if trigger.timezone.is_empty() { "UTC" } @else { (said_within(&trigger.timezone, 60)) }
                    @if let Some(next) = moment(trigger.next_start_time.as_ref()) {
                        "; the next start is " (until(next, now))
                    }
                }
            }
        }
    }
}

/// `disabled by ada, 3 min ago: maintenance`.
pub(crate) fn disabled(mark: &DisabledTrigger, now: Now) -> Markup {
    html! {
        "disabled by " (said_within(&mark.disabled_by, 60))
        @if let Some(time) = moment(mark.disable_time.as_ref()) { ", " (ago(time, now)) }
        @if !mark.comment.is_empty() { ": " (said(&mark.comment)) }
    }
}
