"""Recovery: take up a run that an earlier server left, from its folder."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from app.disk import DataFolder
from app.launch import claimed, found
from app.live import Live, read_live
from app.run import Run
from app.store import Store
from estimator.scenario.problems import InputProblems
from runners.backends import backend
from runners.job import CANCEL_FILE

_log = logging.getLogger("headroom")


def take_up(known: Run, data: DataFolder, store: Store) -> Live | None:
    """Read an unfinished run; where its folder cannot be read, it has failed, and there is nothing to follow."""
    try:
        live = read_live(data.runs / known.id)
        backend(live.run.job.get("backend", ""))
    except (OSError, msgspec.DecodeError, InputProblems) as error:
        _log.warning("run %s cannot be taken up: %s", known.id, error)
        store.put_run(replace(known, state="failed", message=f"its folder cannot be read: {error}"))
        return None
    return live


def still_queued(live: Live) -> bool:
    """Whether nobody has begun to start it or asked for its end."""
    begun = claimed(live.folder) or found(live.folder, live.run) is not None
    return live.run.state == "queued" and not begun and not (live.folder / CANCEL_FILE).exists()
