//! The port beyond loopback: TLS with real handshakes, and who a caller is proved to be. Certificates
//! and keys are made for each test.

#![allow(clippy::unwrap_used)]

mod api_keys;
mod audit;
mod certificates;
mod jwt;
mod pages;
mod provider;
mod proxy;
mod quotas;
mod sign_in;
mod strangers;
mod streams;
mod support;
mod tls;
mod tokens;
mod visit;
