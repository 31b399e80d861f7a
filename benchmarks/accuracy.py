"""How right predictions are: every table of measured steps at hand, predicted and scored; fails where one gets worse.

``make accuracy [TABLES=PATH...]``. A set is a CSV of measured runs, a folder of results of the project's own steps, or
one of its tables of rows. Figures that a set had before stand in ``accuracy.json``, by its name; ``--write`` puts the
new ones there and their table into docs/accuracy.md. Only sets at hand are compared, so tables that are not in the
repository keep their figures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.commands.validate import read_rows
from estimator.calibration.calibrate import Source, calibrate
from estimator.cost.efficiency import Efficiencies
from estimator.estimate.estimate import estimate
from estimator.estimate.residual import Residual, known
from estimator.scenario.measurement import step_time_s
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.validation.predicted_rows import predicted_table
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.steps import scenario_of_grid_row, scenario_of_variant_row
from estimator.validation.score import Predicted, errors, predict_rows
from runners.job import read_measurement

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference"
FIGURES = ROOT / "benchmarks" / "accuracy.json"
DOCS = ROOT / "docs" / "accuracy.md"
REGION = ("<!-- make accuracy: begin -->\n", "<!-- make accuracy: end -->")
STEPS = ("cs336", "llm", "modes", "recompute")
PROBES = "probes.json"
"""Among the paths of a set: what the others are predicted by, calibrated on nothing else."""
BUNDLED = {
    "h200 steps, first day": [REFERENCE / "h200" / f"step-{name}.json" for name in STEPS],
    "h200 steps, second day": [REFERENCE / "h200" / f"{name}-1.json" for name in STEPS],
    "h200 data parallel and pipelines": sorted((REFERENCE / "h200").glob("ddp-*.json")),
    "h200 memory": [REFERENCE / "h200" / "memory-1.json"],
    "h200 plans, one GPU": [REFERENCE / "h200_plans" / "1"],
    "h200 plans, two GPUs": [REFERENCE / "h200_plans" / "2"],
    "h200 plans, four GPUs": [REFERENCE / "h200_plans" / "4"],
    "h200 of another host, one GPU": [REFERENCE / "h200_host" / "1"],
    "h200 of another host, one GPU, by its probes": [REFERENCE / "h200_host" / "1", REFERENCE / "h200_host" / PROBES],
    "h200 of another host, two GPUs": [REFERENCE / "h200_host" / "2"],
    "h200 of another host, two GPUs, by its probes": [REFERENCE / "h200_host" / "2", REFERENCE / "h200_host" / PROBES],
    "published, bundled": [REFERENCE / "estimator_measured_runs.csv"],
}  # fmt: skip
SCENARIOS = {"step": scenario_of_grid_row, "ddp": scenario_of_variant_row}
RESIDUALS = ROOT / "estimator" / "catalog" / "residuals.toml"
TENTH = 0.9
"""Share of measured times that either end of an interval is to leave on its inner side."""
WORSE_FRAC = 0.05
ROUNDING_POINTS = 0.05
"""Percentage points that no figure is worse by: they are kept to two digits, and machines differ in the last."""
JUDGED = (
    "predicted_share",
    "time_mape",
    "time_median",
    "memory_mape",
    "memory_median",
    "forward_median",
    "backward_median",
)
FEWEST = 10
"""Rows that a hardware or model needs for a line of its own."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One measured step beside its prediction, from whatever table: errors in percent, None where not measured."""

    hardware: str
    model: str
    time: float | None
    memory: float | None
    forward: float | None = None
    backward: float | None = None
    naive: float | None = None
    peers: dict[str, float] | None = None
    kind: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def covered(self) -> bool | None:
        """Whether the measured time lies in the interval, whose ends are ratios to the predicted time."""
        return (
            None if self.low is None or self.high is None or self.ratio is None else self.low <= self.ratio <= self.high
        )

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time."""
        return None if self.time is None else 1 / (1 + self.time / 100)


def main() -> int:
    """Print the table of all sets; 1 where a figure is worse than before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path, help="CSV files of measured runs, or folders of them")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write their table into the docs")
    parser.add_argument("--residuals", action="store_true", help="fit the intervals' factors on all sets at hand")
    parser.add_argument("--only", default="", help="sets whose name has this word")
    parser.add_argument("--by", choices=("hardware", "model"), help="a line for each, where it has ten rows")
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    by_set: dict[str, list[Scored]] = {}
    for name, paths in sets(given.tables):
        if given.only in name:
            scored, skipped = read(paths)
            if not scored and not any(path.suffix == ".csv" for path in paths):
                continue
            found[name], by_set[name] = figures(scored, skipped), scored
            print_line(name, found[name], first=len(found) == 1)
            for group, members in grouped(scored, given.by).items():
                print_line(f"  {group}", figures(members, 0))
    for name, share in held_out(by_set).items():
        found[name]["held_out"] = share
        print(f"held out: {name}: {share} %")
    if given.residuals:
        RESIDUALS.write_text(residuals(by_set), encoding="utf-8")
        return 0
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    worse = list(worsened(before, found))
    if given.write:
        FIGURES.write_text(json.dumps(dict(sorted({**before, **found}.items())), indent=1) + "\n")
        write_docs({**before, **found})
        return 0
    print(*worse, sep="\n")
    return 1 if worse else 0


