"""The unix socket of a provider: created without harm to other files, and removed by the process that created it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# How long the process at the other end of a socket may take to accept a connection, in seconds.
_CONNECT_TIMEOUT = 1.0


class SocketError(OSError):
    """A provider cannot listen at the path of its socket."""

    def __str__(self) -> str:
        return f"cannot listen at `{self.filename}`: {self.strerror}"


class UnixSocket:
    """A socket at a path.

    gRPC removes the path it was given before it listens and after it stops, whatever is there by then. It is
    therefore given a path in a folder of its own, from which the socket is moved.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Refuses a path that another process or another file uses."""
        try:
            mode = os.lstat(self._path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise SocketError(errno.EEXIST, "a file that is not a socket has this path", self._path)
        if _is_served(self._path):
            raise SocketError(
                errno.EADDRINUSE, "another process uses this socket; stop that process first", self._path
            )

    @contextmanager
    def creating(self) -> Iterator[str]:
        """The path to give to gRPC. At the end, the socket is moved to its own path.

        Only the user of this process may connect: the folder is closed to others until the socket is.
        """
        folder, name = os.path.split(self._path)
        try:
            private_folder = tempfile.TemporaryDirectory(prefix=".", dir=folder, ignore_cleanup_errors=True)
        except OSError as error:
            raise SocketError(error.errno, error.strerror, self._path) from None
        with private_folder as private:
            created = os.path.join(private, "s")
            _check_length(created, self._path)
            yield created
            os.chmod(created, 0o700)
            self.check()
            os.replace(created, self._path)
        self._identity = _identity(self._path)

    def remove(self) -> None:
        """Removes the socket, unless another process has replaced it."""
        if self._identity is not None and _identity(self._path) == self._identity:
            os.unlink(self._path)
        self._identity = None


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            # Not certain: a process that is too busy to accept, or one of another user.
            return True
    return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_length(created: str, path: str) -> None:
    """Paths of sockets have at most 103 bytes on every system."""
    excess = len(os.fsencode(created)) - 103
    if excess > 0:
        raise SocketError(errno.ENAMETOOLONG, f"the folder of the socket is {excess} bytes too long", path)
