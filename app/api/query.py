"""Query: the inputs that an address names, each once."""

from __future__ import annotations

from fastapi import Request

from estimator.scenario.problems import InputProblems, Problem

INPUTS = {
    "inputs": {
        "description": "Inputs of the study, each a parameter of its own name; GET /api/studies lists them.",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "style": "form",
        "explode": True,
    }
}
"""How OpenAPI tells of parameters that it cannot name."""


def inputs_of(request: Request) -> dict[str, object]:
    """Read the query as one text per name; raise InputProblems where a name is given twice."""
    found: dict[str, object] = {}
    problems = []
    for key, value in request.query_params.multi_items():
        if key in found:
            problems.append(Problem(field=key, message="is given twice", remedy="Give each input once."))
        found[key] = value
    if problems:
        raise InputProblems(problems)
    return found