def sets(tables: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the bundled sets, then a set per table of measured runs among those given."""
    yield from BUNDLED.items()
    for path in tables:
        for table in sorted(path.glob("*.csv")) if path.is_dir() else [path]:
            with table.open(encoding="utf-8") as file:
                header = file.readline()
            if "hardware" in header and "global_batch" in header and "measured_step_time_s" in header:
                yield table.stem, [table]


def read(paths: Sequence[Path]) -> tuple[list[Scored], int]:
    """Predict every row of a set; the second number is of those that could not be."""
    scored: list[Scored] = []
    skipped = 0
    probes = [Source(name=path.name, measurement=read_measurement(path)) for path in paths if path.name == PROBES]
    calibrated = calibrate(probes).efficiencies if probes else None
    for path in paths:
        if path.name == PROBES:
            continue
        if path.suffix == ".csv":
            rows = predict_rows(read_rows(path))
            scored += [_of_row(row) for row in rows if isinstance(row, Predicted)]
            skipped += sum(not isinstance(row, Predicted) for row in rows)
        elif path.is_dir():
            results = (
                _of_result(result, calibrated)
                for result in sorted(path.glob("*.json"))
                if result.name != "predictions.json"
            )
            for one in results:
                scored += [one] if one else []
                skipped += one is None
        else:
            scored += _of_table(path)
    return scored, skipped


def _of_row(row: Predicted) -> Scored:
    return Scored(
        hardware=row.hardware,
        model=row.model,
        time=row.time_error_pct,
        memory=row.memory_error_pct,
        forward=row.parts_error_pct.get("forward"),
        backward=row.parts_error_pct.get("backward"),
        kind=row.kind,
        low=row.low_s / row.step_s,
        high=row.high_s / row.step_s,
        naive=row.naive_error_pct,
        peers=row.peers_error_pct,
    )


def _of_result(path: Path, calibrated: Efficiencies | None) -> Scored | None:
    """Score a run by the scenario that it was of."""
    measured = read_measurement(path)
    if measured.status != "ok" or not measured.scenario:
        return None
    try:
        one = estimate(scenario_from_json(measured.scenario), calibrated)
    except InputProblems:
        return None
    step_s = step_time_s(measured.steps_s)
    peaks = [peak for peak in measured.samples.get("peak_bytes_by_rank", []) if peak]
    peak_bytes = max(peaks, default=measured.memory.peak_bytes)
    return Scored(
        hardware=str(measured.device.get("name", "")),
        model=str(measured.scenario["model"].get("name", "")),
        time=100 * (one.step_time_s / step_s - 1) if step_s else None,
        memory=100 * (one.memory.peak_bytes / peak_bytes - 1) if peak_bytes else None,
        kind=one.kind,
        low=one.interval_s[0] / one.step_time_s,
        high=one.interval_s[1] / one.step_time_s,
    )


def _of_table(path: Path) -> list[Scored]:
    """Score the rows of one of the project's benchmarks, whole steps' time where they have one."""
    measured = read_measurement(path)
    predicted = predicted_table(measured, "h200-sxm")
    place = TableDevice(chip="h200-sxm", ranks=max(1, measured.world_size))

    def error(row: Any, columns: dict[str, float], name: str) -> float | None:
        return 100 * (columns[name] / row[name] - 1) if name in columns else None

    def interval(row: Any) -> dict[str, Any]:
        scenario_of = SCENARIOS.get(measured.origin.format)
        scenario = scenario_of(row, place) if scenario_of else None
        if scenario is None or row.get("graph") or row.get("mode", "step") != "step":
            return {}
        one = estimate(scenario)
        low, high = (end / one.step_time_s for end in one.interval_s)
        return {"kind": one.kind, "low": low, "high": high}

    return [
        Scored(
            **interval(row),
            hardware=str(measured.device.get("name", "")),
            model=str(row.get("model", "")),
            time=error(row, columns, "step_s"),
            memory=error(row, columns, "peak_bytes"),
            forward=error(row, columns, "forward_s"),
            backward=error(row, columns, "backward_s"),
        )
        for row, columns in zip(measured.rows, predicted.rows, strict=True)
        if columns
    ]


def figures(scored: Sequence[Scored], skipped: int) -> dict[str, Any]:
    """Return the figures of a set: errors and the share that the interval covers in percent, None where nothing is."""
    found: dict[str, Any] = {"n": len(scored), "skipped": skipped}
    rows = len(scored) + skipped
    found["predicted_share"] = round(100 * len(scored) / rows, 1) if rows else None
    columns = {
        name: [getattr(one, name) for one in scored] for name in ("time", "memory", "forward", "backward", "naive")
    }
    for peer in sorted({peer for one in scored for peer in one.peers or {}}):
        columns[f"{peer} (published)"] = [(one.peers or {}).get(peer) for one in scored]
    for name, values in columns.items():
        summary = errors(values)
        if summary.n:
            found |= {
                f"{name}_n": summary.n,
                f"{name}_mape": round(summary.mape or 0.0, 2),
                f"{name}_median": round(summary.median_ape or 0.0, 2),
                f"{name}_p90": round(summary.p90_ape or 0.0, 2),
                f"{name}_bias": round(summary.bias or 0.0, 2),
            }
    covered = [one.covered for one in scored if one.covered is not None]
    if covered:
        found["covered"] = round(100 * sum(covered) / len(covered), 1)
    return found


def residuals(by_set: dict[str, list[Scored]]) -> str:
    """Write what catalog/residuals.toml holds of these sets."""
    groups = grouped_sets(by_set)
    lines = [
        "# How far predictions were off by kind of plan: estimate/residual.py says what the numbers are.",
        "# Written by make accuracy ARGS=--residuals from the sets in each source, none weighing more than 30 rows.",
    ]
    for kind, one in fitted(groups).items():
        lines += ["", f'["{kind}"]', f"low = {one.low:.2f}", f"high = {one.high:.2f}",
                  f"memory_low = {one.memory_low:.3f}", f"memory_high = {one.memory_high:.3f}",
                  f'source = "{one.source}"']  # fmt: skip
    return "\n".join(lines) + "\n"


def grouped_sets(by_set: dict[str, list[Scored]]) -> dict[str, list[Scored]]:
    """Put sets of one origin together: those whose names begin alike, up to a comma."""
    groups: dict[str, list[Scored]] = {}
    for name, scored in by_set.items():
        groups.setdefault(name.partition(",")[0], []).extend(scored)
    return groups


def fitted(groups: dict[str, list[Scored]]) -> dict[str, Residual]:
    """Fit factors of the intervals' ends, and tenths of the memory's errors, by kind.

    No group weighs more than ``MOST_ROWS`` rows. Where a kind has too few steps, those with more words stand for it. A
    kind of fewer than ``FEWEST`` steps even so has none of its own; one of few is drawn towards what it is
    with its last word left out.
    """
    found: dict[str, Residual] = {}
    kinds = {one.kind for scored in groups.values() for one in scored if one.kind}
    shorter = {", ".join(kind.split(", ")[:count]) for kind in kinds for count in range(1, 5)}
    for kind in ("any", *sorted(shorter, key=lambda kind: kind.count(","))):
        exact = sum(one.kind == kind and one.covered is not None for scored in groups.values() for one in scored)
        some = {
            name: [one for one in scored if one.kind == kind or (exact < FEWEST and is_of(one, kind))]
            for name, scored in groups.items()
        }
        timed = {
            name: ones for name, scored in some.items() if (ones := [one for one in scored if one.covered is not None])
        }
        held = {
            name: ones for name, scored in some.items() if (ones := [one for one in scored if one.memory is not None])
        }
        count = sum(map(len, timed.values()))
        if count < FEWEST:
            continue
        above = found.get(", ".join(kind.split(", ")[:-1]), found.get("any", PLAIN))
        low, high = factors(timed)
        peaks = [(1 / (1 + one.memory / 100), weight(ones)) for ones in held.values() for one in ones]
        weights = sum(weight(ones) * len(ones) for ones in timed.values())
        share, memory_share = weights / (weights + FEWEST), len(peaks) / (len(peaks) + FEWEST)

        def drawn(own: float, other: float, own_share: float) -> float:
            return own**own_share * other ** (1 - own_share)

        found[kind] = Residual(
            low=max(drawn(low, above.low, share), LEAST_FACTOR),
            high=max(drawn(high, above.high, share), LEAST_FACTOR),
            memory_low=drawn(quantile(peaks, 1 - TENTH), above.memory_low, memory_share) if peaks else above.memory_low,
            memory_high=drawn(quantile(peaks, TENTH), above.memory_high, memory_share) if peaks else above.memory_high,
            source=f"{count} times of {', '.join(sorted(timed))}",
        )
    return found


PLAIN = Residual(low=1.0, high=1.0, memory_low=0.95, memory_high=1.1, source="")


def is_of(one: Scored, kind: str) -> bool:
    """Whether a step is of a kind, or of one with more words."""
    return bool(one.kind) and (kind == "any" or one.kind == kind or one.kind.startswith(f"{kind}, "))


MOST_ROWS = 30


def weight(found: Sequence[Scored]) -> float:
    """Weight of a row of a group."""
    return min(1.0, MOST_ROWS / len(found))


def factors(timed: dict[str, list[Scored]]) -> tuple[float, float]:
    """By what the logarithms of the ends are to be multiplied so that each leaves a tenth outside."""
    lows, highs = [], []
    for found in timed.values():
        for one in found:
            ratio, (low, high) = math.log(one.ratio or 1.0), plain_ends(one)
            lows.append((max(ratio / low, 0.0), weight(found)))
            highs.append((max(ratio / high, 0.0), weight(found)))
    return quantile(lows, TENTH), quantile(highs, TENTH)


def plain_ends(one: Scored) -> tuple[float, float]:
    """Logarithms of the ends as efficiencies alone have them."""
    own = known(one.kind)
    low, high = math.log(one.low or 1.0) / own.low, math.log(one.high or 1.0) / own.high
    return min(low, -LEAST_WIDTH), max(high, LEAST_WIDTH)


LEAST_WIDTH = 1e-3
LEAST_FACTOR = 0.5
"""No interval is narrower than this share of what its efficiencies admit."""


def held_out(by_set: dict[str, list[Scored]]) -> dict[str, float]:
    """Percent of each set's times that intervals hold whose factors are of all other groups."""
    groups, found = grouped_sets(by_set), {}
    for name, scored in by_set.items():
        own = name.partition(",")[0]
        others = {"any": PLAIN, **fitted({group: ones for group, ones in groups.items() if group != own})}
        timed = [one for one in scored if one.covered is not None]
        if timed:
            inside = 0
            for one in timed:
                residual, (low, high) = known(one.kind, others), plain_ends(one)
                inside += low * residual.low <= math.log(one.ratio or 1.0) <= high * residual.high
            found[name] = round(100 * inside / len(timed), 1)
    return found


def quantile(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """Return the value that ``share`` of the weight lies at or below."""
    ordered = sorted(weighted)
    whole, so_far = sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        so_far += weight
        if so_far >= share * whole:
            return value
    return ordered[-1][0]


def grouped(scored: Sequence[Scored], by: str | None) -> dict[str, list[Scored]]:
    """Return the groups of a set that have enough rows."""
    groups: dict[str, list[Scored]] = {}
    for one in scored if by else []:
        groups.setdefault(getattr(one, str(by)), []).append(one)
    return {name: members for name, members in sorted(groups.items()) if len(members) >= FEWEST}


def worsened(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say which figures are more than 5 % worse than before: errors larger, coverage farther from 80 %."""
    for name in now.keys() & before.keys():
        old, new = before[name], now[name]
        for figure in JUDGED:
            if old.get(figure) is None:
                continue
            was, got = old[figure], new.get(figure)
            if figure == "predicted_share":
                bad = got is None or got < was
            else:
                bad = got is None or got > was * (1 + WORSE_FRAC) + ROUNDING_POINTS
            if bad:
                yield f"worse: {name}: {figure} {was} -> {got}"
        if old.get("covered") is not None:
            farther = abs(new.get("covered", 0.0) - 80) - abs(old["covered"] - 80)
            if farther > 80 * WORSE_FRAC:
                yield f"worse: {name}: covered {old['covered']} -> {new.get('covered')}"


COLUMNS = ("time_mape", "time_median", "time_p90", "time_bias", "memory_mape", "memory_median", "memory_p90", "covered",
           "naive_mape")  # fmt: skip


def print_line(name: str, one: dict[str, Any], *, first: bool = False) -> None:
    """Print one line of the table, and what others predict of the same rows."""
    if first:
        print(f"{'set':36}{'n':>5}{'left':>5}  time MAPE median  p90   bias | memory  median  p90 | covered | naive")
    cells = [one.get(column) for column in COLUMNS]
    text = ["-" if cell is None else f"{cell:.1f}" for cell in cells]
    print(f"{name[:35]:36}{one['n']:5}{one['skipped']:5}  {text[0]:>9}{text[1]:>7}{text[2]:>6}{text[3]:>7} |"
          f"{text[4]:>7}{text[5]:>8}{text[6]:>6} |{text[7]:>8} |{text[8]:>6}")  # fmt: skip
    for part in ("forward", "backward"):
        if f"{part}_median" in one:
            print(f"    {part}: n {one[part + '_n']}, median {one[part + '_median']}, p90 {one[part + '_p90']}")
    for figure, value in one.items():
        if figure.endswith("(published)_median"):
            print(f"    {figure.removesuffix('_median')}: median {value}, MAPE {one[figure[:-6] + 'mape']}")


def write_docs(found: dict[str, dict[str, Any]]) -> None:
    """Put the table between the marks of docs/accuracy.md."""
    lines = [
        "| set | rows | left out | time, MAPE | median | nine of ten | bias | memory, MAPE | median | interval holds |"
        " of a set not known | naive |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    shown = (
        "time_mape",
        "time_median",
        "time_p90",
        "time_bias",
        "memory_mape",
        "memory_median",
        "covered",
        "held_out",
        "naive_mape",
    )
    for name, one in sorted(found.items()):
        cells = ["" if one.get(figure) is None else f"{one[figure]:.1f} %" for figure in shown]
        lines.append(f"| {name} | {one['n']} | {one['skipped']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| set | phase, or whose prediction of the same times | rows | MAPE | median |",
        "|---|---|--:|--:|--:|",
    ]
    for name, one in sorted(found.items()):
        for figure in one:
            other = figure.removesuffix("_median")
            if figure.endswith("_median") and other not in ("time", "memory", "naive"):
                lines.append(
                    f"| {name} | {other} | {one[other + '_n']} | {one[other + '_mape']:.1f} % | {one[figure]:.1f} % |"
                )
    text = DOCS.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in REGION)
    DOCS.write_text(text[: begin + len(REGION[0])] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
