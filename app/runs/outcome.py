"""Outcome: how a run ended, read from its folder once none of its processes is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from app.runs.run import MEASURED, Run, log_tail
from app.summary import read_measurement
from estimator.scenario.measurement import Measurement, any_measured, status_reason
from runners.backends import Status
from runners.job import CANCEL_FILE, RESULT_FILE

_LONGEST_LINE = 500


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Final state, the reason where there is one to give, and what was measured."""

    state: str
    message: str = ""
    measurement: Measurement | None = None


def outcome(folder: Path, run: Run, status: Status | None = None, *, started: bool = True) -> Outcome:
    """Say how a run ended: by its result where it measured all, else cancelled, else failed with the reason.

    Rows that were measured before it broke off are kept.

    ``status`` is the backend's last word. A file ``cancel`` that says something holds the reason for which this server
    stopped the run; an empty one is somebody's wish.
    """
    found: Measurement | None = None
    failure = status.message if status and status.state == "failed" else ""
    try:
        found = read_measurement(folder / RESULT_FILE)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        failure = failure or f"its result cannot be read: {error}"
    if found is not None and found.status in MEASURED:
        return Outcome(state=found.status, message=status_reason(found), measurement=_named(found, run))
    partial = _named(found, run) if found is not None and any_measured(found.rows) else None
    if (folder / CANCEL_FILE).exists():
        reason = (folder / CANCEL_FILE).read_text(encoding="utf-8", errors="replace").strip()
        state = "failed" if reason else "cancelled"
        return Outcome(state=state, message=reason or "stopped on request", measurement=partial)
    if status and status.state == "cancelled":
        return Outcome(state="cancelled", message=status.message or "stopped on request", measurement=partial)
    if found is not None:
        both = "; ".join(filter(None, (failure, status_reason(found))))
        return Outcome(state="failed", message=both or "it failed; its log may say why", measurement=partial)
    reason = failure or ("its processes ended without a result" if started else "it was lost before it started")
    last = log_tail(folder).strip().splitlines()[-1:]
    return Outcome(state="failed", message=f"{reason}; its log ends: {last[0][:_LONGEST_LINE]}" if last else reason)


def _named(measurement: Measurement, run: Run) -> Measurement:
    return replace(measurement, id=run.id, label=measurement.label or run.label)
