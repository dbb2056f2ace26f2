//! Compiles `proto/` in pure Rust, so that no `protoc` has to be installed.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

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
    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    std::fs::write(out.join("stateway.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".stateway.v1.Payload")
        .bytes(".stateway.v1.ReadPayloadResponse")
        .codec_path("crate::codec::LeanCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
