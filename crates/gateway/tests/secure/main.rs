//! The port beyond loopback: TLS with real handshakes, and who a caller is proved to be. Certificates
//! and keys are made for each test.

#![allow(clippy::unwrap_used)]

mod api_keys;
mod certificates;
mod jwt;
mod pages;
mod provider;
mod proxy;
mod sign_in;
mod support;
mod tls;
mod tokens;
mod visit;
