"""Outcome: how a run ended, read from its folder once none of its processes is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from app.run import MEASURED, Run, log_tail
from app.summary import read_measurement
from estimator.measurement import Measurement
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
    """Say how a run ended: by its result where it measured something, else cancelled, else failed with the reason.

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
        measurement = replace(found, id=run.id, label=found.label or run.label)
        return Outcome(state=found.status, message=_said(found), measurement=measurement)
    if (folder / CANCEL_FILE).exists():
        reason = (folder / CANCEL_FILE).read_text(encoding="utf-8", errors="replace").strip()
        return Outcome(state="failed" if reason else "cancelled", message=reason or "stopped on request")
    if status and status.state == "cancelled":
        return Outcome(state="cancelled", message=status.message or "stopped on request")
    if found is not None:
        both = "; ".join(filter(None, (failure, _said(found))))
        return Outcome(state="failed", message=both or "it failed; its log may say why")
    reason = failure or ("its processes ended without a result" if started else "it was lost before it started")
    last = log_tail(folder).strip().splitlines()[-1:]
    return Outcome(state="failed", message=f"{reason}; its log ends: {last[0][:_LONGEST_LINE]}" if last else reason)


def _said(measurement: Measurement) -> str:
    return "; ".join(warning.message for warning in measurement.warnings if warning.code == measurement.status)
