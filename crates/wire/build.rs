//! Compiles the contract of providers in pure Rust, so that no `protoc` has to be installed.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

const FILES: [&str; 5] = [
    "stateway/provider/v1/error.proto",
    "stateway/provider/v1/identity.proto",
    "stateway/provider/v1/observation.proto",
    "stateway/provider/v1/provider.proto",
    "stateway/provider/v1/staging.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let package = root.join("stateway/provider");
    println!("cargo::rerun-if-changed={}", package.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let encoded = compiler.encode_file_descriptor_set();
    std::fs::write(out.join("stateway.provider.v1.bin"), encoded)?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .bytes(".stateway.provider.v1.Payload")
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
