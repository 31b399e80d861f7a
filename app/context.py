"""Context: what one server process holds, handed to every endpoint."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.answers import Answers
from app.calibrations import CalibrationFolder
from app.disk import DataFolder
from app.runs.supervisor import Supervisor
from app.settings import Settings
from app.store import Store
from app.this_cpu import ThisCpu
from app.tracing import Turns


@dataclass(frozen=True, kw_only=True)
class Context:
    """Settings and the live parts of one server."""

    settings: Settings
    data: DataFolder
    store: Store
    calibrations: CalibrationFolder
    answers: Answers
    supervisor: Supervisor
    cpu: ThisCpu
    sweeps: asyncio.Semaphore
    imports: asyncio.Semaphore
    traces: Turns


async def context_of(request: Request) -> Context:
    """Return the context of the server that got this request; async, because FastAPI calls others in a thread."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Ctx = Annotated[Context, Depends(context_of)]
