"""Devices: which chips a text's tables may have been measured on, by what the text names and what the tables need."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any, TypeGuard

from app.importers.text.values.chip_names import said_to_run_on
from estimator.scenario import catalog
from estimator.scenario.catalog import CatalogEntry
from estimator.scenario.hardware import PEAK_FIELD, Chip, peak_flops_per_s
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.validation.spellings import chips_of_row, forms_named, gpu_of_row

_KERNELS = (
    (
        re.compile(r"\b(?:sm_?90|cutlass3x_sm90|hopper_|nvjet_h)", re.IGNORECASE),
        ("h100", "h200", "h800", "gh200", "h20"),
    ),
    (re.compile(r"\b(?:sm_?100|cutlass3x_sm100|nvjet_b)", re.IGNORECASE), ("b200", "gb200", "b300", "gb300")),
    (re.compile(r"\b(?:ampere_[a-z0-9]|cutlass_8\d_|sm_?8[06]\b)", re.IGNORECASE), ("a10", "a30", "a40", "rtx-", "l4")),
    (re.compile(r"\b(?:volta_[a-z0-9]|cutlass_70_|sm_?70\b)", re.IGNORECASE), ("v100",)),
    (re.compile(r"\bCijk_"), ("mi",)),
)
"""Kernels that vendors build for an architecture; how the keys of chips that run them begin. Ada runs Ampere's."""
_ENVIRONMENT = re.compile(
    r"\W{0,8}(?:using |cuda |gpu )?(?:gpus?|devices?|cards?|hardware|accelerator|machine|name)\b[^:=|]{0,30}[:=|]"
    r"|\W{0,8}\d*\W{0,8}(?:nvidia|amd|tesla|geforce)\b",
    re.IGNORECASE,
)
"""A line that begins by saying which device it is."""
_PASS_FLOPS = {"forward_s": 2.0, "backward_s": 4.0, "step_s": 6.0}
"""FLOPs for each parameter and token that a pass takes at least; a step has forward and backward."""
_ADAM_FP32_BYTES = 16.0
"""Of each parameter, with its gradient and two moments."""
_LONGEST_LINE, _MOST_LINES, _MOST_NAMED = 160, 20_000, 4
_USUAL_BATCH = 8
"""Of attention alone where a table states none, as CS336's assignment has it."""
_EXPORT = ("h20", "h800", "a800")
"""First words of the keys of chips that are others' versions for export: where nothing names them they come last."""
_LINK_SLACK = 1.05
"""By how much a printed bandwidth may be above the link's."""
_SCORES_AT_ONCE = 3.2
"""Matrices of scores that an attention written out holds at once, and a little room: with more memory none runs out."""


def of_name(name: str, says: str) -> list[dict[str, str]]:
    """Propose the chips that a name may mean, the likeliest first; ``says``: who says it.

    >>> of_name("H100", "the log says")[0]
    {'chip': 'h100-sxm', 'why': 'the log says H100, and SXM is its usual form'}
    """
    keys = forms_named(name)
    why = f"{says} {name[:40]}"
    families = {key.removesuffix("-pcie").removesuffix("-sxm") for key in keys}
    if len(families) > 1:
        first = f"{why}, and this has the most memory"
    elif len(keys) > 1 and "sxm" in keys[0]:
        first = f"{why}, and SXM is its usual form"
    else:
        first = why
    return [{"chip": key, "why": why if at else first} for at, key in enumerate(keys)]


