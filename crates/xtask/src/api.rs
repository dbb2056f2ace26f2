//! `cargo xtask api`: the rules of the API, and its committed image.
//!
//! The image, `proto/stateway.v1.binpb`, is the compiled API as it is promised to clients. Clients of
//! other languages are generated from it. A change of `proto/` renews it in the same commit; a change
//! that breaks clients has to be asked for.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::peers;
use crate::run::{root, succeed, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Write the image again from proto/; refused if clients would break
    #[arg(long)]
    renew: bool,
    /// With --renew: accept changes that break clients
    #[arg(long, requires = "renew")]
    breaking: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let buf = peers::buf()?;
    let buf = |arguments: &[&str]| {
        let mut command = Command::new(&buf);
        command.current_dir(root()).args(arguments);
        succeed(&mut command)
    };
    buf(&["lint"])?;
    buf(&[
        "format",
        "--diff",
        "--exit-code",
        "--path",
        "proto/stateway",
    ])
    .map_err(|error| format!("{error}; run `buf format -w --path proto/stateway`"))?;
    let image = image();
    if !options.breaking {
        let against = image.display().to_string();
        buf(&["breaking", "--against", &against]).map_err(|error| {
            format!(
                "{error}: clients would break\n\
                 hint: if that is meant, `cargo xtask api --renew --breaking` renews the image"
            )
        })?;
    }
    let built = if options.renew {
        image.clone()
    } else {
        target().join("stateway.v1.binpb")
    };
    let output = built.display().to_string();
    // Without comments and positions: a reworded comment leaves the image as it is.
    buf(&["build", "--exclude-source-info", "--output", &output])?;
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    if read(&built)? == read(&image)? {
        Ok(())
    } else {
        Err(format!(
            "{} is not current; run `cargo xtask api --renew`",
            image.display()
        ))
    }
}

/// The compiled API as it is committed.
pub(crate) fn image() -> PathBuf {
    root().join("proto/stateway.v1.binpb")
}
