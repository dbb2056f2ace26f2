//! The rules of the machine, one file for each part of them. The name of a test is the rule.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod approval;
mod budget;
mod cancel;
mod causes;
mod child;
mod dag;
mod escalation;
mod failure;
mod in_flight;
mod limits;
mod lost_worker;
mod pause;
mod policy;
mod redo;
mod reopen;
mod request;
mod revision;
mod rollback;
mod signal;
mod time;
mod usage;
mod view;
mod withdrawal;
