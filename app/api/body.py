"""Body: read a JSON request with limits, and write JSON answers that were encoded once, in C."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from app.encoding import encode_json
from app.errors import Refused
from estimator.scenario.problems import Problem

_LARGEST_INTEGER = 2**63
_DEEPEST = 64


async def read_json(request: Request, limit_bytes: int) -> Any:
    """Return the decoded body; raise Refused (400, 413, 415) where it is not JSON of a sane size and depth."""
    return decode_json(await read_json_body(request, limit_bytes))


async def read_json_body(request: Request, limit_bytes: int) -> bytes:
    """Return the body as it came; raise Refused (400, 413, 415) where it is none of JSON or too long."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(415, f"The body must be application/json, not {media_type[:80] or 'without a content type'}.")
    return await read_body(request, limit_bytes)


def decode_json(body: bytes) -> Any:
    """Return a JSON document of sane depth and integers; raise Refused (422)."""
    try:
        document = msgspec.json.decode(body)
    except RecursionError:
        raise _not_json("is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise _not_json(f"is not JSON: {error}") from None
    _check(document, 0)
    return document


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Return the whole body; raise Refused (413) as soon as it is longer than ``limit_bytes``."""
    refuse_length(request, limit_bytes)
    chunks, size_bytes = [], 0
    try:
        async for chunk in request.stream():
            size_bytes += len(chunk)
            if size_bytes > limit_bytes:
                raise too_long(limit_bytes)
            chunks.append(chunk)
    except ClientDisconnect:
        raise Refused(400, "The connection closed before the body was complete.") from None
    return b"".join(chunks)


async def client_left(request: Request) -> None:
    """Return when the client has closed the connection; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def refuse_length(request: Request, limit_bytes: int) -> None:
    """Raise Refused (413) where the announced length is beyond the limit, before a byte is read."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit_bytes:
        raise too_long(limit_bytes)


def too_long(limit_bytes: int) -> Refused:
    """Build the refusal of a body longer than ``limit_bytes``."""
    return Refused(413, f"The body is longer than {limit_bytes} bytes. Send less, or raise the server's limit.")


def json_response(value: Any, status: int = 200) -> Response:
    """Answer with dataclasses or plain values as JSON."""
    return Response(encode_json(value), status, media_type="application/json")


def _check(value: Any, depth: int) -> None:
    """Refuse what no field can mean: nesting beyond any document of ours and integers beyond 64 bits."""
    if depth > _DEEPEST:
        raise _not_json("is nested too deeply")
    if isinstance(value, dict):
        for item in value.values():
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
        raise _not_json("has an integer of more than 64 bits")


def _not_json(message: str) -> Refused:
    problem = Problem(field="(document)", message=message, remedy="Send one JSON object: {...}.")
    return Refused(422, f"The body {message}.", [problem])
