//! Hostile definitions do not become large: in a binary of its own, because it counts every byte.

use std::alloc::System;

use stateway_machine_check::fuzz::hostile;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// All that is ever allocated for one of them, freed or not: an upper bound of the peak.
const MOST_BYTES: usize = 256 * 1024 * 1024;

#[test]
fn hostile_definitions_take_bounded_memory() {
    for source in hostile() {
        let counted = Region::new(COUNTING);
        let _ = stateway_definition::parse(&source, "hostile.yaml");
        let bytes = counted.change().bytes_allocated;
        let shown: String = source.chars().take(40).collect();
        assert!(bytes < MOST_BYTES, "{bytes} bytes for {shown}");
    }
}
