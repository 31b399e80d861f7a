"""Supervisor: queues measured runs, starts them through a backend, follows their events and stores what they give.

queued → running → ok | oom | failed | cancelled. A run lives in processes of its own and outlives this server: after
a restart it is found again by its job folder, and followed or concluded. Whoever starts a run first leaves a claim in
its folder, so that it is started once at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import msgspec

from app import events
from app.disk import DataFolder, new_id, whole_folder, write_json
from app.follow import POLL_S, conclude, end, follow
from app.jobs import named
from app.launch import claim, claimed, found, launch, requests
from app.live import Live, read_live
from app.run import REQUEST_FILE, Run
from app.store import Store
from estimator.problems import InputProblems
from runners.backends import Status, backend
from runners.job import CANCEL_FILE, Job, Request, write_job

CANCEL_WAIT_S = 20.0
FIND_S = 5.0
"""How long a run that somebody else is starting may take to be found."""

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

    def requests(self, jobs: list[Job]) -> list[Request]:
        """Return exactly what would be started, and start nothing; the folders do not exist yet."""
        return requests([(self.data.runs / new_id(), job) for job in jobs])

    async def submit(self, job: Job) -> Run:
        """Write the job's folder, make it known and queue it; raise InputProblems where it cannot be started here."""
        (live,) = await self._make([job])
        self._queue.append(live.run.id)
        self._wake.set()
        return live.run

    async def submit_array(self, jobs: list[Job]) -> list[Run]:
        """Submit several jobs for Slurm at once, as one array; raise InputProblems."""
        lives = await self._make(jobs)
        starting = asyncio.create_task(self._start_array(lives))
        for live in lives:
            self._active[live.run.id] = starting
        return [live.run for live in lives]

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
            await asyncio.to_thread(end, live.run, live.handle)
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

    async def _make(self, jobs: list[Job]) -> list[Live]:
        missing = await asyncio.to_thread(backend(jobs[0].backend).missing)
        if missing:
            raise InputProblems(missing)
        lives = await asyncio.to_thread(self._create, jobs)
        self._live |= {live.run.id: live for live in lives}
        return lives

    def _create(self, jobs: list[Job]) -> list[Live]:
        ids = [new_id() for _ in jobs]
        folders = [self.data.runs / run_id for run_id in ids]
        jobs = [named(job, run_id) for job, run_id in zip(jobs, ids, strict=True)]
        asked = requests(list(zip(folders, jobs, strict=True)))
        lives = []
        for folder, job, request in zip(folders, jobs, asked, strict=True):
            with whole_folder(self.data.runs, folder.name) as unfinished:
                write_job(unfinished, job)
                write_json(unfinished / REQUEST_FILE, request)
                events.append_state(unfinished, "queued")
            lives.append(read_live(folder))
            self.store.put_run(lives[-1].run)
        return lives

    def _cancel_elsewhere(self, run_id: str) -> Run | None:
        """End a run that a command follows, not this server; whoever follows it concludes it."""
        run = self.store.run(run_id)
        handle = found(self.data.runs / run_id, run) if run and not run.final else None
        if run and handle:
            end(run, handle)
        return run

    async def _recover(self) -> None:
        for known in reversed(await asyncio.to_thread(self.store.runs, unfinished=True)):
            try:
                live = await asyncio.to_thread(read_live, self.data.runs / known.id)
                backend(live.run.job.get("backend", ""))
            except (OSError, msgspec.DecodeError, InputProblems) as error:
                _log.warning("run %s cannot be taken up: %s", known.id, error)
                lost = replace(known, state="failed", message=f"its folder cannot be read: {error}")
                await asyncio.to_thread(self.store.put_run, lost)
                continue
            self._live[known.id] = live
            unclaimed = live.run.state == "queued" and not await asyncio.to_thread(_begun, live)
            if unclaimed and not (live.folder / CANCEL_FILE).exists():
                self._queue.append(known.id)
            else:
                self._watch(live, self._adopt(live))

    async def _schedule(self) -> None:
        if self.ready is not None:
            await self.ready()
        while True:
            self._wake.clear()
            for run_id in list(self._queue):
                live = self._live[run_id]
                if self._may_start(live):
                    self._queue.remove(run_id)
                    self._watch(live, self._start(live))
            await self._wake.wait()

    def _may_start(self, live: Live) -> bool:
        """Whether it has a slot; what a backend queues by itself needs none."""
        at_work = [self._live[run_id] for run_id in self._active if run_id in self._live]
        return _queues(live.run) or sum(not _queues(one.run) for one in at_work) < self.slots

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
        if not await asyncio.to_thread(claim, live.folder):
            await self._adopt(live)
            return
        try:
            (live.handle,) = await asyncio.to_thread(launch, [(live.folder, live.run)])
        except (OSError, InputProblems) as error:
            await self._conclude(live, Status(alive=False, state="failed", message=f"could not be started: {error}"))
            return
        await self._follow(live)

    async def _start_array(self, lives: list[Live]) -> None:
        for live in lives:
            await asyncio.to_thread(claim, live.folder)
        try:
            handles = await asyncio.to_thread(launch, [(live.folder, live.run) for live in lives])
        except (OSError, InputProblems) as error:
            for live in lives:
                status = Status(alive=False, state="failed", message=f"could not be started: {error}")
                self._watch(live, self._conclude(live, status))
            return
        for live, live.handle in zip(lives, handles, strict=True):
            self._watch(live, self._follow(live))

    async def _adopt(self, live: Live) -> None:
        """Follow a run that somebody else started or is starting, or conclude it where nothing of it is found."""
        deadline_s = time.monotonic() + (FIND_S if live.run.state == "queued" and claimed(live.folder) else 0.0)
        while live.handle is None:
            live.handle = await asyncio.to_thread(found, live.folder, live.run)
            if live.handle is None and time.monotonic() >= deadline_s:
                await self._conclude(live)
                return
            await asyncio.sleep(0 if live.handle else POLL_S)
        await self._follow(live)

    async def _follow(self, live: Live) -> None:
        await self._conclude(live, await follow(live, self.store))

    async def _conclude(self, live: Live, status: Status | None = None) -> None:
        await conclude(live, self.store, status)
        self._live.pop(live.run.id, None)


def _begun(live: Live) -> bool:
    return claimed(live.folder) or found(live.folder, live.run) is not None


def _queues(run: Run) -> bool:
    return backend(run.job["backend"]).QUEUES
