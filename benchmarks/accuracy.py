"""How right predictions are: every table of measured steps at hand, predicted and scored; fails where one gets worse.

``make accuracy [TABLES=PATH...]``. A set is a CSV of measured runs, a folder of results of the project's own steps, or
one of its tables of rows. Figures that a set had before stand in estimator/catalog/accuracy.json, by its name, for the
page to show; ``--write`` puts the new ones there and their table into docs/accuracy.md. Only sets at hand are compared,
so tables that are not in the repository keep their figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import ablations
from benchmarks.causes import causes
from benchmarks.measured_sets import AT_ITS_PACE, BUNDLED, ROOT, Scored, cases, read, sets
from benchmarks.residuals import Held, by_chance, held_out
from benchmarks.residuals import written as residuals
from estimator.validation.score import errors

FIGURES = ROOT / "estimator" / "catalog" / "accuracy.json"
DOCS = ROOT / "docs" / "accuracy.md"
REGIONS = {
    name: (f"<!-- make {name}: begin -->\n", f"<!-- make {name}: end -->")
    for name in ("accuracy", "causes", "ablations", "constants")
}
RESIDUALS = ROOT / "estimator" / "catalog" / "residuals.toml"
README = ROOT / "README.md"
IN_README = {
    "nvidia_dgxc": "NVIDIA's DGX Cloud recipes",
    "megatron_bridge_perf": "NVIDIA's Megatron Bridge, experts among them",
    "megatron_papers": "tables of the Megatron papers",
    "llm_foundry_mpt": "MosaicML's MPT runs",
    "vtrain_a100": "vTrain's A100 cluster",
    "neusight_steps": "NeuSight's single steps",
    "h200 steps, first day": "one H200, our own steps, first day",
    "h200 steps, second day": "the same steps on a second day",
    "h200 of another host, one GPU, by its probes": "another H200 host, calibrated by its probes",
    "h200 of another host, two GPUs, by its probes": "two GPUs of it, under every plan",
    "h200 of a third host, four GPUs": "four GPUs of a third host, as shipped",
    f"h200 of a third host, four GPUs, by its probes {AT_ITS_PACE}": "the same, probed, at the pace beside each step",
    "memory_and_single_gpu": "single steps and small runs that others tell of",
}
"""Sets of README.md, as it names them."""
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


def main() -> int:
    """Print the table of all sets; 1 where a figure is worse than before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path, help="CSV files of measured runs, or folders of them")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write their table into the docs")
    parser.add_argument("--residuals", action="store_true", help="fit the intervals' factors on all sets at hand")
    parser.add_argument("--only", default="", help="sets whose name has this word")
    parser.add_argument("--by", choices=("hardware", "model"), help="a line for each, where it has ten rows")
    parser.add_argument(
        "--ablations", action="store_true", help="each term switched off; each fitted constant held out"
    )
    parser.add_argument(
        "--causes", action="store_true", help="write into the docs whose the errors of our own steps are"
    )
    given = parser.parse_args()
    if given.ablations:
        chosen = {
            name: cases(paths, at_its_pace=name.endswith(AT_ITS_PACE))
            for name, paths in sets(given.tables)
            if given.only in name
        }
        timed = {name: found for name, found in chosen.items() if found}
        write_region("ablations", ablations.ablated(timed))
        write_region("constants", ablations.held_out_constants(timed))
        return 0
    found: dict[str, dict[str, Any]] = {}
    by_set: dict[str, list[Scored]] = {}
    for name, paths in sets(given.tables):
        if given.only in name:
            scored, skipped = read(paths, at_its_pace=name.endswith(AT_ITS_PACE))
            if not scored and not any(path.suffix == ".csv" for path in paths):
                continue
            found[name], by_set[name] = figures(scored, skipped), scored
            print_line(name, found[name], first=len(found) == 1)
            for group, members in grouped(scored, given.by).items():
                print_line(f"  {group}", figures(members, 0))
    if given.causes:
        print(*(lines := causes(by_set)), sep="\n")
        if not given.only:
            write_region("causes", lines)
        return 0
    inside = held_out(by_set)
    for name, holds in inside.items():
        for figure, of in HELD_OUT.items():
            ones = [getattr(one, of) for one in holds]
            if (share := percent(ones)) is not None:
                found[name] |= {figure: share, f"{figure}_n": sum(one is not None for one in ones)}
                print(f"held out: {name}: {of} {share} % {within(found[name], figure)}")
        found[name]["by"] = {what: groups(by_set[name], holds, what) for what in GROUPED}
        found[name]["points"] = points(by_set[name], holds) if name in BUNDLED else []
    every, holds = [*chain(*by_set.values())], [*chain(*inside.values())]
    for family, group in groups(every, holds, "chip").items():
        if group["n"] >= FEWEST:
            print(f"held out: chip {family}: {group.get('held_out')} % of {group.get('held_out_n')}")
    if given.residuals:
        RESIDUALS.write_text(residuals(by_set), encoding="utf-8")
        return 0
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    worse = list(worsened(before, found))
    if given.write:
        FIGURES.write_text(written(dict(sorted({**before, **found}.items()))), encoding="utf-8")
        write_docs({**before, **found})
        return 0
    print(*worse, sep="\n")
    return 1 if worse else 0


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
    if (held := percent([one.memory_covered for one in scored])) is not None:
        found["memory_covered"] = held
    return found


