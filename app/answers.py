"""Answers that depend on nothing but the request: computed once, then given again as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from app.encoding import encode_json
from estimator.scenario import catalog

MOST_BYTES = 32 << 20
"""A page that opens asks for about 0.5 MB of them."""


class Answers:
    """The newest answers to POST requests without a query, by path, body and revision of the catalogue."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, bytes], bytes] = {}
        self._size_bytes = 0

    async def give(self, request: Request, body: bytes, make: Callable[[], Any]) -> Response:
        """What ``make`` gives as JSON, computed in a thread unless the same was asked before; refusals are not kept."""
        key = (request.url.path, catalog.revision(), body)
        answer = None if request.url.query else self._taken(key)
        if answer is None:
            answer = await asyncio.to_thread(lambda: encode_json(make()))
            self._taken(key)  # asked for twice at once
        if not request.url.query:
            self._kept[key] = answer  # the newest stands last
            self._size_bytes += len(body) + len(answer)
        while self._size_bytes > MOST_BYTES:
            self._taken(next(iter(self._kept)))
        return Response(answer, media_type="application/json")

    def _taken(self, key: tuple[str, int, bytes]) -> bytes | None:
        answer = self._kept.pop(key, None)
        if answer is not None:
            self._size_bytes -= len(key[2]) + len(answer)
        return answer
