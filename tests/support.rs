//! A gateway in the test's own process, and providers the test holds the strings of.

mod gateway;
mod puppet;

pub(crate) use gateway::{Running, TestGateway, error_info, reason_of, retry_delay_of};
pub(crate) use puppet::Puppet;
