"""Reading bodies: what JSON allows and no field can mean is refused before it meets a formula."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.requests import Request

from app.api.body import read_json
from app.errors import Refused


def read(body, limit_bytes=10_000, content_type="application/json"):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", content_type.encode())] if content_type else []
    return asyncio.run(read_json(Request({"type": "http", "headers": headers}, receive), limit_bytes))


def refused(body, **options):
    with pytest.raises(Refused) as caught:
        read(body, **options)
    return caught.value


def test_json_is_read():
    document = {"a": [1, 2.5, None, True, "ü"], "b": {"c": {}}}
    assert read(json.dumps(document).encode()) == document
    assert read(b"{}", content_type="Application/JSON; charset=utf-8") == {}


def test_depth_and_integers_have_limits():
    assert read(b"[" * 64 + b"]" * 64)
    assert refused(b"[" * 66 + b"]" * 66).status == 422
    assert read(str(2**63 - 1).encode()) == 2**63 - 1
    for number in (2**63, -(2**63), 10**400):
        assert "64 bits" in refused(f'{{"a": [{number}]}}'.encode()).detail


def test_size_has_a_limit():
    assert read(b"[" + b" " * 9_998 + b"]") == []
    assert refused(b"[" + b" " * 9_999 + b"]").status == 413


def test_a_broken_connection_is_no_error_of_ours():
    async def receive():
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)
    with pytest.raises(Refused) as caught:
        asyncio.run(read_json(request, 100))
    assert caught.value.status == 400