FEWEST = 10
"""Steps that a group needs for a line of its own."""
HELD_OUT = {"held_out": "time", "memory_held_out": "memory"}
"""Figures of intervals whose widths are of all other sources, and of what each is."""
ASKED = (70.0, 90.0)
"""Percent of the steps of a set that its 80 % intervals are to hold."""


def within(figures: dict[str, Any], figure: str) -> str:
    """Say whether a share lies where it is asked to, or may by chance in a set of so many steps."""
    share, of = figures[figure], figures[f"{figure}_n"]
    if ASKED[0] <= share <= ASKED[1]:
        return "yes"
    return "by chance" if by_chance(round(share * of / 100), of) else "no"


GROUPED = {"chip": "hardware", "model": "model", "kind": "kind", "largest": "largest"}
"""By what a set is taken apart: the column of a page, and the attribute of a step."""


def percent(holds: Sequence[bool | None]) -> float | None:
    """Percent of those that are known."""
    known = [one for one in holds if one is not None]
    return round(100 * sum(known) / len(known), 1) if known else None


def groups(scored: Sequence[Scored], holds: Sequence[Held], what: str) -> dict[str, dict[str, Any]]:
    """Return errors and coverage of each group of steps whose time was measured, those with most of them first."""
    found: dict[str, list[tuple[Scored, bool | None]]] = {}
    for one, inside in zip(scored, holds, strict=True):
        if one.time is not None:
            found.setdefault(str(getattr(one, GROUPED[what])) or "not known", []).append((one, inside.time))
    lines = {}
    for name, members in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        summary = errors([one.time for one, _ in members])
        shares = {"covered": [one.covered for one, _ in members], "held_out": [inside for _, inside in members]}
        lines[name] = {
            "n": summary.n,
            "time_mape": round(summary.mape or 0.0, 1),
            "time_median": round(summary.median_ape or 0.0, 1),
            "time_p90": round(summary.p90_ape or 0.0, 1),
            "time_bias": round(summary.bias or 0.0, 1),
            **{figure: share for figure, ones in shares.items() if (share := percent(ones)) is not None},
        }
        if "held_out" in lines[name]:
            lines[name]["held_out_n"] = sum(inside is not None for _, inside in members)
    return lines


