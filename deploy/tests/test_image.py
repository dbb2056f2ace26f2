"""The image: linted, built and run.

No registry can be reached from every machine that runs the tests, so that two local images take the places of the base
images. In the first, `cargo` is a script that checks its arguments and the context and hands out the binary of the
tests: compiling is the one step of the Dockerfile that is not run. The second consists of the libraries of this machine
that distroless/cc has. Every other step, and the image itself with its user, its health check and a read-only root, is
the real one.

Where no builder works (`buildah` and `podman` with `runc`), or with `STATEWAY_BUILDER=off`, the same steps are run in folders; the closing summary says
which of the two was done.
"""

from __future__ import annotations

import collections.abc
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import time

import pytest
from conftest import DEPLOY, ROOT, program, run

DOCKERFILE = DEPLOY / "Dockerfile"
USER = 65532

# The shared libraries of gcr.io/distroless/cc-debian12: the packages libc6, libgcc-s1, libgomp1 and libstdc++6.
LIBRARIES = {
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6",
    "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libstdc++.so.6",
}  # fmt: skip

CARGO = """#!/bin/busybox sh
set -eu
test "$*" = "build --release --locked --package stateway-cli"
test -f Cargo.lock
test -f crates/cli/Cargo.toml
test ! -e target
test ! -e .git
/bin/busybox mkdir -p target/release
/bin/busybox cp /prebuilt/stateway target/release/stateway
"""

CONFIG = """
[server]
listen = "0.0.0.0:{port}"
monitoring_listen = "127.0.0.1:{monitoring}"

[server.tls]
cert = "/etc/stateway/tls/tls.crt"
key = "/etc/stateway/tls/tls.key"

[authentication.api_keys]
file = "/var/lib/stateway/keys.json"

[[access.rules]]
name = "everyone"
who = {{ subject = "*" }}
may = "admin"

[providers.builtin]
kind = "builtin"
path = "/var/lib/stateway/stateway.db"
"""


class NoBuilder(Exception):
    """Why this machine cannot build and run an image."""


