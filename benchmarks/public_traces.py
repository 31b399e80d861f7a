"""Traces of others, read by Headroom and by plain loops over their JSON, and beside what TraceLens published of them.

Run ``python benchmarks/public_traces.py FOLDER``: a folder that holds traces at any depth, such as the test data of
HolisticTraceAnalysis and TraceLens, or the samples of Kineto's TensorBoard plugin. It prints a row for each trace: work
items of the device in the step that Headroom shows, seconds in which it was busy, exposed communication, and the FLOPs
of products, convolutions and attention. Where reports of TraceLens lie beside a trace (``*_csvs``), all of it that was
launched is held against their busy time and exposed communication. Below the table stands how many of each column are
equal, and why the others are not, each by a sum made anew: what that does not account for is called unexplained, and
the exit status is 1. Nothing of ``app`` but the import itself is used, and how it shortens names.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import sys
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
LAUNCHES = re.compile(r".*_runtime|.*_driver|Runtime")
COMMUNICATION = re.compile(
    r"nccl|rccl|cross_device_reduce|all_reduce|reduce_scatter|all_gather|msccl|\bep::", re.IGNORECASE
)
CAUSAL_AT = {
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_flash_attention_forward": 8,
}
CLOSE_S, CLOSE_FRAC = 2e-6, 1e-3
COLUMNS = ("work", "kernel ms", "busy ms", "exposed ms", "TFLOP", "busy, TraceLens", "exposed, TraceLens")
WORKING = {"matmul", "convolution", "attention"}


def loaded(path: Path) -> tuple[list[dict[str, Any]], set[Any]]:
    """All complete events of a trace, and the ids at which an arrow from host to device begins.

    Raises ValueError where the file is something else.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        document = json.loads(file.read(), strict=False)
    found = document["traceEvents"] if isinstance(document, dict) else document
    begun = {event.get("id") for event in found if event.get("cat") == "ac2g" and event.get("ph") == "s"}
    return [event for event in found if event.get("ph") == "X" and float(event.get("dur", -1)) >= 0], begun


