//! The allocator of the programs; a program that links this crate uses it.
//!
//! A crate for it alone, because the functions between the allocator and its callers must be optimised, and the crate of
//! the command line is not.

/// Many small answers are made on one thread and freed on another: a sixth more calls per second than
/// with the system's allocator, by `cargo xtask bench gateway`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
