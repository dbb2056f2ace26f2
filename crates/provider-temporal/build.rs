//! Compiles `proto/` in pure Rust, so that no `protoc` has to be installed.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

const FILES: [&str; 3] = [
    "temporal/api/errordetails/v1/message.proto",
    "temporal/api/history/v1/message.proto",
    "temporal/api/workflowservice/v1/service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true);
    compiler.open_files(FILES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let encoded = compiler.encode_file_descriptor_set();
    std::fs::write(out.join("temporal.bin"), encoded)?;
    tonic_prost_build::configure()
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .generate_default_stubs(true)
        .bytes(".temporal.api.common.v1.Payload")
        .include_file("temporal.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
