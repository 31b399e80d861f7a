"""Errors: every failure leaves the server as an RFC 9457 problem document, none with a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypedDict

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.storage import DENIED, trouble_of
from estimator.scenario.problems import InputProblems, Problem

_log = logging.getLogger("headroom")


MOST_PROBLEMS = 100
"""In one answer, whose length does not follow the number of mistakes."""

MOST_FIELDS = 10
"""Named in one sentence."""


class ProblemDocument(TypedDict):
    """What every failure answers (RFC 9457); ``problems`` names the fields that are its reason, where there are any.

    Of very many the first ones; ``detail`` says how many there are.
    """

    type: str
    title: str
    status: int
    detail: str
    problems: list[Problem]


class Refused(Exception):  # noqa: N818 - it is an answer, not an accident
    """Raised by an endpoint to answer with one problem document; ``extra`` adds members to it."""

    def __init__(self, status: int, detail: str, problems: Sequence[Problem] = (), **extra: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.problems, self.extra = status, detail, tuple(problems), extra


def problem_document(
    status: int,
    detail: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """Build the answer {type, title, status, detail, problems}, of type application/problem+json (RFC 9457)."""
    title = HTTPStatus(status).phrase
    named = list(problems[:MOST_PROBLEMS])
    document = ProblemDocument(type="about:blank", title=title, status=status, detail=detail, problems=named)
    body = msgspec.json.encode({**document, **(extra or {})})
    return Response(body, status, headers=dict(headers or {}), media_type="application/problem+json")


def sentence(problems: Sequence[Problem]) -> str:
    """Say several problems in one line."""
    if len(problems) == 1:
        return str(problems[0])
    fields = [problem.field for problem in problems[:MOST_FIELDS]]
    return f"{len(problems)} fields cannot be used: {', '.join(fields)}{' …' if len(problems) > MOST_FIELDS else ''}"


def install(app: FastAPI) -> None:
    """Register the handlers that turn every exception into a problem document."""
    app.add_exception_handler(InputProblems, _input_problems)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _request_validation)
    app.add_exception_handler(HTTPException, _http)
    for kind in (SQLAlchemyError, OSError):
        app.add_exception_handler(kind, _storage)


async def _input_problems(request: Request, error: Exception) -> Response:
    assert isinstance(error, InputProblems)
    return problem_document(422, sentence(error.problems), error.problems)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"connection": "close"} if error.status == 408 else None  # the rest of that body is no request
    return problem_document(error.status, error.detail, error.problems, headers, error.extra)


async def _storage(request: Request, error: Exception) -> Response:
    """Answer 503 or 507 where a disk or the database does not take or give what is asked."""
    trouble = trouble_of(error)
    if isinstance(error, PermissionError):
        _log.error("%s %s: %s", request.method, request.url.path, error)
        trouble = DENIED
    if trouble is None:
        raise error
    return problem_document(trouble.status, str(trouble))


async def _request_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        Problem(
            field=".".join(str(part) for part in found["loc"][1:]) or "request",
            message=str(found["msg"]),
            remedy="Correct the parameter.",
        )
        for found in error.errors()
    ]
    return problem_document(422, sentence(problems), problems)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {
        404: f"There is nothing at {request.url.path}.",
        405: f"{request.url.path} does not take {request.method}.",
    }
    plain = error.detail == HTTPStatus(error.status_code).phrase
    detail = details.get(error.status_code, error.detail) if plain else error.detail
    return problem_document(error.status_code, detail, headers=error.headers)


def unexpected(method: str, path: str, error: Exception) -> Response:
    """Log an error of ours with its stack trace, and build the answer that has none."""
    _log.error("%s %s failed", method, path, exc_info=error)
    return problem_document(500, "The server failed on this request; its log has the reason.")
