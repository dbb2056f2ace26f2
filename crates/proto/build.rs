//! Compiles `proto/` in pure Rust, so that no `protoc` has to be installed.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

const FILES: [&str; 8] = [
    "stateway/v1/admin.proto",
    "stateway/v1/approvals.proto",
    "stateway/v1/definitions.proto",
    "stateway/v1/executions.proto",
    "stateway/v1/providers.proto",
    "stateway/v1/recovery.proto",
    "stateway/v1/triggers.proto",
    "stateway/v1/workers.proto",
];

/// Messages inside an execution and a step that are large or rare. In a box they take one word of the
/// message around them, which is moved many times on its way through a server and a client.
const BOXED: [&str; 9] = [
    ".stateway.v1.Execution.retry",
    ".stateway.v1.Execution.last_error",
    ".stateway.v1.Execution.cancellation",
    ".stateway.v1.Execution.pause",
    ".stateway.v1.Execution.reopen",
    ".stateway.v1.Execution.abandoned_usage",
    ".stateway.v1.Step.retry",
    ".stateway.v1.Step.last_error",
    ".stateway.v1.Retry.last_error",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // With the annotations of google.api, which the types of prost drop.
    let encoded = compiler.encode_file_descriptor_set();
    std::fs::write(out.join("stateway.v1.bin"), encoded)?;
    let descriptors = compiler.file_descriptor_set();
    let configured = tonic_prost_build::configure()
        .bytes(".stateway.v1.Payload")
        .bytes(".stateway.v1.ReadPayloadResponse")
        .codec_path("crate::codec::LeanCodec");
    let boxed = |configured: tonic_prost_build::Builder, field| configured.boxed(field);
    BOXED
        .into_iter()
        .fold(configured, boxed)
        .compile_fds(descriptors)?;
    Ok(())
}
