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
    tonic_prost_build::configure()
        .bytes(".stateway.v1.Payload")
        .bytes(".stateway.v1.ReadPayloadResponse")
        .codec_path("crate::codec::LeanCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
