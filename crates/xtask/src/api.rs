//! `cargo xtask api`: the rules of the API and of the contract of providers, and their committed images.
//!
//! An image is a compiled package as it is promised: `proto/stateway.v1.binpb` to clients,
//! `proto/stateway.provider.v1.binpb` to providers in other processes. Code of other languages is
//! generated from it. A change of `proto/` renews it in the same commit; a change that breaks its users
//! has to be asked for.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::peers;
use crate::run::{root, succeed, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Write the images again from proto/; refused if clients or providers would break
    #[arg(long)]
    renew: bool,
    /// With --renew: accept changes of stateway.v1 that break clients
    #[arg(long, requires = "renew")]
    breaking: bool,
}

/// A package with an image of its own.
struct Package {
    /// The file in `proto/`.
    image: &'static str,
    /// Which part of `proto/` the image has.
    part: [&'static str; 2],
    /// Whether a breaking change can be accepted.
    is_additive: bool,
}

const PACKAGES: [Package; 2] = [
    Package {
        image: "stateway.v1.binpb",
        part: ["--exclude-path", "proto/stateway/provider"],
        is_additive: false,
    },
    Package {
        image: "stateway.provider.v1.binpb",
        part: ["--path", "proto/stateway/provider"],
        is_additive: true,
    },
];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let buf = peers::buf_package()?.install()?;
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
    for package in &PACKAGES {
        check(package, options, &buf)?;
    }
    Ok(())
}

fn check(
    package: &Package,
    options: &Options,
    buf: &impl Fn(&[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let image = root().join("proto").join(package.image);
    if package.is_additive || !options.breaking {
        let against = image.display().to_string();
        let hint = if package.is_additive {
            "this package only grows: add a field, a value or a method instead"
        } else {
            "if that is meant, `cargo xtask api --renew --breaking` renews the image"
        };
        buf(&["breaking", "--against", &against]).map_err(|error| {
            format!(
                "{error}: users of {} would break\nhint: {hint}",
                package.image
            )
        })?;
    }
    let built = if options.renew {
        image.clone()
    } else {
        target().join(package.image)
    };
    let output = built.display().to_string();
    let [option, path] = package.part;
    // Without comments and positions: a reworded comment leaves the image as it is.
    buf(&[
        "build",
        "--exclude-source-info",
        option,
        path,
        "--output",
        &output,
    ])?;
    if read(&built)? == read(&image)? {
        Ok(())
    } else {
        Err(format!(
            "{} is not current; run `cargo xtask api --renew`",
            image.display()
        ))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