def candidates(
    rows: Sequence[dict[str, Any]], lines: Sequence[str], headings: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Propose chips for rows of one table, the likeliest first: ``{chip, why}``; empty where nothing tells.

    ``why`` is empty where nothing speaks for a chip but that it is fast and large enough for every row.

    Where a column names chips without what tells them apart, as their memory, it is one of those. Otherwise a
    chip that the text names on a line about hardware comes first, then those that ``headings`` or prose say that it
    ran on, of the architecture that its kernels were built for where they tell, then all of that architecture, then all
    that could, of equals the one whose peak a row came nearest to, then the largest; never one that has less memory
    than a row took, a lower peak or a slower link than it needed, or room for what ran out of it.
    """
    unclear = [(row, keys) for row in rows if len(keys := chips_of_row(row)) > 1]
    if unclear:
        rows = [row for row, keys in unclear if keys == unclear[0][1]]
    else:
        rows = [row for row in rows if not chips_of_row(row)] or rows
    telling = [row for row in rows if _tells(row)]  # of a log's thousands of steps, often none
    accelerators = [entry for entry in catalog.entries("chips") if entry.value.kind != "cpu"]
    possible = [entry for entry in accelerators if all(_fits(row, entry.value) for row in telling)]
    possible.sort(
        key=lambda entry: (
            entry.key.partition("-")[0] in _EXPORT,
            -_reached(telling, entry.value),
            -entry.value.memory_bytes,
        )
    )
    if unclear:
        left = {entry.key for entry in possible if entry.key in unclear[0][1]}
        return [one for one in of_name(gpu_of_row(rows[0]), "the table says") if one["chip"] in left]
    text = [line for line in lines[:_MOST_LINES] if 0 < len(line) <= _LONGEST_LINE]
    could = [entry for entry in accelerators if all(_fits(_as_said(row, entry.value), entry.value) for row in telling)]
    built = next(((one, families) for pattern, families in _KERNELS if (one := _hit(pattern, text))), None)
    said = [
        one
        for one in _spoken_of(lines, headings, {entry.key for entry in could})
        if built is None or one["chip"].startswith(built[1])  # a kernel runs where it was built for
    ]
    found = [
        {"chip": entry.key, "why": f"the text names it: {quoted(line)}"}
        for entry in (*possible, *(one for one in could if one not in possible))
        if (line := _named(entry, text))
    ] or said
    if found:
        return found[:_MOST_NAMED]
    if built is not None:
        of_family = [entry for entry in possible if entry.key.startswith(built[1])]
        found += [{"chip": entry.key, "why": f"kernels are named {built[0]}…"} for entry in of_family]
    if len(possible) < len(accelerators):
        proposed = {one["chip"] for one in found}
        rest = [entry for entry in possible if entry.key not in proposed]
        found += [{"chip": entry.key, "why": ""} for entry in rest]
    return found


def quoted(line: str, name: str = "") -> str:
    """A line as it is quoted: at most 80 characters, cut between words; with what it is quoted for, the ``name``.

    >>> quoted("All runs on one H100 80GB, batch size 4, context length 256, 5 warmup and 10 measured steps.")
    'All runs on one H100 80GB, batch size 4, context length 256, 5 warmup and 10 …'
    >>> quoted("a file whose first words say what it is for, how long it takes and on what: 8 A100 of 40 GB", "A100")
    '… words say what it is for, how long it takes and on what: 8 A100 of 40 GB'
    """
    line = " ".join(line.split())
    at = max(line.lower().find(name.lower()), 0)
    until = at + len(name)
    if until <= _QUOTED - 2:
        return textwrap.shorten(line, _QUOTED, placeholder=" …").rstrip(" .,:;")
    first = min(until + _BEHIND, len(line)) - _QUOTED + 4
    cut = line.find(" ", first, at)
    words = line[(cut if cut >= 0 else at - 1) + 1 :]
    return "… " + textwrap.shorten(words, _QUOTED - 2, placeholder=" …").rstrip(" .,:;")


_QUOTED = 80
_BEHIND = 20
"""Letters behind a name that are quoted with it."""


def _hit(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    return next((spoken[0] for line in lines if (spoken := pattern.search(line))), "")


def _spoken_of(lines: Sequence[str], headings: Sequence[str], could: set[str]) -> list[dict[str, str]]:
    """The chips that headings or prose say that something ran on, of those that it ``could``."""
    found: dict[str, dict[str, str]] = {}
    for name, line in said_to_run_on(lines, headings):
        said_by = f"the text names it: {quoted(line, name)}"
        for one in of_name(name, "the text names"):
            if one["chip"] in could:
                why = one["why"].replace(f"the text names {name[:40]}", said_by)
                found.setdefault(one["chip"], {**one, "why": why})
    return list(found.values())


def _as_said(row: dict[str, Any], chip: Chip) -> dict[str, Any]:
    """A row for a chip that the text names, which nothing that is only assumed of the row may rule out.

    A precision that is not stated is the fastest usual one, and what ran out of memory tells nothing without its batch.
    """
    said = row if row.get("precision") else {**row, "precision": "bf16" if chip.bf16_flops_per_s else "fp16"}
    return said if row.get("status") != "oom" or _count(row.get("batch")) else {**said, "status": "ok"}


def _named(entry: CatalogEntry, lines: Sequence[str]) -> str:
    names = [name for name in (entry.label, *entry.aliases, entry.key) if len(name) > 3]
    spoken = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names), re.IGNORECASE)
    return next((line for line in lines if _ENVIRONMENT.match(line) and spoken.search(line)), "")


def _tells(row: dict[str, Any]) -> bool:
    """Whether a row says anything by which chips differ: memory, the rate of a link, or the size of its work."""
    return (
        any("memory" in key and _positive(value) for key, value in row.items())
        or _bus_rate(row) > 0
        or _parameters(row) > 0
        or _scores_bytes(row) > 0
    )


def _fits(row: dict[str, Any], chip: Chip) -> bool:
    sizes = [value for key, value in row.items() if "memory" in key and key.endswith("_bytes") and _positive(value)]
    if any(size > chip.memory_bytes for size in sizes):
        return False
    if row.get("status") == "oom" and 0 < _SCORES_AT_ONCE * _scores_bytes(row) < chip.memory_bytes:
        return False
    trained = "ddp_mode" in row or _positive(row.get("step_s"))
    return (
        not (trained and _ADAM_FP32_BYTES * _parameters(row) / _sharing(row) > chip.memory_bytes)
        and _reached([row], chip) <= 1
    )


def _reached(rows: Sequence[dict[str, Any]], chip: Chip) -> float:
    """The largest fraction of a chip's peak, or of its link, that a row came to; 0 where no row tells."""
    most = 0.0
    for row in rows:
        most = max(most, _bus_rate(row) / catalog.link(chip.link).bytes_per_s)
        sharing = _sharing(row)
        precision = str(row.get("precision", "fp32")).removesuffix("-amp")
        peak = peak_flops_per_s(chip, precision) * sharing if precision in PEAK_FIELD else 0.0
        work = _parameters(row) * _count(row.get("seq_len")) * (_count(row.get("batch")) or 1)
        times = {key: row[key] for key in _PASS_FLOPS if _positive(row.get(key))}
        if peak > 0:
            most = max([most, *(_PASS_FLOPS[key] * work / time_s / peak for key, time_s in times.items())])
    return most


def _sharing(row: dict[str, Any]) -> int:
    """How many chips share the row's work; the batch of a data-parallel benchmark is each rank's."""
    return 1 if "ddp_mode" in row else _count(row.get("world_size")) or _count(row.get("gpus")) or 1


def _bus_rate(row: dict[str, Any]) -> float:
    rate = row.get("bus_bytes_per_s")
    return rate / _LINK_SLACK if _positive(rate) and row.get("device") != "cpu" else 0.0


def _parameters(row: dict[str, Any]) -> float:
    name = row.get("catalogue_model")
    try:
        return float(parameters(catalog.model(name))) if isinstance(name, str) else 0.0
    except InputProblems:
        return 0.0


def _scores_bytes(row: dict[str, Any]) -> float:
    """One matrix of attention scores in fp32, as a table of attention alone has it; 0 where it is no such table."""
    if "d_model" not in row or "catalogue_model" in row:
        return 0.0
    return 4.0 * (_count(row.get("batch")) or _USUAL_BATCH) * float(_count(row.get("seq_len"))) ** 2


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
