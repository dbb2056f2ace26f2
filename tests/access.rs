//! What callers may do: the same decisions for every method, over gRPC, gRPC-Web and the dashboard, and
//! nothing for a tenant that asks for what another one has.

mod audit;
mod pages;
mod payloads;
mod probing;
mod reload;
mod rig;
mod streams;
mod table;
mod verbs;
mod workers;
