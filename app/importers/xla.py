"""Traces of JAX and XLA (``*.trace.json.gz`` of ``jax.profiler.trace``): ops of one device, and steps where they are
marked. ``app.importers.xplane`` reads the same events from the ``xplane.pb`` beside it.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from app.importers.amounts import amount
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from estimator.scenario.breakdown import Category
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning, disturbance, step_time_s
from estimator.scenario.units import MIB, seconds
from runners.trace.kernel_category import category_of

_MOST_BYTES = 1024 * MIB
_LARGEST = 1e24
_CAP = 1_000_000
"""The tool that converts a profile leaves out events beyond so many."""
_PROCESS = re.compile(rb'"name"\s*:\s*"/(?:device:|host:CPU)')
_DEVICE = re.compile(r"/device:(?!CUSTOM)")
_OPS, _STEPS = "XLA Ops", "Steps"
_COPY = re.compile(r"copy|memcpy|memset|__amd_rocclr_(?:copy|fill)", re.IGNORECASE)
_STREAM = re.compile(r"^Stream #")
_COLLECTIVE = re.compile(r"all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast")
_PRODUCT = re.compile(r"^(?:dot|convolution|cublas|custom-call.*gemm|ynn_fusion|gemm_fusion|onednn)")
_POINTWISE = re.compile(r"fusion|^(?:reduce|broadcast|add|multiply|subtract|divide|tanh|exponential|select|compare)\b")
_NUMBERED = re.compile(r"\.\d+$")
_REMEDY = "Upload the trace.json.gz that jax.profiler.trace wrote, with host and device in it."


class Args(msgspec.Struct, gc=False):
    """What an event says besides its times; XLA writes numbers as text."""

    name: str = ""
    hlo_op: str = ""
    hlo_category: str = ""
    step_num: str = ""
    model_flops: str = ""
    bytes_accessed: str = ""


class Event(msgspec.Struct, gc=False):
    """An event, microseconds."""

    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


class Document(msgspec.Struct):
    """The file."""

    traceEvents: list[Event]  # noqa: N815 - its name there


def is_trace(head: bytes) -> bool:
    """Whether the beginning of a trace names its processes as XLA does."""
    return bool(_PROCESS.search(head))


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the ops of the first device that computed, of a typical step if marked; raise ImportRefused without any."""
    try:
        events = msgspec.json.decode(source.read("xla trace", _MOST_BYTES), type=Document, strict=False).traceEvents
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ImportRefused("xla trace", "", f"this is no trace that can be read ({error})", _REMEDY) from None
    warnings = []
    if sum(one.ph == "X" for one in events) >= _CAP:
        message = "The trace has as many events as its tool writes at most; what came later is missing"
        warnings.append(Warning(code="events-capped", message=message))
    return measured(events, filename, limits, warnings)


def measured(events: Sequence[Event], filename: str, limits: Limits, warnings: Sequence[Warning] = ()) -> Imported:
    """The measurement of a recording's events; raise ImportRefused where no op of a device is among them."""
    warnings = list(warnings)
    processes = {one.pid: one.args.name for one in events if one.name == "process_name" and one.args}
    threads = {(one.pid, one.tid): one.args.name for one in events if one.name == "thread_name" and one.args}
    devices = sorted((name, pid) for pid, name in processes.items() if _DEVICE.match(name))
    ran = [one for one in events if one.ph == "X" and one.dur > 0]
    name, device, ops = _first_at_work(ran, threads, devices)
    if not ops:
        raise ImportRefused("xla trace", "traceEvents", "no op of a device is in it", _REMEDY)
    if len(devices) > 1:
        which = "the first" if name == devices[0][0] else "the first that did more than copy"
        message = f"Of {len(devices)} devices only {which} was read ({name})"
        warnings.append(Warning(code="first-device", message=message))
    steps = _steps(ran, threads, device)
    steps_s = tuple((end - begin) * 1e-6 for begin, end in steps)
    if steps:
        disturbed_s = step_time_s(steps_s) if disturbance(steps_s) else None  # that of the time that is told
        typical_s = statistics.median_low(steps_s) if disturbed_s is None else disturbed_s
        shown = steps_s.index(typical_s)
        begin, end = steps[shown]
        if len(steps) > 1:
            which = "median" if disturbed_s is None else "fastest, as something disturbed the others"
            message = f"Its kernels are those of step {shown + 1} of {len(steps)}, {seconds(typical_s)}: the {which}"
            warnings.append(Warning(code="step-shown", message=message))
        ops = [one for one in ops if begin <= one.ts < end] or ops
    else:
        message = "No step is marked (jax.profiler.StepTraceAnnotation), so the times are those of the whole recording"
        warnings.append(Warning(code="whole-recording", message=message))
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="xla", producer="XLA"),
        device={"kind": "cpu"} if not devices else {"count": len(devices)},
        world_size=max(1, len(devices)),
        steps_s=steps_s,
        kernels=tuple(_kernels(ops)[: limits.kernels]),
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings))


