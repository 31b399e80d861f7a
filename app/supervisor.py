"""Supervisor: queues measured runs, starts them through a backend, follows their events and stores what they give.

queued → running → ok | oom | failed | cancelled. A run lives in processes of its own and outlives this server: after
a restart it is found again by its job folder, and followed or concluded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import events
from app.disk import DataFolder, new_id, whole_folder, write_json
from app.live import Live, read_live
from app.outcome import outcome
from app.run import REQUEST_FILE, Run, fold
from app.store import Store
from estimator.codec import decode
from runners.backends import backend
from runners.job import CANCEL_FILE, Handle, Job, Request, read_handle, write_job

POLL_S = 0.1
POLLS_PER_LOOK = 5
"""Events are read at every poll; whether processes live is a search among all of them, so less often."""

CANCEL_WAIT_S = 20.0
_log = logging.getLogger("headroom")


class Supervisor:
    """Runs jobs, ``slots`` at a time; ``ready`` is awaited before the first one starts."""

    def __init__(
        self, store: Store, data: DataFolder, slots: int = 1, ready: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.store, self.data, self.slots, self.ready = store, data, slots, ready
        self._live: dict[str, Live] = {}
        self._queue: deque[str] = deque()
        self._active: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._scheduler: asyncio.Task[None] | None = None

    async def start(self, *, recover: bool = True) -> None:
        """Take up what an earlier server left, and begin to start queued runs."""
        if recover:
            await self._recover()
        self._scheduler = asyncio.create_task(self._schedule())

    def announce_stop(self) -> None:
        """End all event streams, so that the server can close its connections; runs go on."""
        self._stopping = True
        for live in self._live.values():
            live.publish()

    async def stop(self) -> None:
        """Stop following; runs go on and are found again by the next server."""
        self.announce_stop()
        tasks = [task for task in (self._scheduler, *self._active.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def request(self, job: Job) -> Request:
        """Return exactly what would be started for a job, and start nothing."""
        return backend(job.backend).render(self.data.runs / new_id(), job)

    async def submit(self, job: Job) -> Run:
        """Write the job's folder, make it known and queue it."""
        live = await asyncio.to_thread(self._create, job)
        self._live[live.run.id] = live
        self._queue.append(live.run.id)
        self._wake.set()
        return live.run

    async def cancel(self, run_id: str) -> Run | None:
        """End a run and everything that it started; return it as it then stands, None where there is no such run."""
        live = self._live.get(run_id)
        if live is None:
            return await asyncio.to_thread(self._cancel_elsewhere, run_id)
        await asyncio.to_thread((live.folder / CANCEL_FILE).touch)
        if run_id in self._queue:
            self._queue.remove(run_id)
            await self._conclude(live)
        elif live.handle is not None:
            await asyncio.to_thread(backend(live.run.job["backend"]).cancel, live.handle)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_WAIT_S):
                while not live.done:
                    await live.changed.wait()
        return live.run

    def event_count(self, run_id: str) -> int:
        """Count the lines of a run's events."""
        return len(events.EventReader(self.data.runs / run_id).read())

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[int, str]]:
        """Yield (line number, line) of a run's events beyond ``after``, until its final state or the server's stop."""
        live = self._live.get(run_id)
        if live is None:
            lines = await asyncio.to_thread(events.EventReader(self.data.runs / run_id).read)
            for number, line in enumerate(lines, 1):
                if number > after and events.parse(line):
                    yield number, line
            return
        while True:
            while after < len(live.lines):
                after += 1
                if events.parse(live.lines[after - 1]):
                    yield after, live.lines[after - 1]
            if live.done or self._stopping:
                return
            await live.changed.wait()

    def _create(self, job: Job) -> Live:
        run_id = new_id()
        folder = self.data.runs / run_id
        request = backend(job.backend).render(folder, job)
        with whole_folder(self.data.runs, run_id) as unfinished:
            write_job(unfinished, job)
            write_json(unfinished / REQUEST_FILE, request)
            events.append_state(unfinished, "queued")
        live = read_live(folder)
        self.store.put_run(live.run)
        return live

    def _cancel_elsewhere(self, run_id: str) -> Run | None:
        """End a run that a command follows, not this server; whoever follows it concludes it."""
        run = self.store.run(run_id)
        handle = read_handle(self.data.runs / run_id) if run and not run.final else None
        if run and handle:
            backend(run.job["backend"]).cancel(handle)
        return run

    async def _recover(self) -> None:
        for known in reversed(await asyncio.to_thread(self.store.runs, unfinished=True)):
            live = await asyncio.to_thread(read_live, self.data.runs / known.id)
            self._live[known.id] = live
            live.handle = await asyncio.to_thread(read_handle, live.folder)
            if live.handle is None and live.run.state == "queued" and not (live.folder / CANCEL_FILE).exists():
                self._queue.append(known.id)
            else:
                self._watch(live, self._follow(live))

    async def _schedule(self) -> None:
        if self.ready is not None:
            await self.ready()
        while True:
            self._wake.clear()
            while self._queue and len(self._active) < self.slots:
                live = self._live[self._queue.popleft()]
                self._watch(live, self._start(live))
            await self._wake.wait()

    def _watch(self, live: Live, work: Coroutine[Any, Any, None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            self._active.pop(live.run.id, None)
            self._wake.set()
            if not task.cancelled() and task.exception() is not None:
                # The next server concludes it from its folder; until then nobody should wait for news
                _log.error("following run %s failed", live.run.id, exc_info=task.exception())
                live.done = True
                self._live.pop(live.run.id, None)
                live.publish()

        task = self._active[live.run.id] = asyncio.create_task(work)
        task.add_done_callback(ended)

    async def _start(self, live: Live) -> None:
        try:
            live.handle = await asyncio.to_thread(_launch, live.folder, live.run)
        except OSError as error:
            await self._conclude(live, f"could not be started: {error}")
            return
        if (live.folder / CANCEL_FILE).exists():
            # The wish came while the processes were being started
            await asyncio.to_thread(backend(live.run.job["backend"]).cancel, live.handle)
        await self._follow(live)

    async def _follow(self, live: Live) -> None:
        poll = 0
        while live.handle is not None:
            look = poll % POLLS_PER_LOOK == 0 or bool(live.held)
            alive = not look or await asyncio.to_thread(backend(live.run.job["backend"]).alive, live.handle)
            await self._read(live)
            if not alive:
                break
            poll += 1
            await asyncio.sleep(POLL_S)
        await self._conclude(live)

    async def _read(self, live: Live) -> None:
        before = live.run
        news = await asyncio.to_thread(live.take)
        if live.run != before:
            await asyncio.to_thread(self.store.put_run, live.run)
        if news:
            live.publish()

    async def _conclude(self, live: Live, failure: str = "") -> None:
        """Decide the final state, store it with the result, and only then tell subscribers."""
        await self._read(live)
        found = await asyncio.to_thread(outcome, live.folder, live.run, failure, started=live.handle is not None)
        if events.final_state(live.held) != found.state:
            await asyncio.to_thread(events.append_state, live.folder, found.state, found.message)
        live.held += await asyncio.to_thread(live.reader.read)
        run = live.run
        for line in live.held:
            run = fold(run, line)
        live.run = replace(run, measurement_id=run.id if found.measurement else None)
        await asyncio.to_thread(self.store.put_run, live.run, found.measurement)
        live.lines += live.held
        live.done = True
        self._live.pop(live.run.id, None)
        live.publish()


def _launch(folder: Path, run: Run) -> Handle:
    job = decode(Job, run.job)
    chosen = backend(job.backend)
    handle = chosen.submit(chosen.render(folder, job))
    events.append_state(folder, "running")
    return handle
