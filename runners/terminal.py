"""Terminal: what a run prints for people while it measures; whole rows are in its events and its result."""

from __future__ import annotations

import statistics
from typing import Any

from estimator.scenario.measurement import Measurement, fullest_peak_bytes, rows_by_status, statuses_text
from estimator.scenario.units import bytes_text, counted, seconds
from runners.rates import rate_lines


class Told:
    """What a run's events say that was not said before: no line twice, and none that something is about to begin."""

    def __init__(self) -> None:
        self.last = ""

    def text(self, event: dict[str, Any]) -> str:
        """Write one event as a line, or nothing."""
        if event["kind"] == "progress" and not event["step"] and event["phase"] != "build":
            return ""
        text = event_text(event)
        place = text if event["kind"] == "state" else f"{event['phase']} {event['step']}"
        if place == self.last and "row" not in event:
            return ""
        self.last = place
        return text


def event_text(event: dict[str, Any]) -> str:
    """Write one event of a run as one line; nothing for what is said elsewhere."""
    if event["kind"] == "state":
        if event["state"] in ("running", "failed"):
            return ""  # the first says nothing, and a failure has been printed where it happened
        return f"{event['state']}: {event['message']}" if event["message"] else str(event["state"])
    took = "" if event["step_s"] is None else f"  {seconds(event['step_s'])}"
    text = f"{event['phase']} {event['step']}/{event['steps']}"
    return f"{text}{took}{_row_text(event['row'], bool(took))}" if "row" in event else f"{text}{took}"


def rates_text(found: Measurement) -> str:
    """Write what the ladder of ``probes`` comes to; "" for other benchmarks."""
    return "\n".join(rate_lines(found.rows)) if found.origin.format == "probes" else ""


def result_text(found: Measurement) -> str:
    """Write in a line what a run measured: the step and its memory, or how many rows have which status."""
    parts = []
    if found.steps_s:
        low_s, high_s = min(found.steps_s), max(found.steps_s)
        median_s = statistics.median(found.steps_s)
        parts.append(f"step {seconds(median_s)} ({seconds(low_s)} to {seconds(high_s)})")
    if peak_bytes := fullest_peak_bytes(found):
        parts.append(f"peak memory {bytes_text(peak_bytes)}")
    if found.rows:
        parts.append(f"{counted(len(found.rows), 'row')} ({statuses_text(rows_by_status(found.rows))})")
    return ", ".join(parts)


def _row_text(row: dict[str, Any], timed: bool) -> str:
    """What tells a row from others, which stands before its status, and what became of it."""
    names = list(row)
    at = names.index("status")
    words = [_cell(name, row[name]) for name in names[:at]]
    text = "  " + ", ".join(word for word in words if word)
    if row["status"] != "ok":
        return f"{text}: {row['status']}{': ' if row.get('message') else ''}{row.get('message', '')}"
    if timed:
        return text
    measured = [name for name in names[at:] if isinstance(row[name], float)]
    shown = "peak_bytes" if "peak_bytes" in measured else next(iter(measured), "")
    return f"{text}: {_cell(shown, row[shown])}" if shown else text


def _cell(name: str, value: object) -> str:
    """Write one column as people say it: words alone, numbers with their name, what is so by its name."""
    title = name.replace("_", " ")
    if value is None or value is False or value == "none":
        return ""
    if value is True:
        return title
    if isinstance(value, (int, float)):
        if name.endswith("_bytes"):
            return f"{title.removesuffix(' bytes')} {bytes_text(value)}"
        if name.endswith("_s"):
            return f"{title.removesuffix(' s')} {seconds(value)}"
        return f"{title} {value:.3g}" if isinstance(value, float) else f"{title} {value}"
    return str(value)
