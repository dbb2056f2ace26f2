//! A gateway in the test's own process, and providers the test holds the strings of.

mod built_in;
mod gateway;
mod puppet;
mod watching;

pub(crate) use built_in::{BuiltInRig, TestWorker, by, json_of, time_of};
pub(crate) use gateway::{
    BuiltIn, Running, TestGateway, clock, error_info, hint_of, reason_of, retry_delay_of, table,
    without_capabilities,
};
pub(crate) use puppet::Puppet;
pub(crate) use watching::{EVERYTHING, Watching};
