"""Logs of tensors: a program that prints what it made (``q [h, N]: torch.Size([8, 60]), elements: 480``), counts
FLOPs, and reads the allocator's peak after every step.
"""

from __future__ import annotations

import math
import re
from typing import Any

from app.importers.text.values.units import unit
from estimator.scenario.aten_cost import element_bytes
from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin, Warning

KIND = "tensors"
_DECIMAL = r"(\d{1,17}(?:\.\d{0,17})?)"
_TENSOR = re.compile(
    r"^(\w{1,40})\s*\[([^\]]{1,80})\]:\s*torch\.Size\(\[([\d, ]{1,80})\]\),\s*elements:\s*(\d{1,18})"
    r"(?:,\s*size:?\s*" + _DECIMAL + r"\s*([KMGT]i?B))?"
)
_PEAK = re.compile(r"^Peak memory(?: allocation| allocated)?:\s*" + _DECIMAL + r"\s*([KMGT]i?B)\s*$", re.IGNORECASE)
_FLOPS = re.compile(r"^flops:\s*" + _DECIMAL + r"\s*([KMGTP]?)FLOPs?\s*$", re.IGNORECASE)
_NAMED = re.compile(r"^[A-Za-z][\w ]{0,60}:\s*([A-Za-z])\s*=\s*(\d{1,12})\s*$")
_RANK = re.compile(r"\bmy_rank\s+(\d{1,6})\s*/\s*(\d{1,6})\b")
_DTYPE = re.compile(r"^type:\s*torch\.(\w{1,20})\s*$")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_HEADING = re.compile(r"^[A-Za-z][^:=\[]{2,80}$")
_NOISE = re.compile(r"^NCCL version\b|^(?:INFO|WARNING|DEBUG)\b")
_LEAST = 3
_SAME_FRAC = 0.03


def read(text: str, filename: str) -> Measurement | None:
    """Read every tensor, count and peak in order, None where there are fewer than three tensors."""
    rows: list[dict[str, Any]] = []
    names: dict[str, int] = {}
    step, number, dtype, ranks, rank = "", 0, "", 1, 0
    warnings: list[Warning] = []
    for at, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if len(line) > 400 or not line:
            continue
        if found := _TENSOR.match(line):
            rows.append({"step_number": number, "step": step, "kind": "tensor", **_tensor(found, names, at, warnings)})
        elif found := _PEAK.match(line):
            size = unit(found[2])
            peak = float(found[1]) * (size.scale if size else 1.0)
            rows.append({"step_number": number, "step": step, "kind": "peak memory", "peak_memory_bytes": peak})
        elif found := _FLOPS.match(line):
            flops = float(f"{float(found[1]) * _SCALES[found[2].upper()]:.6g}")
            rows.append({"step_number": number, "step": step, "kind": "flops", "flops": flops})
        elif found := _NAMED.match(line):
            names[found[1]] = int(found[2])
        elif found := _RANK.search(line):
            rank, ranks = int(found[1]), max(1, int(found[2]))
        elif found := _DTYPE.match(line):
            dtype = found[1]
        elif _HEADING.match(line) and not _NOISE.match(line):
            step, number = line, number + 1
    if sum(row["kind"] == "tensor" for row in rows) < _LEAST:
        return None
    _check_sizes(rows, dtype, warnings)
    peaks = [row["peak_memory_bytes"] for row in rows if "peak_memory_bytes" in row]
    if ranks > 1 and any("flops" in row for row in rows):
        message = _whose_flops(rows, names, ranks)
        warnings.append(Warning(code="flops-of-all-ranks", message=message))
    return Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format=f"text/{KIND}"),
        world_size=ranks,
        rank=min(rank, ranks - 1),
        memory=MeasuredMemory(peak_bytes=max(peaks, default=None)),
        rows=tuple(rows),
        environment={**({"dtype": dtype} if dtype else {}), **names},
        warnings=tuple(warnings),
    )


def _tensor(found: re.Match[str], names: dict[str, int], line: int, warnings: list[Warning]) -> dict[str, Any]:
    shape = [int(one) for one in found[3].replace(" ", "").split(",") if one][:16]
    row: dict[str, Any] = {"tensor": found[1], "dimensions": found[2], "shape": "×".join(str(one) for one in shape)}
    row["elements"] = int(found[4])
    size = unit(found[6]) if found[6] else None
    if size:
        row["size_bytes"] = float(found[5]) * size.scale
    if math.prod(shape) != row["elements"]:
        message = f"{found[1]} has a shape of {math.prod(shape):,} elements, and says {row['elements']:,}"
        warnings.append(Warning(code="elements-differ", message=message, where=f"line {line}"))
    said = [_value(one.strip(), names) for one in found[2].split(",")]
    if None not in said and said != shape:
        message = (
            f"{found[1]} is labelled [{found[2]}], which is {said}, but its shape is {shape}: the labelled one was "
            "probably not assigned, so sizes are right and the order of values is not"
        )
        warnings.append(Warning(code="label-differs", message=message, where=f"line {line}"))
    return row


def _value(term: str, names: dict[str, int]) -> int | None:
    """What ``h/P`` is where h and P are known."""
    above, _, below = term.partition("/")
    if above not in names or (below and names.get(below, 0) <= 0):
        return None
    return names[above] // names[below] if below else names[above]


def _check_sizes(rows: list[dict[str, Any]], dtype: str, warnings: list[Warning]) -> None:
    width = element_bytes(dtype) if dtype else None
    sized = [row for row in rows if row.get("size_bytes") and row["elements"]]
    if not width or not sized:
        return
    off = [row["size_bytes"] / (row["elements"] * width) for row in sized]
    if all(abs(one - 1) < _SAME_FRAC for one in off):
        message = f"MB is 10⁶ and GB 10⁹ bytes here: every size is its count of elements of {width} bytes"
        warnings.append(Warning(code="mb-is-decimal", message=message))
    coarse = [row for row in sized if abs(row["size_bytes"] / (row["elements"] * width) - 1) > 5e-4]
    if coarse:
        names = ", ".join(dict.fromkeys(row["tensor"] for row in coarse))
        message = f"{names}: printed in a unit that leaves two digits or fewer; the count of elements is exact"
        warnings.append(Warning(code="coarse-size", message=message))


def _whose_flops(rows: list[dict[str, Any]], names: dict[str, int], ranks: int) -> str:
    length, width = names.get("N", 0), names.get("d", 0)
    whole = {round(factor * length * width * other / 1e10) for factor in (2, 6, 8) for other in (width, length)}
    proven = any(round(row["flops"] / 1e10) in whole for row in rows if "flops" in row)
    if proven:
        return f"FLOPs are counts of all {ranks} ranks together: so they follow from the length and the width"
    return f"The FLOPs do not say whether they are of one rank or of all {ranks}"
