"""Follow: watch one run's folder and backend until it has ended, and conclude it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import Path

from app.errors import Refused
from app.runs import events
from app.runs.launch import claimed, found
from app.runs.live import Live
from app.runs.outcome import outcome
from app.runs.run import Run, fold
from app.store import Store
from estimator.scenario.units import seconds
from runners.backends import Status, backend
from runners.guard.journal import has_rows, recover
from runners.job import CANCEL_FILE, RESULT_FILE, Handle

GONE = "its folder has gone"
POLL_S = 0.1
"""Events are read at every poll; the backend is asked every ``LOOK_S`` of its own, and at the end more often."""

FIND_S = 5.0
"""How long a run that somebody else is starting may take to be found."""


async def look_for(live: Live) -> bool:
    """Find a run that somebody else started or is starting; says whether anything of it is left."""
    deadline_s = time.monotonic() + (FIND_S if live.run.state == "queued" and claimed(live.folder) else 0.0)
    while live.handle is None:
        live.handle = await asyncio.to_thread(found, live.folder, live.run)
        if live.handle is None and time.monotonic() >= deadline_s:
            return False
        await asyncio.sleep(0 if live.handle else POLL_S)
    return True


async def follow(live: Live, store: Store) -> Status:
    """Keep a started run's state in the store until nothing of it is left; return its backend's last word.

    What hinders storing is raised once all else is done, and may be followed by another call.
    """
    chosen = backend(live.run.job["backend"])
    assert live.handle is not None
    look_at_s = 0.0
    while True:
        status = None
        if time.monotonic() >= look_at_s:
            status = await asyncio.to_thread(chosen.status, live.handle)
            look_at_s = time.monotonic() + chosen.LOOK_S
        news = await asyncio.to_thread(live.take)
        if live.held:
            look_at_s = min(look_at_s, time.monotonic() + chosen.LOOK_S / 5)
        if status is not None and not status.alive:
            return status
        try:
            if status is not None:
                await _end_where_it_must(live)
                await _tell(live, status)
            await _store(live, store)
        finally:
            if news:
                live.publish()
        live.trouble = None
        await asyncio.sleep(POLL_S)


async def _tell(live: Live, status: Status) -> None:
    """Note in the run's events what its backend says: that it waits and why, or that it was started."""
    run = live.run
    known = run.state == status.state and run.message == status.message
    if not (known or live.held or run.final or (run.state, status.state) == ("running", "queued")):
        await asyncio.to_thread(events.append_state, live.folder, status.state, status.message)


async def _end_where_it_must(live: Live) -> None:
    """End a run whose cancelling was asked for while it was being started, whose time is over or whose folder is."""
    limit_s = float(live.run.job.get("time_limit_s") or 0)
    if limit_s and live.ran_s() > limit_s:
        await asyncio.to_thread(live.ask_end, f"stopped at its time limit of {seconds(limit_s)}")
    if await asyncio.to_thread(gone, live.folder):
        live.ask_end(GONE)  # what it still measures, nobody could read
    if live.ending is not None or (live.folder / CANCEL_FILE).exists():
        with contextlib.suppress(Refused):
            assert live.handle is not None
            await asyncio.to_thread(end, live.run, live.handle)


async def _store(live: Live, store: Store) -> None:
    run = live.run
    if run != live.stored:
        await asyncio.to_thread(store.put_run, run)
        live.stored = run


async def conclude(live: Live, store: Store, status: Status | None = None) -> None:
    """Decide the final state, store it with the result, and only then tell subscribers.

    Where the disk or the database does not take it, it may be called again.
    """
    await asyncio.to_thread(live.take)
    if await asyncio.to_thread(gone, live.folder):
        await _conclude_without_folder(live, store)
        return
    await asyncio.to_thread(live.note_end)
    result = live.folder / RESULT_FILE
    if await asyncio.to_thread(has_rows, result):  # all of it was killed, its watchdog too
        await asyncio.to_thread(recover, result, "failed", "its processes were killed", "failed")
    ended = await asyncio.to_thread(outcome, live.folder, live.run, status, started=live.handle is not None)
    if events.final_state(live.held) != ended.state:
        await asyncio.to_thread(events.append_state, live.folder, ended.state, ended.message)
        await asyncio.to_thread(live.take)
    run = live.run
    for line in live.held:
        run = fold(run, line)
    run = replace(run, measurement_id=run.id if ended.measurement else None)
    await asyncio.to_thread(store.put_run, run, ended.measurement)
    _tell_the_end(live, run)


def gone(folder: Path) -> bool:
    """Whether somebody took a run's folder away; a disk that is away takes the others', too, and may come back."""
    return folder.parent.is_dir() and not folder.exists()


async def _conclude_without_folder(live: Live, store: Store) -> None:
    """Store that a run has failed whose folder somebody took away: there is nowhere to write it but the index."""
    run = replace(live.run, state="failed", message=GONE, finished_s=time.time())
    await asyncio.to_thread(store.put_run, run)
    _tell_the_end(live, run)


def _tell_the_end(live: Live, run: Run) -> None:
    live.run = live.stored = run
    live.lines += live.held
    live.held = []
    live.trouble = None
    live.done = True
    live.publish()


def end(run: Run, handle: Handle) -> None:
    """End all that a run started; raise Refused where its backend does not answer."""
    try:
        backend(run.job["backend"]).cancel(handle)
    except OSError as error:
        raise Refused(503, f"{error} Try again.") from None
