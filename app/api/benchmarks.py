"""Benchmarks: what each measures, with how many processes, and the options that a job may give it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, get_args

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.api.fields import WORDS, described
from estimator.scenario.codec import types_of
from runners.job import BENCHMARKS
from runners.options import OPTIONS, Nothing, about
from runners.refusals import ranks_of

router = APIRouter()


class Benchmark(TypedDict):
    """What it measures, with how many processes, and its options."""

    name: str
    about: str
    least_ranks: int
    most_ranks: int | None
    options: list[dict[str, Any]]


class Benchmarks(TypedDict):
    """All that a job may name."""

    benchmarks: list[Benchmark]


@router.get("/api/benchmarks")
@documented({200: Benchmarks})
def get_benchmarks() -> Response:
    """All that POST /api/runs takes as ``benchmark`` → {benchmarks: [{name, about, least_ranks, most_ranks, options}]}.

    ``most_ranks`` is null where more never are too many. An option is {name, list, type, choices, minimum, maximum,
    help, default}; of a list, all but the default are those of its items. The options that matter most come first.
    """
    return json_response({"benchmarks": [_described(name) for name in BENCHMARKS]})


def _described(name: str) -> dict[str, Any]:
    ranks = ranks_of(name)
    return {
        "name": name,
        "about": about(name),
        "least_ranks": ranks.least,
        "most_ranks": ranks.most,
        "options": _options(OPTIONS.get(name, Nothing)),
    }


def _options(cls: type[Any]) -> list[dict[str, Any]]:
    hints = types_of(cls)
    found = []
    for field in dataclasses.fields(cls):
        kind = hints[field.name]
        several = kind not in WORDS
        item = get_args(kind)[0] if several else kind
        found.append({"name": field.name, "list": several, **described(field, item)})
    return found