class Builder:
    """buildah and podman with a storage of their own. The drivers are those that work inside of other sandboxes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.storage = ["--root", str(folder / "root"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]

    def buildah(self, *arguments: str | pathlib.Path, **options) -> subprocess.CompletedProcess[str]:
        return run("buildah", *self.storage, *arguments, **options)

    def podman(self, *arguments: str | pathlib.Path, **options) -> subprocess.CompletedProcess[str]:
        runtime = ["--runtime", "runc", "--cgroup-manager", "cgroupfs"]
        return run("podman", *self.storage, *runtime, *arguments, **options)

    def build(self, context: pathlib.Path, tag: str, *more: str | pathlib.Path) -> None:
        # Only the format of Docker has health checks.
        how = ["--isolation", "chroot", "--format", "docker", "--pull-never", "--tag", tag]
        self.buildah("build", *how, *more, context)

    # Without privileges, as docs/deploy.md runs it. Limits of this machine may be lower than podman's own.
    RUN = ["--read-only", "--network", "host", "--cap-drop", "all", "--security-opt", "no-new-privileges",
           "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--log-driver", "k8s-file"]  # fmt: skip


@pytest.fixture(scope="module")
def busybox() -> str:
    return program("busybox")


@pytest.fixture(scope="module")
def builder(
    tmp_path_factory: pytest.TempPathFactory, busybox: str, request: pytest.FixtureRequest
) -> collections.abc.Iterator[Builder | None]:
    """A builder that can build and run a container here; none if this machine has none, which is reported."""
    folder = tmp_path_factory.mktemp("builder")
    builder, why = Builder(folder), ""
    try:
        if os.environ.get("STATEWAY_BUILDER") == "off":
            raise NoBuilder("STATEWAY_BUILDER is off")
        for name in ("buildah", "podman", "runc"):
            if not shutil.which(name):
                raise NoBuilder(f"{name} is not installed")
        context = folder / "probe"
        context.mkdir()
        shutil.copy(busybox, context / "busybox")
        (context / "Dockerfile").write_text('FROM scratch\nCOPY busybox /busybox\nRUN ["/busybox", "true"]\n')
        builder.build(context, "localhost/probe")
        builder.podman("run", "--rm", *Builder.RUN, "localhost/probe", "/busybox", "true")
    except (NoBuilder, AssertionError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        why = next((line for line in lines if "rror" in line), lines[0]).strip()
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        done = f"by the same steps in folders, without a builder: {why}" if why else "with buildah, and run by podman"
        print(f"\nsummary: the image was built {done}")
    yield None if why else builder
    if not why:
        builder.podman("rm", "--all", "--force", check=False)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, binary: pathlib.Path, busybox: str) -> dict[str, pathlib.Path]:
    """The root file systems of the two base images."""
    folder = tmp_path_factory.mktemp("bases")
    build, runtime = folder / "build", folder / "runtime"
    for place in (build / "bin", build / "usr/local/bin", build / "prebuilt", build / "tmp", runtime / "tmp"):
        place.mkdir(parents=True)
    shutil.copy(busybox, build / "bin/busybox")
    for name in ("sh", "mkdir", "cp"):
        (build / "bin" / name).symlink_to("/bin/busybox")
    (build / "usr/local/bin/cargo").write_text(CARGO)
    (build / "usr/local/bin/cargo").chmod(0o755)
    shutil.copy(binary, build / "prebuilt/stateway")
    for library in libraries(binary):
        place = runtime / library.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library.resolve(), place)
    (runtime / "etc").mkdir()
    (runtime / "etc/passwd").write_text(f"nonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n")
    return {"build": build, "runtime": runtime}


def libraries(binary: pathlib.Path) -> list[pathlib.Path]:
    found = re.findall(r"(/\S+) \(0x", run("ldd", binary).stdout)
    return [pathlib.Path(library) for library in found]


@pytest.fixture(scope="module")
def image(
    builder: Builder | None, bases: dict[str, pathlib.Path], tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path | str:
    """The image's tag, or without a builder the folder with its root."""
    if builder:
        for name, root in bases.items():
            (root / "Dockerfile.base").write_text("FROM scratch\nCOPY . /\n")
            builder.build(root, f"localhost/{name}", "--file", root / "Dockerfile.base")
        bases_are = ["--build-arg", "RUST_IMAGE=localhost/build", "--build-arg", "RUNTIME_IMAGE=localhost/runtime"]
        builder.build(ROOT, "localhost/stateway", "--file", DOCKERFILE, *bases_are)
        return "localhost/stateway"
    return in_folders(bases, tmp_path_factory.mktemp("image"))


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]  # type: ignore[misc]


def in_folders(bases: dict[str, pathlib.Path], folder: pathlib.Path) -> pathlib.Path:
    """COPY and RUN of the Dockerfile, with chroot for RUN."""
    stages = iter(("build", "runtime"))
    root, roots = folder, {}
    for what, text in instructions():
        if what == "FROM":
            name = next(stages)
            root = roots[name] = folder / name
            shutil.copytree(bases[name], root, symlinks=True)
        elif what == "COPY":
            words = [word for word in text.split() if not word.startswith("--")]
            owner = re.search(r"--chown=(\d+):(\d+)", text)
            start = roots["build"] if "--from=build" in text else None
            if start is None:
                copy_context(root / "source")
                continue
            place = root / words[1].lstrip("/")
            shutil.copytree(start / words[0].lstrip("/"), place, dirs_exist_ok=True)
            if owner:
                os.chown(place, int(owner[1]), int(owner[2]))
        elif what == "RUN":
            run(shutil.which("chroot") or "/usr/sbin/chroot", root, "/bin/sh", "-c", f"cd /source && {text}", env={"PATH": "/usr/local/bin:/bin"})
    return roots["runtime"]


