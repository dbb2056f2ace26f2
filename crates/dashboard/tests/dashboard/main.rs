//! The pages over plain HTTP, on a gateway with the in-memory and the built-in provider: what a
//! browser without a script gets to see and can do.

#![allow(clippy::unwrap_used)]

mod actions;
mod assets;
mod csrf;
mod daily;
mod headers;
mod hostile;
mod list;
mod live;
mod many;
mod one;
mod support;
mod tabs;
