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
from functools import partial
from typing import Any

from app.disk import DataFolder, new_id
from app.errors import Refused
from app.runs import events
from app.runs.follow import POLL_S, conclude, end, follow, gone, look_for
from app.runs.launch import claim, found, make_runs, requests, start, still_queued, take_up
from app.runs.live import Live
from app.runs.run import Run
from app.storage import Trouble, trouble_of
from app.store import Store
from runners.backends import Status, backend
from runners.job import Job, Request, ask_to_cancel

CANCEL_WAIT_S = 20.0
ELSEWHERE_WAIT_S = 5.0
"""How long somebody else who follows a run, a command, may take to conclude it once its processes are gone."""

TROUBLE_WAIT_S = 2.0
"""How long whoever cancels a run waits for its end where that cannot be stored."""

RETRY_S, MOST_RETRY_S = 0.25, 8.0

_log = logging.getLogger("headroom")


class Supervisor:
    """Runs jobs, ``slots`` at a time; ``ready`` is awaited before any starts."""

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
        """End a run and everything that it started; return it as it then stands, None where there is no such run.

        Raises Refused where its processes do not end, or where its end cannot be stored yet.
        """
        live = self._live.get(run_id)
        if live is None:
            run, live = await self._cancel_elsewhere(run_id)
            if live is None:
                return run
        await asyncio.to_thread(live.ask_end)
        if run_id in self._queue:
            self._queue.remove(run_id)
            self._watch(live, partial(self._conclude, live))
        elif live.handle is not None:
            await asyncio.to_thread(end, live.run, live.handle)
        began_s = time.monotonic()
        while not live.done and time.monotonic() - began_s < (TROUBLE_WAIT_S if live.trouble else CANCEL_WAIT_S):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await live.changed.wait()
        if live.trouble and not live.done:
            detail = f"The run is being ended, which cannot be stored yet: {live.trouble.message}. It will be."
            raise Refused(live.trouble.status, detail)
        return live.run

    async def _cancel_elsewhere(self, run_id: str) -> tuple[Run | None, Live | None]:
        """End a run that is not followed here; where nobody else concludes it, it is from then on."""
        run, folder = await asyncio.to_thread(self.store.run, run_id), self.data.runs / run_id
        if run is None or run.final:
            return run, None
        handle = await asyncio.to_thread(found, folder, run)
        if handle:
            await asyncio.to_thread(end, run, handle)
        else:
            await asyncio.to_thread(ask_to_cancel, folder)
        deadline_s = time.monotonic() + ELSEWHERE_WAIT_S
        while time.monotonic() < deadline_s:
            run = await asyncio.to_thread(self.store.run, run_id)
            if run is None or run.final:
                return run, None
            await asyncio.sleep(POLL_S)
        live = await asyncio.to_thread(take_up, run, self.data, self.store)
        if live is None:
            return await asyncio.to_thread(self.store.run, run_id), None
        if run_id not in self._live:
            self._live[run_id] = live
            self._watch(live, partial(self._adopt, live))
        return run, self._live[run_id]

    def ahead_of(self, run_id: str) -> list[Run]:
        """Runs that a queued one waits for, those at work first; none where it may start or is queued elsewhere."""
        if run_id not in self._queue or self._may_start(self._live[run_id]):
            return []
        before = [*self._active, *list(self._queue)[: self._queue.index(run_id)]]
        known = [self._live[one].run for one in before if one in self._live]
        return [run for run in known if not _queues(run)]

    def at_work(self) -> int:
        """Count the runs that are under way on this machine; what a backend queues by itself runs elsewhere."""
        return sum(not _queues(self._live[run_id].run) for run_id in self._active if run_id in self._live)

    def trouble(self, run_id: str) -> Trouble | None:
        """Return what hinders following a run just now."""
        live = self._live.get(run_id)
        return live.trouble if live else None

    def event_count(self, run_id: str) -> int:
        """Count the lines of a run's events."""
        return len(events.EventReader(self.data.runs / run_id).read())

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[int, str]]:
        """Yield (line number, line) of a run's events beyond ``after``, until its final state or the server's stop."""
        live = self._live.get(run_id)
        lines = live.lines if live else await asyncio.to_thread(self._lines, run_id)
        while True:
            while after < len(lines):
                after += 1
                if events.parse(lines[after - 1]):
                    yield after, lines[after - 1]
            if live is None or live.done or self._stopping:
                return
            await live.changed.wait()

    def _lines(self, run_id: str) -> list[str]:
        """Lines of a run that is not followed here: its end only once whoever follows it has stored the result."""
        run = self.store.run(run_id)
        lines = events.EventReader(self.data.runs / run_id).read()
        return lines if run is None or run.final else events.until_final(lines)

    async def _make(self, jobs: list[Job]) -> list[Live]:
        lives = await asyncio.to_thread(make_runs, jobs, self.data, self.store)
        self._live |= {live.run.id: live for live in lives}
        return lives

    async def _recover(self) -> None:
        for known in reversed(await asyncio.to_thread(self.store.runs, unfinished=True)):
            live = await asyncio.to_thread(take_up, known, self.data, self.store)
            if live is None:
                continue
            self._live[known.id] = live
            if await asyncio.to_thread(still_queued, live):
                self._queue.append(known.id)
            else:
                self._watch(live, partial(self._adopt, live))

    async def _schedule(self) -> None:
        while True:
            self._wake.clear()
            if self.ready is not None:
                await self.ready()
            for run_id in list(self._queue):
                live = self._live[run_id]
                if self._may_start(live):
                    self._queue.remove(run_id)
                    self._watch(live, partial(self._start, live))
            await self._wake.wait()

    def _may_start(self, live: Live) -> bool:
        """Whether it has a slot; what a backend queues by itself needs none."""
        return _queues(live.run) or self.at_work() < self.slots

    def _watch(self, live: Live, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what a run needs until it has ended; it keeps its slot until then."""

        def ended(_: asyncio.Task[None]) -> None:
            self._active.pop(live.run.id, None)
            self._wake.set()

        task = self._active[live.run.id] = asyncio.create_task(_until_done(live, work))
        task.add_done_callback(ended)

    async def _start(self, live: Live) -> None:
        if live.ending is not None or await asyncio.to_thread(gone, live.folder):
            await self._conclude(live)
            return
        if not await asyncio.to_thread(claim, live.folder):
            await self._adopt(live)
            return
        await self._follow_or_conclude(live, await asyncio.to_thread(start, [live]))

    async def _start_array(self, lives: list[Live]) -> None:
        try:
            for live in lives:
                await asyncio.to_thread(claim, live.folder)
            refused = await asyncio.to_thread(start, lives)
        except OSError as error:
            refused = Status(alive=False, state="failed", message=f"could not be started: {error}")
        for live in lives:
            self._watch(live, partial(self._follow_or_conclude, live, refused))

    async def _adopt(self, live: Live) -> None:
        """Follow a run that somebody else started or is starting, or conclude it where nothing of it is found."""
        if await look_for(live):
            await self._follow_or_conclude(live, None)
        else:
            await self._conclude(live)

    async def _follow_or_conclude(self, live: Live, refused: Status | None) -> None:
        await self._conclude(live, refused or await follow(live, self.store))

    async def _conclude(self, live: Live, status: Status | None = None) -> None:
        await conclude(live, self.store, status)
        self._live.pop(live.run.id, None)


async def _until_done(live: Live, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do the work, again and again where a disk, the database or an error of ours hinders it."""
    wait_s = RETRY_S
    while True:
        began_s = time.monotonic()
        try:
            return await work()
        except Exception as error:
            trouble = trouble_of(error) or Trouble(status=500, message="following it failed", remedy="See the log.")
            if trouble != live.trouble:
                expected = trouble.status != 500
                _log.warning("run %s: %s; trying again", live.run.id, trouble.message, exc_info=not expected)
            live.trouble = trouble
            live.publish()
        wait_s = RETRY_S if time.monotonic() - began_s > MOST_RETRY_S else min(2 * wait_s, MOST_RETRY_S)
        await asyncio.sleep(wait_s)


def _queues(run: Run) -> bool:
    return backend(run.job["backend"]).QUEUES
