"""Cursors: where the next page begins, in a form that no other text has.

A cursor is valid in every process of the provider and after restarts, so it holds the position itself.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from stateway.provider.errors import ErrorKind, ProviderError


def encode_cursor(scope: str, position: str) -> str:
    """A cursor for this position. `scope` distinguishes the cursors of different lists."""
    body = base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")
    return f"{scope}.{body}.{_check(scope, position)}"


def decode_cursor(scope: str, cursor: str) -> str | None:
    """The position of a cursor of this scope; none for the first page. Refuses any other text."""
    if not cursor:
        return None
    try:
        found, body, check = cursor.split(".")
        position = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    except (ValueError, binascii.Error):
        raise _foreign() from None
    if found != scope or check != _check(scope, position):
        raise _foreign()
    return position


def _check(scope: str, position: str) -> str:
    return f"{zlib.crc32(f'{scope}.{position}'.encode()):08x}"


def _foreign() -> ProviderError:
    return ProviderError(ErrorKind.INVALID_ARGUMENT, "the cursor does not belong to this provider")
