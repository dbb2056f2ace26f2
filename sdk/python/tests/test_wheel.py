"""The wheel: generated from the definitions in the repository, typed, and buildable from its source distribution."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from conftest import ROOT

SOURCE = ROOT / "sdk/python"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The source distribution and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, SOURCE]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def one(folder: pathlib.Path, pattern: str) -> pathlib.Path:
    (found,) = folder.glob(pattern)
    return found


def repository_files() -> list[str]:
    proto = ROOT / "proto"
    folders = ("stateway/v1", "stateway/provider/v1")
    return sorted(file.relative_to(proto).as_posix() for folder in folders for file in (proto / folder).glob("*.proto"))


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """protoc adds these names to descriptor sets and leaves them out of generated modules."""

    def clear(message: DescriptorProto) -> None:
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            clear(nested)

    for message in file.message_type:
        clear(message)
    return file


def test_the_messages_of_the_package_are_those_of_the_repository(tmp_path: pathlib.Path) -> None:
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    image = tmp_path / "image"
    files = repository_files()
    arguments = ["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--descriptor_set_out={image}", *files]
    assert protoc.main(arguments) == 0
    modules = {name: importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2") for name in files}
    # Read after the imports: options are decoded only if their definitions are known.
    compiled = {file.name: file for file in FileDescriptorSet.FromString(image.read_bytes()).file}
    assert sorted(compiled) == files and len(files) >= 13
    for name, module in modules.items():
        packed = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        assert packed == without_json_names(compiled[name]), f"{name} differs: install the package again"


def test_the_wheel_has_a_module_and_a_stub_for_every_definition(built: pathlib.Path) -> None:
    names = set(zipfile.ZipFile(one(built, "*.whl")).namelist())
    assert "stateway/py.typed" in names
    for name in repository_files():
        stem = name.removesuffix(".proto")
        assert {f"{stem}_pb2.py", f"{stem}_pb2.pyi"} <= names


def test_the_source_distribution_has_the_definitions_and_no_generated_code(built: pathlib.Path) -> None:
    names = {name.partition("/")[2] for name in tarfile.open(one(built, "*.tar.gz")).getnames()}
    assert {f"proto/{name}" for name in repository_files()} <= names
    assert not [name for name in names if "_pb2" in name]


def test_no_generated_code_is_in_the_repository() -> None:
    assert not list((SOURCE / "src").rglob("*_pb2*"))


def test_the_package_is_typed(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(one(built, "*.whl")) as wheel:
        wheel.extractall(tmp_path)
    config, cache = SOURCE / "pyproject.toml", f"--cache-dir={tmp_path / 'cache'}"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={config}", cache, "--package", "stateway"],
        cwd=tmp_path,
        env={"MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
