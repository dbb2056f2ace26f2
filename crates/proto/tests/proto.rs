//! The rules of the API and its reference.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod aip;
mod reference;