def union_us(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge spans that touch."""
    merged: list[list[float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > begin:
            merged.append([begin, end])
    return [(begin, end) for begin, end in merged]


def length_us(spans: list[tuple[float, float]]) -> float:
    """Time that spans cover."""
    return sum(end - begin for begin, end in union_us(spans))


class Whole:
    """A trace by plain loops: its device events, when the host launched each, and its marked steps."""

    def __init__(self, events: list[dict[str, Any]], begun: set[Any]) -> None:
        """Join device events with their launches by correlation."""
        self.begun = begun
        self.device = [event for event in events if event.get("cat") in DEVICE]
        self.calls = {
            event["args"]["correlation"]: event
            for event in events
            if LAUNCHES.fullmatch(str(event.get("cat"))) and "correlation" in event.get("args", {})
        }
        calls = {correlation: float(event["ts"]) for correlation, event in self.calls.items()}
        known = [float(one["ts"]) for one in self.device if one.get("args", {}).get("correlation") in calls]
        first = min(known, default=-math.inf)
        self.launched = []
        for one in self.device:
            at = calls.get(one.get("args", {}).get("correlation"))
            left_over = at is None and float(one["ts"]) < first
            self.launched.append(-math.inf if left_over else float(one["ts"]) if at is None else at)
        steps = [event for event in events if str(event.get("name")).startswith("ProfilerStep#")]
        steps = [event for event in steps if event.get("cat") != "gpu_user_annotation"]
        self.steps = sorted((float(one["ts"]), float(one["ts"]) + float(one["dur"]), one["name"]) for one in steps)
        self.ops: dict[Any, dict[str, Any]] = {}
        self.of_thread: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for event in sorted(events, key=lambda one: float(one["ts"])):
            if event.get("cat") in ("cpu_op", "Operator"):
                self.ops[identity(event)] = event
                self.of_thread[event.get("tid")].append(event)
        self.told = {id(op): flops for ops in self.of_thread.values() for op, flops in _without_strides(ops)}

    def of_step(self, name: str) -> list[int]:
        """Device events that the host launched in a step, all that it launched where the trace marks none."""
        begins = [begin for begin, _, _ in self.steps]
        found = []
        for index, at in enumerate(self.launched):
            if not name or not self.steps:
                if math.isfinite(at):
                    found.append(index)
                continue
            step = bisect_right(begins, at) - 1
            if step >= 0 and at <= self.steps[step][1] and self.steps[step][2] == name:
                found.append(index)
        return found

    def window(self, name: str) -> tuple[float, float]:
        """A step from where the host begins it, or the device has ended all before it, to where the next one begins."""
        ends = [float(one["ts"]) + float(one["dur"]) for one in self.device]
        reached = max((end for end, at in zip(ends, self.launched, strict=True) if at == -math.inf), default=-math.inf)
        windows = []
        for host_begin, host_end, step in self.steps:
            own = max((ends[index] for index in self.of_step(step)), default=-math.inf)
            windows.append([max(host_begin, reached), max(host_end, own), step])
            reached = max(reached, own)
        for one, following in pairwise(windows):
            if int(following[2].split("#")[1]) == int(one[2].split("#")[1]) + 1:
                one[1] = max(following[0], one[0])
        return next((begin, end) for begin, end, step in windows if step == name)

    def spans(self, indices: list[int], begin: float, end: float) -> tuple[list[Any], list[Any]]:
        """What of some device events lies in a window: communication, and everything else."""
        parts: tuple[list[Any], list[Any]] = ([], [])
        for index in indices:
            one = self.device[index]
            low, high = max(float(one["ts"]), begin), min(float(one["ts"]) + float(one["dur"]), end)
            if high > low:
                parts[0 if COMMUNICATION.search(one["name"]) else 1].append((low, high))
        return parts

    def behind(self, index: int) -> dict[str, Any] | None:
        """The op that launched a device event: by id, by its launch's id, or the innermost one around its launch."""
        one = self.device[index]
        call = self.calls.get(one.get("args", {}).get("correlation"))
        found = self.ops.get(identity(one)) or (self.ops.get(identity(call)) if call else None)
        if found or call is None:
            return found
        at, ops = float(call["ts"]), self.of_thread[call.get("tid")]
        before = bisect_right(ops, at, key=lambda op: float(op["ts"]))
        earlier = reversed(ops[max(0, before - 2000) : before])
        return next((op for op in earlier if float(op["ts"]) + float(op["dur"]) >= at), None)

    def flops(self, indices: list[int]) -> float:
        """Of the innermost ops that launched some device events, each call once."""
        called = {id(op): op for op in map(self.behind, indices) if op}
        return sum(self.of_op(op) for op in called.values())

    def of_op(self, op: dict[str, Any]) -> float:
        """FLOPs of one call."""
        return op_flops(op) or self.told.get(id(op), 0.0)

    def flops_left_out(self, indices: list[int], working: set[str]) -> tuple[float, float]:
        """FLOPs of kernels that calls of unknown FLOPs launch as well, and of calls without any kernel that works.

        ``working`` names the kernels that compute products, convolutions or attention; a call's FLOPs are shared among
        those of its own by their time.
        """
        behind = {index: self.behind(index) for index in indices}
        called: dict[int, list[int]] = defaultdict(list)
        unknown = set()
        for index, op in behind.items():
            if op and self.of_op(op):
                called[id(op)].append(index)
            else:
                unknown.add(self.device[index]["name"])
        shared = idle = 0.0
        for ours in called.values():
            flops = self.of_op(behind[ours[0]] or {})
            works = [self.device[index] for index in ours if self.device[index]["name"] in working]
            total_us = sum(float(one["dur"]) for one in works)
            if not works:
                idle += flops
            shared += sum(flops * float(one["dur"]) / total_us for one in works if one["name"] in unknown)
        return shared, idle


def identity(event: dict[str, Any]) -> Any:
    """External id in either spelling, None where there is none."""
    arguments = event.get("args", {})
    return arguments.get("External id", arguments.get("external id"))


def shapes_of(op: dict[str, Any]) -> list[Any]:
    """Shapes of an op's inputs in either spelling."""
    arguments = op.get("args", {})
    return arguments.get("Input Dims") or arguments.get("Input dims") or []


def _without_strides(ops: list[dict[str, Any]]) -> list[tuple[dict[str, Any], float]]:
    """FLOPs of the convolutions of a thread of which nothing but shapes is written, as before PyTorch 2.1.

    A result is what the next normalization takes; the size of weights, of which there is a gradient, is that of the
    op around it.
    """
    found = []
    around: dict[str, Any] = {}
    waiting: list[dict[str, Any]] = []
    for op in ops:
        name, dims = str(op["name"]).rpartition("::")[2], shapes_of(op)
        if len(dims) < 3:  # recorded without shapes
            continue
        if name == "cudnn_convolution" and not op["args"].get("Concrete Inputs"):
            waiting.append(op)
        elif name == "batch_norm" and waiting:
            out = dims[0]
            for one in waiting:
                image, weight = shapes_of(one)[:2]
                if (image[0], weight[0]) == (out[0], out[1]):
                    found.append((one, 2.0 * math.prod(out) * math.prod(weight[1:])))
            waiting = []
        elif name == "cudnn_convolution_backward":
            around = op
        elif name.startswith("cudnn_convolution_backward_") and around:
            weight = dims[2] if name.endswith("_input") else shapes_of(around)[2]
            found.append((op, 2.0 * math.prod(dims[1]) * math.prod(weight[1:])))
    return found


def op_flops(op: dict[str, Any]) -> float:
    """Of products, convolutions and attention by their definitions; 0 for all else, and without shapes."""
    arguments, name = op.get("args", {}), str(op["name"]).rpartition("::")[2]
    dims = shapes_of(op)
    said = arguments.get("Concrete Inputs", [])
    try:
        if name in ("mm", "bmm", "_scaled_mm", "addmm", "baddbmm", "addmm_"):
            left, right = dims[1:3] if name.startswith(("add", "badd")) else dims[:2]
            return 2.0 * math.prod(left) * right[-1]
        if "attention" in name and "backward" not in name and name.startswith("_"):
            q, k = dims[0], dims[1]
            sdpa = name.startswith("_scaled")
            (b, h, s, d), t = (q, k[2]) if sdpa else ((q[0], q[2], q[1], q[3]), k[1])
            causal = "True" in said[at : at + 1] if (at := CAUSAL_AT.get(name)) else False
            return 4.0 * b * h * s * t * d * (0.5 if causal else 1.0)
        if name == "convolution_backward":
            gradient, weight = dims[0], dims[2]
            passes = [word.strip() for word in said[-1].strip("[] ").split(",")][:2].count("True")  # the third: bias
            return 2.0 * gradient[0] * math.prod(gradient[2:]) * math.prod(weight) * passes
        if re.fullmatch(r"(cudnn|miopen)_convolution(_relu)?|_?convolution|mkldnn_convolution", name):
            image, weight = dims[0], dims[1]
            places = {"cudnn_convolution": (3, 2, 4), "miopen_convolution": (4, 3, 5)}.get(name, (3, 4, 5))
            stride, padding, dilation = (json.loads(said[place]) for place in places)
            out = [
                (size + 2 * pad - step_in * (kernel - 1) - 1) // step + 1
                for size, pad, step_in, kernel, step in zip(
                    image[2:], padding, dilation, weight[2:], stride, strict=True
                )
            ]
            return 2.0 * image[0] * math.prod(out) * math.prod(weight)
    except (IndexError, ValueError, TypeError):
        pass
    return 0.0


def published(path: Path) -> dict[str, float]:
    """Seconds that TraceLens's reports beside a trace give for all of it."""
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    for folder in (path.parent / f"{stem}_perf_report_csvs", path.parent / "perf_csvs"):
        file = folder / "gpu_timeline.csv"
        if file.exists():
            with file.open() as opened:
                return {row["type"]: float(row["time ms"]) / 1e3 for row in csv.DictReader(opened)}
    return {}


def near(one: float, other: float) -> str:
    """How two numbers differ, in words of one sign."""
    if abs(one - other) <= max(CLOSE_S, CLOSE_FRAC * max(abs(one), abs(other))):
        return "="
    return f"{(one / other - 1) * 100:+.1f}%" if other else "≠0"


def accounted(one: float, other: float, why: str) -> str:
    """A reason with whether it accounts for all of a difference."""
    return why if near(one, other) == "=" else f"unexplained: {near(one, other)} is left after {why}"


def compared(path: Path) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Our number and how it differs, by column, and the reasons; raises ImportRefused or ValueError for no trace."""
    from app.importers import import_file
    from app.importers.names import short_name

    (found, *_) = import_file(path, path.name).measurements
    trace = Whole(*loaded(path))
    if not trace.device:
        raise ValueError("no device")
    step = str(found.environment.get("step", ""))
    if step.startswith("ProfilerStep") and not trace.steps:
        raise ValueError("it marks no steps, and the loops tell none by what repeats")
    marked = bool(trace.steps) and step.startswith("ProfilerStep")
    indices = trace.of_step(step if marked else "")
    every = trace.of_step("")
    ours = sum(kernel.count for kernel in found.kernels)
    total = sum(kernel.total_s for kernel in found.kernels)
    own_total = sum(float(trace.device[index]["dur"]) for index in indices) * 1e-6
    cells = {
        "work": (f"{ours:,}", near(ours, len(indices))),
        "kernel ms": (f"{total * 1e3:.3f}", near(total, own_total)),
    }
    reasons = []
    messages, works = trace.spans(every, -math.inf, math.inf)
    busy_s = length_us([*messages, *works]) * 1e-6
    exposed_s = busy_s - length_us(works) * 1e-6
    if marked and found.breakdown_s:
        begin, end = trace.window(step)
        messages, works = trace.spans(indices, begin, end)
        exposed = (length_us([*messages, *works]) - length_us(works)) * 1e-6
        busy, ours_exposed_s = (
            sum(found.breakdown_s.values()) - found.breakdown_s["host"],
            found.breakdown_s["communication"],
        )
        cells["busy ms"] = (f"{busy * 1e3:.3f}", near(busy, length_us([*messages, *works]) * 1e-6))
        cells["exposed ms"] = (f"{ours_exposed_s * 1e3:.3f}", near(ours_exposed_s, exposed))
        if len(indices) == len(every):  # one step is all that was recorded: Headroom's own number is TraceLens's
            busy_s, exposed_s = busy, ours_exposed_s
    flops, own_flops = sum(kernel.flops or 0.0 for kernel in found.kernels), trace.flops(indices)
    if flops or own_flops:
        cells["TFLOP"] = (f"{flops / 1e12:.4f}", near(flops, own_flops))
    if near(flops, own_flops) != "=":
        computing = {kernel.name for kernel in found.kernels if kernel.category in WORKING}
        working = {one["name"] for one in trace.device if short_name(one["name"]) in computing}
        shared, idle = trace.flops_left_out(indices, working)
        parts = [f"{shared / 1e12:.4f} TFLOP lie in kernels that calls without known FLOPs launch too"] * (shared > 0)
        parts += [f"{idle / 1e12:.4f} TFLOP are of calls of which no kernel that works was recorded"] * (idle > 0)
        reasons.append(f"FLOPs: {accounted(flops + shared + idle, own_flops, ' and '.join(parts) or 'nothing')}")
    report = published(path)
    if report:
        cells["busy, TraceLens"] = (f"{busy_s * 1e3:.3f}", near(busy_s, report["busy_time"]))
        cells["exposed, TraceLens"] = (f"{exposed_s * 1e3:.3f}", near(exposed_s, report["exposed_comm_time"]))
        if near(busy_s, report["busy_time"]) != "=":
            bare = {index for index in every if trace.device[index]["args"].get("correlation") not in trace.begun}
            messages, works = trace.spans([index for index in every if index not in bare], -math.inf, math.inf)
            lasting = sum(float(trace.device[index]["dur"]) for index in bare)
            why = (
                f"it follows arrows from host to device: {len(bare)} fills or kernels ({lasting:.0f} µs) have no start"
            )
            why_all = accounted(length_us([*messages, *works]) * 1e-6, report["busy_time"], why)
            reasons.append(f"busy time of TraceLens: {why_all}")
    return cells, reasons


def main() -> None:
    """Print the table, how many of each column are equal, and why the others are not.

    Files that are no trace of a device are named below it with what Headroom says of them.
    """
    sys.path.insert(0, str(ROOT))
    from app.importers import ImportRefused

    folder = Path(sys.argv[1])
    print(f"| trace | {' | | '.join(COLUMNS)} | |")
    print(f"|---|{'--:|---|' * len(COLUMNS)}")
    others, reasons = [], []
    tally = {column: [0, 0] for column in COLUMNS}
    for path in sorted([*folder.rglob("*.json.gz"), *folder.rglob("*.json")]):
        name = str(path.relative_to(folder))
        try:
            cells, why = compared(path)
        except ImportRefused as refused:
            others.append(f"{name}: refused, {refused.message}")
            continue
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            others.append(f"{name}: not compared ({type(error).__name__} {str(error)[:80]})")
            continue
        row = [" | ".join(cells.get(column, ("", ""))) for column in COLUMNS]
        print(f"| {name} | {' | '.join(row)} |", flush=True)
        for column, (_, differs) in cells.items():
            tally[column] = [tally[column][0] + 1, tally[column][1] + (differs == "=")]
        reasons += [f"{name}: {one}" for one in why]
    print("\nequal, of those compared:")
    print("\n".join(f"  {column}: {equal} of {count}" for column, (count, equal) in tally.items()))
    print("\nwhy the others differ:\n  " + "\n  ".join(reasons))
    print("\nnot compared:\n  " + "\n  ".join(others))
    if any("unexplained" in one for one in reasons):
        sys.exit(1)


if __name__ == "__main__":
    main()