def _first_at_work(
    ran: Sequence[Event], threads: dict[tuple[int, int], str], devices: Sequence[tuple[str, int]]
) -> tuple[str, int | None, list[Event]]:
    """The first device that computed, and its ops; where none did the first with any, the host where there is none."""
    if not devices:
        return "", None, _ops(ran, threads, None)
    found = [(name, device, ops) for name, device in devices if (ops := _ops(ran, threads, device))]
    at_work = (one for one in found if any(not _COPY.match(op.name) for op in one[2]))
    return next(at_work, found[0] if found else (*devices[0], []))


def _ops(ran: Sequence[Event], threads: dict[tuple[int, int], str], device: int | None) -> list[Event]:
    """On a TPU the line of ops, on a GPU those of streams, on a CPU what says which op it is."""
    if device is None:
        return [one for one in ran if one.args and one.args.hlo_op]
    mine = [one for one in ran if one.pid == device]
    lines = {tid: name for (pid, tid), name in threads.items() if pid == device}
    found = [one for one in mine if lines.get(one.tid) == _OPS]
    return found or [one for one in mine if _STREAM.match(lines.get(one.tid, ""))]


def _steps(ran: Sequence[Event], threads: dict[tuple[int, int], str], device: int | None) -> list[tuple[float, float]]:
    """The device's own steps, else from one mark of the host to the next; the last mark ends with itself, if alone."""
    marked = [one for one in ran if one.pid == device and threads.get((one.pid, one.tid)) == _STEPS]
    if marked:
        return [(one.ts, one.ts + one.dur) for one in sorted(marked, key=lambda one: one.ts)]
    marks = sorted((one for one in ran if one.args and one.args.step_num), key=lambda one: one.ts)
    marks = [one for one in marks if marks and one.name == marks[0].name and one.tid == marks[0].tid]
    if len(marks) == 1:
        return [(marks[0].ts, marks[0].ts + marks[0].dur)]
    return [(one.ts, after.ts) for one, after in itertools.pairwise(marks) if after.ts > one.ts]


def _kernels(ops: Sequence[Event]) -> list[Kernel]:
    groups: dict[str, list[Event]] = defaultdict(list)
    for one in ops:
        groups[short_name(one.name)].append(one)
    kernels = []
    for name, some in groups.items():
        says = some[0].args or Args()
        kernels.append(Kernel(
            name=name,
            category=_category(name, says),
            count=len(some),
            total_s=sum(one.dur for one in some) * 1e-6,
            flops=_total(some, "model_flops"),
            bytes=_total(some, "bytes_accessed"),
        ))  # fmt: skip
    return sorted(kernels, key=lambda one: -one.total_s)


def _total(some: Sequence[Event], name: str) -> float | None:
    values = [amount(getattr(one.args, name), _LARGEST) or 0.0 for one in some if one.args]
    return sum(values) if values and all(values) else None


def _category(name: str, says: Args) -> str:
    plain = _NUMBERED.sub("", says.hlo_category or says.hlo_op or name).lower()
    if _COLLECTIVE.search(plain):
        return Category.COMMUNICATION
    found = category_of(name)
    if found != Category.OTHER and found != Category.HOST:
        return found
    if _PRODUCT.search(plain) or plain.startswith("convolution"):
        return Category.MATMUL
    return Category.ELEMENTWISE if _POINTWISE.search(plain) else Category.OTHER