def points(scored: Sequence[Scored], holds: Sequence[Held]) -> list[dict[str, Any]]:
    """Return each step's time as measured and as predicted, with its interval, to four digits."""

    def digits(seconds: float) -> float:
        return float(f"{seconds:.4g}")

    return [
        {
            "measured_s": digits(one.measured_s),
            "predicted_s": digits(predicted_s := one.measured_s * (1 + one.time / 100)),
            "low_s": digits(predicted_s * one.low),
            "high_s": digits(predicted_s * one.high),
            "held_out": bool(inside.time),
            **{what: str(getattr(one, attribute)) for what, attribute in GROUPED.items()},
        }
        for one, inside in zip(scored, holds, strict=True)
        if one.time is not None and one.measured_s and one.low is not None and one.high is not None
    ]


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


def written(found: dict[str, dict[str, Any]]) -> str:
    """Write figures as JSON, a line for each figure, group and point."""
    texts = []
    for name, one in found.items():
        lines = [
            f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in one.items() if key not in ("by", "points")
        ]
        by = [
            f"   {json.dumps(what)}: {{\n"
            + ",\n".join(f"    {json.dumps(group)}: {json.dumps(line)}" for group, line in named.items())
            + "\n   }"
            for what, named in one.get("by", {}).items()
        ]
        lines.append('  "by": {\n' + ",\n".join(by) + "\n  }")
        lines.append(
            '  "points": [\n' + ",\n".join(f"   {json.dumps(point)}" for point in one.get("points", [])) + "\n  ]"
        )
        texts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(texts) + "\n}\n"


def write_docs(found: dict[str, dict[str, Any]]) -> None:
    """Put the table between the marks of docs/accuracy.md."""
    lines = [
        "| set | rows | left out | time, MAPE | median | nine of ten | bias | memory, MAPE | median |"
        " its interval holds | of a source not known | interval of time holds | of a source not known | 70 to 90 % |"
        " naive |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|",
    ]
    shown = (
        "time_mape",
        "time_median",
        "time_p90",
        "time_bias",
        "memory_mape",
        "memory_median",
        "memory_covered",
        "memory_held_out",
        "covered",
        "held_out",
        "",
        "naive_mape",
    )
    for name, one in sorted(found.items()):
        cells = ["" if one.get(figure) is None else f"{one[figure]:.1f} %" for figure in shown]
        cells[shown.index("")] = within(one, "held_out") if "held_out" in one else ""
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
    lines += ["", "| chip, where 10 steps or more | steps | interval of a source not known holds | 70 to 90 % |",
              "|---|--:|--:|---|"]  # fmt: skip
    inside: dict[str, list[float]] = {}
    for one in found.values():
        for family, group in one.get("by", {}).get("chip", {}).items():
            if "held_out" in group:
                n, held = inside.setdefault(family, [0.0, 0.0])
                inside[family] = [n + group["held_out_n"], held + group["held_out_n"] * group["held_out"] / 100]
    for family, (n, held) in sorted(inside.items()):
        if n >= FEWEST:
            share = {"held_out": 100 * held / n, "held_out_n": int(n)}
            lines.append(f"| {family} | {n:.0f} | {share['held_out']:.1f} % | {within(share, 'held_out')} |")
    write_region("accuracy", lines)
    write_region("accuracy", readme_table(found), README)


def readme_table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Lines of the short table: the sets that README.md names, and of each what it says of time."""
    lines = ["| steps measured by others and by us | steps | median error | mean | naive |", "|---|--:|--:|--:|--:|"]
    for name, words in IN_README.items():
        one = found[name]
        naive = f"{one['naive_mape']:.0f} %" if "naive_mape" in one else ""
        lines.append(f"| {words} | {one['time_n']} | {one['time_median']:.1f} % | {one['time_mape']:.1f} % | {naive} |")
    return lines


def write_region(name: str, lines: Sequence[str], path: Path = DOCS) -> None:
    """Put lines between two marks of a document."""
    text = path.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in REGIONS[name])
    path.write_text(text[: begin + len(REGIONS[name][0])] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
