"""Logs of DeepFlow: what its model of an LSTM gives for each op, its machine, memory and times."""

from __future__ import annotations

import math
import re
from typing import Any

from estimator.scenario.measurement import Measurement, Origin, Warning
from estimator.scenario.units import GIB, MIB, counted

KIND = "deepflow"
_TRIPLE = re.compile(r"^\s*(\d{1,9}) (\d{1,9}) (\d{1,9})\s*$")
_LEVEL = re.compile(r"^(gmem|l2mem): reload_AB")
_INTENSITY = re.compile(r"^comp_int: ([\d.]{1,20})$")
_INFLECTION = re.compile(r"^inflection_point: ([\d.]{1,20})$")
_UPDATE = re.compile(r"^\((\w{1,30})\) (gradclip|applyGrad)_flop: ([\d,]{1,40}), \w{1,20}_mem: ([\d,]{1,40})$")
_UPDATE_TIME = re.compile(r"^\((\w{1,30})\) (gradclip|applyGrad)_time: (\S{1,30})$")
_GEMM = re.compile(r"^(\w{1,30}) GEMM_flop: ([\d,]{1,40}), GEMM_gmem: ([\d,]{1,40}), GEMM_l2mem: ([\d,]{1,40})$")
_GEMM_TIME = re.compile(r"^(\w{1,30}) GEMM_time: (\S{1,30})$")
_POINT = re.compile(r"^((?:\(gr\) )?\w{1,30}) point_flop: ([\d,]{1,40}), point_mem: ([\d,]{1,40})$")
_POINT_TIME = re.compile(r"^(?:(?:\(gr\) )?\w{1,30} )?point_time: (\S{1,30})$")
_EMBEDDING = re.compile(r"^((?:\(gr\) )?Embedding_mem): ([\d,]{1,40})$")
_COMPONENTS = re.compile(r"^Cf: \S{1,30}, Cb:")
_COMPONENT = re.compile(r"(\w{1,20}):;? ?([\d.e+-]{1,30})")
_SECTION = re.compile(r"^[A-Z][\w ]{3,70}$")
_SIZE = re.compile(r"^([\w #]{1,40}): ([\d.]{1,20}) (Tflops|[TGM]B(?:/s)?|Billion)$")
_OVERFLOW = re.compile(r"^Memory Overflow Rate .{1,120}: ([\d.]{1,20})$")
_RESULT = re.compile(r"^(Time|time_per_step): ([\d.]{1,30})$")
_SCALES = {"TB": 1024.0 * GIB, "GB": float(GIB), "MB": float(MIB)}
"""Its units are powers of 1024 under decimal names, but for FLOPs and counts."""
_LEAST = 3


def read(text: str, filename: str) -> Measurement | None:
    """Read every figure, a row for each op, None where fewer than three products are in it."""
    if text.count("GEMM_flop:") < _LEAST:
        return None
    reader = _Reader()
    damaged = 0
    for line in text.splitlines():
        try:
            reader.take(line.strip())
        except ValueError:
            damaged += 1
    message = "GB, MB and TB are powers of 1024 here: so bandwidth and size follow from the power shares"
    said = [Warning(code="gb-is-gib", message=message)]
    message = "These are figures of DeepFlow's model, not of a machine that ran; the study deepflow-lstm derives them"
    said.append(Warning(code="modelled", message=message))
    if damaged:
        message = f"{counted(damaged, 'line')} left out, with something else than a number where one belongs"
        said.append(Warning(code="lines-skipped", message=message))
    return Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format=f"text/{KIND}", producer="DeepFlow"),
        rows=tuple(reader.rows),
        environment={"inflection_flops_per_byte": reader.inflection} if reader.inflection else {},
        warnings=tuple(said),
    )


class _Reader:
    """Lines in order: reloads and intensities stand before the op that they are of."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.reloads: list[tuple[str, tuple[int, int, int]]] = []
        self.intensities: list[float] = []
        self.level = self.section = ""
        self.inflection = 0.0

    def take(self, line: str) -> None:
        if found := _LEVEL.match(line):
            self.level = found[1]
        elif found := _TRIPLE.match(line):
            self.reloads.append((self.level, (int(found[1]), int(found[2]), int(found[3]))))
        elif found := _INTENSITY.match(line):
            self.intensities.append(_number(found[1]))
        elif found := _INFLECTION.match(line):
            self.inflection = _number(found[1])
        elif found := _GEMM.match(line):
            self.rows.append({"group": "gemm", "op": found[1], **self._before(), "flops": _whole(found[2]),
                              "memory_bytes": _whole(found[3]), "l2_bytes": _whole(found[4])})  # fmt: skip
        elif found := _POINT.match(line):
            row = {"group": "pointwise", "op": found[1], "flops": _whole(found[2]), "memory_bytes": _whole(found[3])}
            self.rows.append(row | ({"flops_per_byte": self.intensities[-1]} if self.intensities else {}))
            self.intensities = []
        elif found := _UPDATE.match(line):
            name = f"{found[1]}.{found[2]}"
            self.rows.append(
                {"group": "optimizer", "op": name, "flops": _whole(found[3]), "memory_bytes": _whole(found[4])}
            )
            self.intensities = []
        elif found := _UPDATE_TIME.match(line) or _GEMM_TIME.match(line) or _POINT_TIME.match(line):
            if self.rows:
                self.rows[-1]["time_s"] = _number(found[found.re.groups])
        elif found := _EMBEDDING.match(line):
            self.rows.append({"group": "embedding", "op": found[1], "memory_bytes": _whole(found[2])})
        elif _COMPONENTS.match(line):
            self.rows += [
                {"group": "component", "op": name, "time_s": _number(value)} for name, value in _COMPONENT.findall(line)
            ]
        elif found := _RESULT.match(line):
            self.rows.append({"group": "result", "op": found[1], "time_s": _number(found[2])})
        elif found := _OVERFLOW.match(line):
            self.rows.append({"group": self.section, "op": "overflow_rate", "ratio": _number(found[1])})
        elif found := _SIZE.match(line):
            self.rows.append({"group": self.section, "op": found[1].strip("#"), **_sized(_number(found[2]), found[3])})
        elif _SECTION.match(line):
            self.section = line

    def _before(self) -> dict[str, Any]:
        """Reloads of the product as it is and transposed, and the intensity of both."""
        row: dict[str, Any] = {}
        for (level, triple), way in zip(self.reloads, ("", "", "transposed_", "transposed_"), strict=False):
            row |= {
                f"{way}{level}_reload_{name}": count for name, count in zip(("AB", "AC", "BC"), triple, strict=True)
            }
        for value, way in zip(self.intensities, ("", "transposed_"), strict=False):
            row[f"{way}flops_per_byte"] = value
        self.reloads, self.intensities = [], []
        return row


def _whole(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _number(text: str) -> float:
    """Raise ValueError where it is none, or has no end."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _sized(value: float, printed: str) -> dict[str, float]:
    if printed == "Tflops":
        return {"flops_per_s": value * 1e12}
    if printed == "Billion":
        return {"count": value * 1e9}
    size, _, per = printed.partition("/")
    return {"rate_bytes_per_s" if per else "size_bytes": value * _SCALES[size]}
