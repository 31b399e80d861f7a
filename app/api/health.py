"""Health: whether this server can do its work, for people and for container checks."""

from __future__ import annotations

from importlib.metadata import version
from typing import TypedDict

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.context import Ctx

router = APIRouter()


class Health(TypedDict):
    """State of this server; ``runs`` counts those that have not ended, ``this_cpu`` is the state of its probe."""

    status: str
    version: str
    database: str
    runs: dict[str, int]
    this_cpu: str


@router.get("/api/health")
@documented({200: Health})
def get_health(context: Ctx) -> Response:
    """Answer 200 while the index answers, else 503: {status, version, database, storage, runs, this_cpu}.

    ``storage`` is ok, or what keeps this server from its index, which it has in memory until that has gone.
    """
    unfinished = context.store.runs(unfinished=True)
    return json_response(
        {
            "status": "ok",
            "version": version("headroom"),
            "database": context.store.check(),
            "storage": context.store.trouble.message if context.store.trouble else "ok",
            "runs": {state: sum(run.state == state for run in unfinished) for state in ("queued", "running")},
            "this_cpu": context.cpu.state,
        }
    )