def context_files() -> list[pathlib.Path]:
    """The files that .dockerignore lets through and git knows."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] not in "#"]
    kept = tuple(line[1:] for line in rules if line.startswith("!"))
    tracked = run("git", "ls-files", cwd=ROOT).stdout.splitlines()
    return [pathlib.Path(name) for name in tracked if name.split("/")[0] in kept]


def copy_context(place: pathlib.Path) -> None:
    for file in context_files():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, place / file)


def test_the_linter_finds_nothing() -> None:
    done = run(program("hadolint"), "--failure-threshold", "style", DOCKERFILE)
    assert done.stdout == ""


def test_the_context_is_enough_for_cargo_and_has_nothing_else(tmp_path: pathlib.Path) -> None:
    copy_context(tmp_path)
    cargo = os.environ.get("CARGO", "cargo")
    host = re.search(r"host: (\S+)", run(cargo, "--version", "--verbose").stdout)
    assert host
    ask = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", host[1]]
    found = json.loads(run(cargo, *ask, cwd=tmp_path).stdout)
    assert len(found["workspace_members"]) > 20
    # Files that the source includes from other folders.
    checked = 0
    for source in tmp_path.glob("crates/*/**/*.rs"):
        if "tests" in source.parts or source.name == "tests.rs":
            continue
        product = re.split(r"#\[cfg\((?:test|doctest)\)\]", source.read_text())[0]
        for named in re.findall(r'include_(?:str|bytes|dir)!\(\s*"(\.\./[^"]+)"', product):
            assert (source.parent / named).exists(), f"{source}: {named}"
            checked += 1
    assert checked > 10
    top = {path.name for path in tmp_path.iterdir()}
    assert not top & {"docs", "target", ".git", "sdk", "deploy"}, top


def test_the_binary_needs_no_library_that_the_base_image_lacks(binary: pathlib.Path) -> None:
    needed = {library.name for library in libraries(binary)}
    assert needed and needed <= LIBRARIES, needed - LIBRARIES


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Container:
    """The image, running with a read-only root, without privileges, and one writable folder."""

    def __init__(self, builder: Builder | None, image: pathlib.Path | str, folder: pathlib.Path) -> None:
        self.builder, self.image, self.folder = builder, image, folder
        self.name = f"stateway-{os.getpid()}"
        (folder / "data").mkdir(mode=0o755)
        os.chown(folder / "data", USER, USER)
        self.mounts = {"/etc/stateway": (folder / "etc", "ro"), "/var/lib/stateway": (folder / "data", "rw")}

    def start(self) -> None:
        if self.builder:
            volumes = [f"--volume={path}:{place}:{mode}" for place, (path, mode) in self.mounts.items()]
            named = ["--name", self.name, "--detach"]
            self.builder.podman("run", *named, *Builder.RUN, *volumes, str(self.image))
        else:
            self.process = subprocess.Popen(self.in_folder(["/usr/local/bin/stateway", "serve"]))

    def in_folder(self, command: list[str]) -> list[str]:
        """Without a builder: a mount namespace with a read-only root, and the user of the image."""
        root = shlex.quote(str(self.image))
        steps = [f"mount --bind {root} {root}"]
        for place, (path, mode) in self.mounts.items():
            steps.append(f"mount --bind {shlex.quote(str(path))} {root}{place}")
            if mode == "ro":
                steps.append(f"mount -o remount,bind,ro {root}{place}")
        steps.append(f"mount -o remount,bind,ro {root}")
        inner = " ".join(shlex.quote(word) for word in command)
        steps.append(f"exec chroot --userspec={USER}:{USER} {root} {inner}")
        script = " && ".join(steps)
        return ["env", "STATEWAY_CONFIG=/etc/stateway/stateway.toml", "unshare", "--mount", "sh", "-c", script]

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        if self.builder:
            return self.builder.podman("exec", self.name, *command, check=False)
        return run(*self.in_folder(list(command)), check=False)

    def health(self) -> int:
        """The health check that the image declares."""
        if self.builder:
            return self.builder.podman("healthcheck", "run", self.name, check=False).returncode
        declared = next(text for what, text in instructions() if what == "HEALTHCHECK")
        return self.inside(*json.loads(declared[declared.index("[") :])).returncode

    def logs(self) -> str:
        if not self.builder:
            return ""
        done = self.builder.podman("logs", self.name, check=False)
        return done.stdout + done.stderr

    def stop(self) -> int:
        """SIGTERM; the code with which the gateway ends."""
        if self.builder:
            self.builder.podman("stop", "--time", "30", self.name)
            return int(self.builder.podman("inspect", "--format", "{{.State.ExitCode}}", self.name).stdout)
        self.process.terminate()
        return self.process.wait(timeout=60)

    def remove(self) -> None:
        if self.builder:
            self.builder.podman("rm", "--force", self.name, check=False)
        elif self.process.poll() is None:
            self.process.kill()


def test_the_image_runs_read_only_without_privileges_and_checks_its_health(
    builder: Builder | None,
    image: pathlib.Path | str,
    binary: pathlib.Path,
    certificates: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    port, monitoring = free_port(), free_port()
    etc = tmp_path / "etc"
    shutil.copytree(certificates, etc / "tls")
    for path in (etc, etc / "tls", *(etc / "tls").iterdir()):
        path.chmod(0o755)
    (etc / "stateway.toml").write_text(CONFIG.format(port=port, monitoring=monitoring))
    (etc / "stateway.toml").chmod(0o644)
    tmp_path.chmod(0o755)
    container = Container(builder, image, tmp_path)
    keys = tmp_path / "data/keys.json"
    key = run(binary, "keys", "create", "--file", keys, "--subject", "ada", "--key-role", "operator").stdout
    os.chown(keys, USER, USER)
    token = tmp_path / "token"
    token.write_text(key)
    try:
        container.start()
        deadline = time.monotonic() + 30
        while container.health() != 0:
            assert time.monotonic() < deadline, container.logs()
            time.sleep(0.2)
        call = [binary, "--server", f"https://localhost:{port}", "--tls-ca", certificates / "ca.crt"]
        shown = run(*call, "--token-file", token, "providers", "list").stdout
        assert "builtin" in shown and "SERVING" in shown
        assert run(*call, "providers", "list", check=False).returncode == 4
        # The store is in the volume, and belongs to the user of the image.
        store = tmp_path / "data/stateway.db"
        assert (store.stat().st_uid, store.stat().st_gid) == (USER, USER)
        # Nothing else can be written: the same binary tries to create a file elsewhere.
        create = ["/usr/local/bin/stateway", "keys", "create", "--subject", "x", "--file"]
        refused = container.inside(*create, "/usr/local/keys.json")
        assert refused.returncode != 0 and "Read-only file system" in refused.stderr, refused
        # There is no shell to run.
        assert container.inside("/bin/sh", "-c", "true").returncode != 0
        assert container.stop() == 0, container.logs()
        assert store.exists()
    finally:
        container.remove()


def test_the_health_check_fails_if_the_gateway_does_not_answer(
    builder: Builder | None, image: pathlib.Path | str, tmp_path: pathlib.Path
) -> None:
    """The declared check, in an image whose configuration leads to a port where nothing listens."""
    etc = tmp_path / "etc"
    etc.mkdir()
    tmp_path.chmod(0o755)
    (etc / "stateway.toml").write_text(f'server.listen = "127.0.0.1:{free_port()}"\n')
    declared = next(text for what, text in instructions() if what == "HEALTHCHECK")
    command = json.loads(declared[declared.index("[") :])
    container = Container(builder, image, tmp_path)
    if builder:
        volumes = [f"--volume={path}:{place}:{mode}" for place, (path, mode) in container.mounts.items()]
        once = ["run", "--rm", *Builder.RUN, *volumes, "--entrypoint", command[0], str(image), *command[1:]]
        done = builder.podman(*once, check=False)
    else:
        done = container.inside(*command)
    assert done.returncode == 6, done
    assert "does not answer" in done.stderr, done.stderr
