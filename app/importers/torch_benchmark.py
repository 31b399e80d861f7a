"""What ``torch.utils.benchmark`` prints: measurements of a Timer, and the tables of Compare; a row for each time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.measurement import Measurement, Origin

if TYPE_CHECKING:
    from app.importers.text.values.units import Unit

_TIMER = re.compile(r"^<torch\.utils\.benchmark\.utils\.common\.Measurement object at 0x[0-9a-f]{1,20}>\s*$")
_TIME = re.compile(r"^\s{2,4}(Median:\s+)?([\d.]{1,20}) (s|ms|us|ns)\s*$")
_SPREAD = re.compile(r"^\s{2,4}IQR:\s+([\d.]{1,20}) (s|ms|us|ns)\b")
_RUNS = re.compile(r"^\s{2,4}(\d{1,9}) measurements?, (\d{1,12}) runs.{0,40}?(\d{1,6}) threads?\s*$")
_TITLE = re.compile(r"^\[-{1,200} (.{1,200}?) -{1,200}\]\s*$")
_THREADS = re.compile(r"^(\d{1,6}) threads?: -{1,400}\s*$")
_UNIT = re.compile(r"^Times are in \w{1,20} \((\w{1,4})\)")
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_FIGURE = re.compile(r"(?:^|\s)([\d.]{1,20})\s*(?:\(! {0,4}\d{1,6}%\))?\s*$")
_LONGEST_LINE = 2000


def is_text(text: str) -> bool:
    """Whether a text holds such an output."""
    return "torch.utils.benchmark.utils.common.Measurement object" in text or bool(
        re.search(r"^\d{1,6} threads?: -{3}", text, re.MULTILINE) and re.search(r"^Times are in \w", text, re.MULTILINE)
    )


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every time; raise ImportRefused where there is none."""
    text = source.read("torch.utils.benchmark").decode("utf-8", "replace")
    lines = [_ANSI.sub("", line) for line in text.splitlines() if len(line) < _LONGEST_LINE]
    rows = [*_timers(lines), *_compared(lines)]
    if not rows:
        raise ImportRefused(
            "torch.utils.benchmark", "", "it holds no time", "Print the measurement, or the comparison."
        )
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="text/torch-benchmark", producer="torch.utils.benchmark"),
        rows=tuple(rows[: limits.rows]),
    )
    return Imported(measurements=(measurement,), skipped=max(0, len(rows) - limits.rows))


def _timers(lines: list[str]) -> list[dict[str, Any]]:
    rows = []
    starts = [at for at, line in enumerate(lines) if _TIMER.match(line)]
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        row: dict[str, Any] = {}
        said: list[str] = []
        for line in lines[start + 1 : min(end, start + 60)]:
            if found := _TIME.match(line):
                row["median_s" if found[1] else "mean_s"] = _seconds(found[2], found[3])
            elif found := _SPREAD.match(line):
                row["iqr_s"] = _seconds(found[1], found[2])
            elif found := _RUNS.match(line):
                row |= {"measurements": int(found[1]), "runs": int(found[2]), "threads": int(found[3])}
                break
            elif not row and line.strip():
                said.append(line.strip())
        if "median_s" in row or "mean_s" in row:
            words = [line for line in said if not line.startswith(("setup:", "env:"))]
            label, _, sub = (words[0] if words else "").partition(": ")
            named = {"label": label[:200], "sub_label": sub[:200], "description": " ".join(words[1:])[:200]}
            rows.append({key: text for key, text in named.items() if text} | row)
    return rows


def _compared(lines: list[str]) -> list[dict[str, Any]]:
    """The unit of a table stands behind it."""
    rows: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], float]] = []
    label, columns, threads = "", [""], 1
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if found := _TITLE.match(line):
            label, columns = found[1], []
        elif found := _THREADS.match(line):
            threads = int(found[1])
        elif found := _UNIT.match(line):
            scale = _unit(found[1])
            rows += [row | {"median_s": value * scale.scale} for row, value in waiting if scale]
            waiting = []
        elif len(cells) > 1 and label and not columns:
            columns = cells[1:]
        elif len(cells) == len(columns) + 1 and label:
            for column, cell in zip(columns, cells[1:], strict=True):
                if (figure := _FIGURE.search(cell)) and (value := _plain(figure[1])):
                    row = {"label": label, "sub_label": cells[0][:200], "description": column[:200], "threads": threads}
                    waiting.append((row, value))
    return rows


def _seconds(text: str, printed: str) -> float:
    scale = _unit(printed)
    return _plain(text) * (scale.scale if scale else 1.0)


def _unit(printed: str) -> Unit | None:
    # all readers of tables come with it, and telling a format has none
    from app.importers.text.values.units import unit

    return unit(printed)


def _plain(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
