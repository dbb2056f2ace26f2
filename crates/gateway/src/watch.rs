//! Watches: one upstream follower per topic, any number of readers.
//!
//! A topic is one execution or all executions of one provider. Its follower keeps the current set up to date, by the provider's push where it has one and by adaptive polling where not, and
//! publishes each difference once; readers share it. Compare Kubernetes: first the current set,
//! then a bookmark, then changes, each with a cursor.

mod coverage;
mod follow;
mod hub;
mod listed;
mod pace;
mod poll;
mod present;
mod reader;
mod topic;
mod wait;

pub(crate) use hub::{CROWDED_FOR, Hub, too_many_topics};
pub(crate) use pace::Pace;
pub(crate) use poll::pause_after;
pub(crate) use present::{Asked, Sighting};
pub(crate) use reader::{Reader, Target, WatchRequest, draining, not_in_time};
