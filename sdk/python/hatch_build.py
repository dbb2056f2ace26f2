"""Generates the modules of the API while a wheel is built. Nothing is written to the source tree."""

import pathlib
import tempfile

import grpc_tools
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The packages of the API whose messages the wheel holds.
PACKAGES = ("stateway/v1", "stateway/provider/v1")


class GenerateMessages(BuildHookInterface):
    """Adds one module and one type stub per file of `proto/` to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        if version == "editable":
            raise RuntimeError("an editable install has no generated modules; install the package without -e")
        self.folder = tempfile.TemporaryDirectory()
        generated = pathlib.Path(self.folder.name)
        generate(definitions(pathlib.Path(self.root)), generated)
        for file in sorted(generated.rglob("*.py*")):
            build_data["force_include"][str(file)] = file.relative_to(generated).as_posix()

    def finalize(self, version, build_data, artifact_path):
        self.folder.cleanup()


def definitions(root):
    """The folder `proto`: of the repository, or of an unpacked source distribution."""
    for folder in (root / "proto", root.parents[1] / "proto"):
        if (folder / "stateway/v1/executions.proto").exists():
            return folder
    raise RuntimeError(f"the definitions of the API are missing: no folder proto next to {root}")


def generate(proto, folder):
    files = [
        file.relative_to(proto).as_posix()
        for package in PACKAGES
        for file in sorted((proto / package).glob("*.proto"))
    ]
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{proto}", f"-I{well_known}", f"--python_out={folder}", f"--pyi_out={folder}"]
    if protoc.main([*arguments, *files]) != 0:
        raise RuntimeError(f"protoc cannot compile the definitions in {proto}")
