"""Documented: what an endpoint takes and answers, said beside it; and the OpenAPI 3.1 document made of that.

Types become JSON Schema by msgspec, which writes the answers too; choices, bounds and help come from the fields'
``spec``, which the codec reads as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from app.api.given import CHECKED
from app.errors import ProblemDocument
from app.security import OPEN_PATHS, READING

PROBLEM = "application/problem+json"
REFUSALS = {
    400: "The connection closed before all was sent or answered.",
    401: "This server has a token, and the request has not.",
    403: "Another site may not write here.",
    404: "There is no such thing.",
    409: "It is not in a state that allows this.",
    413: "The body is longer than this server takes.",
    415: "The body is not of the media type named here.",
    421: "The Host header names another server.",
    422: "Something cannot be used; `problems` names each field with what is wrong and the remedy.",
    429: "Too many wrong tokens came from this address; Retry-After says when to try again.",
    507: "The server's disk is full.",
}
JSON_BODY = (400, 413, 415, 422)
"""What any endpoint that reads JSON may refuse."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raw:
    """Bytes of a media type other than JSON."""

    media_type: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Body:
    """What a request holds, and an example that the server takes; a list of types stands for any of them."""

    type: Any
    example: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What the document says of one endpoint.

    ``answers`` by status: a type, several in one (tuple), any of several (list), or None for an empty one.
    ``query``: JSON Schema of parameters that FastAPI does not know of.
    """

    answers: Mapping[int, Any]
    refusals: tuple[int, ...]
    body: Body | None
    query: Mapping[str, Mapping[str, Any]]


def documented(
    answers: Mapping[int, Any],
    *refusals: int,
    body: Body | None = None,
    query: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[F], F]:
    """Say of an endpoint what the OpenAPI document shall say."""
    found = Endpoint(answers=answers, refusals=refusals, body=body, query=query or {})

    def attach(function: F) -> F:
        function.documented = found  # type: ignore[attr-defined]
        return function

    return attach


def endpoints(routers: tuple[APIRouter, ...]) -> dict[tuple[str, str], Endpoint]:
    """Return what is said of every endpoint, by path and method."""
    return {
        (route.path, method.lower()): route.endpoint.documented  # type: ignore[attr-defined]
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


def install(app: FastAPI, routers: tuple[APIRouter, ...]) -> None:
    """Let the app's OpenAPI document say what its endpoints say of themselves; it is made when first asked for."""
    plain = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(plain(), endpoints(routers))
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = complete  # type: ignore[method-assign]


def _complete(document: dict[str, Any], found: Mapping[tuple[str, str], Endpoint]) -> None:
    types = [ProblemDocument]
    for endpoint in found.values():
        bodies = [endpoint.body.type] if endpoint.body else []
        types += [one for listed in (*endpoint.answers.values(), *bodies) for one in _parts(listed)]
    types = [one for one in dict.fromkeys(types) if one is not None and not isinstance(one, Raw)]
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=lambda _: {"type": "array"}, ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip(types, schemas, strict=True))
    for given, cls in CHECKED.items():
        _add_bounds(components[given.__name__], cls)
    document["components"] = {
        "schemas": components,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "HEADROOM_TOKEN"}},
    }
    for (path, method), endpoint in found.items():
        operation = document["paths"][path][method]
        guarded = path not in OPEN_PATHS
        refusals = {*endpoint.refusals, 421, *((401, 429) if guarded else ())}
        refusals |= set() if method.upper() in READING else {403}
        problem = {"content": {PROBLEM: {"schema": by_type[ProblemDocument]}}}
        operation["responses"] = {
            **{str(status): _answer(answer, by_type) for status, answer in endpoint.answers.items()},
            **{str(status): {"description": REFUSALS[status], **problem} for status in sorted(refusals)},
            "default": {"description": "An error of the server's own.", **problem},
        }
        if guarded:
            operation["security"] = [{}, {"token": []}]
        if endpoint.body:
            content = _content(endpoint.body.type, by_type)
            for media in content.values():
                media["example"] = endpoint.body.example
            operation["requestBody"] = {"required": True, "content": content}
        if endpoint.query:
            told = [{"name": name, "in": "query", **schema} for name, schema in endpoint.query.items()]
            operation["parameters"] = [*operation.get("parameters", []), *told]


def _parts(listed: Any) -> tuple[Any, ...]:
    """List the types of which an answer is made."""
    several = tuple(listed) if isinstance(listed, (tuple, list)) else (listed,)
    return tuple(part for one in several for part in (_parts(one) if isinstance(one, (tuple, list)) else (one,)))


def _answer(listed: Any, by_type: Mapping[Any, Any]) -> dict[str, Any]:
    if listed is None:
        return {"description": "Done; there is nothing to say."}
    return {"description": "Success", "content": _content(listed, by_type)}


def _content(listed: Any, by_type: Mapping[Any, Any]) -> dict[str, Any]:
    choices = listed if isinstance(listed, list) else [listed]
    raw = {one.media_type: {"schema": {"type": "string"}} for one in choices if isinstance(one, Raw)}
    schemas = [
        {"allOf": [by_type[part] for part in one]} if isinstance(one, tuple) else by_type[one]
        for one in choices
        if not isinstance(one, Raw)
    ]
    if not schemas:
        return raw
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}, **raw}


def _add_bounds(schema: dict[str, Any], cls: type[Any]) -> None:
    """Add what the codec holds the fields of ``cls`` to, and that it knows no others."""
    schema["additionalProperties"] = False
    for field in dataclasses.fields(cls):
        told = schema["properties"].get(field.name)
        if told is None:
            continue
        metadata = field.metadata
        if metadata.get("help"):
            told["description"] = metadata["help"]
        if metadata.get("choices"):
            told["enum"] = list(metadata["choices"])
        for name in ("minimum", "maximum"):
            if metadata.get(name) is not None and told.get("type") != "string":
                told[name] = metadata[name]
