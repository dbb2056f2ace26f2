"""Pages as one asynchronous iteration. An empty token is the only end mark: a page may be empty."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from stateway._caller import Caller
from stateway._methods import Method, Request

T = TypeVar("T")


async def pages(
    caller: Caller, method: Method[Request, Any], request: Request, field: str, timeout: float | None
) -> AsyncIterator[Any]:
    """Every item of every page, read page by page during the iteration. `timeout` holds for each page."""
    while True:
        page = await caller.read(method, request, timeout)
        for item in getattr(page, field):
            yield item
        if not page.next_page_token:
            return
        setattr(request, "page_token", page.next_page_token)
