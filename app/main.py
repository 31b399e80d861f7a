"""Main: the application, put together from settings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI, Request
from starlette.responses import Response

from app import errors, pages
from app.answers import Answers
from app.api import ROUTERS, documented
from app.api.runs import NothingMore
from app.calibrations import CalibrationFolder
from app.commands.calibration import read_calibrations
from app.context import Context
from app.disk import DataFolder
from app.runs.supervisor import Supervisor
from app.security import Guard
from app.settings import Settings
from app.slow_callers import BodyInTime
from app.store import Store
from app.this_cpu import ThisCpu
from app.tracing import Turns
from estimator.scenario.problems import InputProblems

_log = logging.getLogger("headroom")

PARALLEL_SWEEPS = 1
PARALLEL_IMPORTS = 2
TAKE_UP_S = 10.0
"""Between two looks at an index that could not be opened."""


def create_app(settings: Settings) -> FastAPI:
    """Build the server; raises InputProblems where the settings are unsafe or the data folder cannot be used."""
    problems = settings.problems()
    if problems:
        raise InputProblems(problems)
    data = DataFolder(settings.data)
    data.create()
    cpu = ThisCpu(data, settings.probe_seconds, enabled=settings.probe_cpu)
    store = Store(settings.index_url, data, settings.samples)
    supervisor = Supervisor(store, data, settings.run_slots, ready=cpu.finished.wait)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                stack.enter_context(data.locked())
                stack.callback(store.close)
                data.remove_unfinished()
                await asyncio.to_thread(store.open_to_read)
                if store.trouble:
                    _log.warning("%s What is there is served, from an index in memory.", store.trouble)
                stack.push_async_callback(supervisor.stop)
                stack.push_async_callback(cpu.stop)
                # Neither the probe nor the compression may keep the first page waiting
                for work in (cpu.ensure(), app.state.prepare_pages(), _take_up(store)):
                    stack.push_async_callback(_end, asyncio.create_task(work))
                await supervisor.start()
            except Exception as error:
                app.state.startup_failure = error
                raise
            yield

    # The pages for developers load scripts from elsewhere; the schema itself stays at /api/openapi.json
    app = FastAPI(
        title="Headroom",
        version=version("headroom"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.startup_failure = None
    app.state.context = Context(
        settings=settings,
        data=data,
        store=store,
        answers=Answers(),
        calibrations=CalibrationFolder(data.calibrations, read_calibrations(settings.calibration) or ()),
        supervisor=supervisor,
        cpu=cpu,
        sweeps=asyncio.Semaphore(PARALLEL_SWEEPS),
        imports=asyncio.Semaphore(PARALLEL_IMPORTS),
        traces=Turns(),
    )
    errors.install(app)
    app.add_exception_handler(NothingMore, _nothing_more)
    for router in ROUTERS:
        app.include_router(router)
    documented.install(app, ROUTERS)
    pages.install(app, settings.static, data)
    app.add_middleware(BodyInTime, wait_s=settings.request_wait_s)
    app.add_middleware(Guard, settings=settings)
    return app


async def _take_up(store: Store) -> None:
    """Try until the index that could not be opened at the start is in use."""
    while store.trouble:
        await asyncio.sleep(TAKE_UP_S)
        if await asyncio.to_thread(store.take_up):
            _log.warning("The index can be written by now, and is in use.")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _nothing_more(request: Request, error: Exception) -> Response:
    return Response(status_code=204)
