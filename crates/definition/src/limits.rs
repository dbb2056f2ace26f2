//! The bounds of a definition. A file from outside can be hostile, so nothing in it is unbounded.

use std::time::Duration;

/// The longest source text, in bytes.
pub const MAX_SOURCE_BYTES: usize = 512 * 1024;
/// How deep lists and mappings may nest, `input` and `outputSchema` included.
pub const MAX_DEPTH: usize = 32;
/// How many values a source may hold in all.
pub const MAX_NODES: usize = 50_000;
/// How many steps one definition may have.
pub const MAX_STEPS: usize = 1_000;
/// How many steps may depend on one step.
pub const MAX_FAN_OUT: usize = 500;
/// How many steps one step may depend on.
pub const MAX_FAN_IN: usize = 500;
/// How many problems are reported before the rest is only counted.
pub const MAX_DIAGNOSTICS: usize = 100;
/// The longest name of a step, a role, a signal.
pub const MAX_NAME_LENGTH: usize = 64;
/// The longest `when`, in bytes.
pub const MAX_CONDITION_BYTES: usize = 2_048;
/// How many references one `input`, `url` or `output` may hold; each may stand for a large value.
pub const MAX_REFERENCES: usize = 256;
/// How deep a `when` may nest.
pub const MAX_CONDITION_DEPTH: usize = 24;
/// The most retries of one step.
pub const MAX_RETRIES: u32 = 10_000;
/// The most corrections of one step.
pub const MAX_CORRECTIONS: u32 = 100;
/// The most workers in a row that may be lost before an attempt fails.
pub const MAX_HAND_OUTS: u32 = 100;
/// The highest `maxCost`, in currency units. With six decimals it is exact as a JSON number.
pub const MAX_COST: u64 = 1_000_000_000;
/// The highest `maxTokens`.
pub const MAX_TOKENS: u64 = 1_000_000_000_000;
/// How many conflicts between two revisions are listed before the rest is only counted.
pub const MAX_CONFLICTS: usize = 20;
/// The longest duration: ten years. Longer ones are typing errors.
pub const MAX_DURATION: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// The highest `concurrency`.
pub const MAX_CONCURRENCY: u32 = 100_000;
/// The most headers of one HTTP step.
pub const MAX_HEADERS: usize = 64;
/// A definition with more steps than this gets a warning.
pub const MANY_STEPS: usize = 10;
