"""PyTorch profiler traces (Kineto, Chrome trace format): one typical step of one rank, as a Measurement."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.kineto import header
from app.importers.kineto.collectives import Message, collectives, messages
from app.importers.kineto.device import device_work
from app.importers.kineto.host import host_work
from app.importers.kineto.intervals import union
from app.importers.kineto.launches import launches
from app.importers.kineto.notices import about_file, about_kernels, about_recording
from app.importers.kineto.op_list import op_list
from app.importers.kineto.steps import steps
from app.importers.kineto.stream import StreamReport, events
from app.importers.kineto.timeline import step_timeline
from app.importers.kineto.trace_columns import Trace, collect
from app.importers.kineto.work_spans import MESSAGE, kernels, sums
from app.importers.source import Source
from estimator.scenario import catalog
from estimator.scenario.breakdown import Category
from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin, Warning, step_time_s
from estimator.scenario.op_list import to_json
from estimator.scenario.problems import InputProblems
from estimator.scenario.units import counted

_CPU, _CUDA = 0, 1


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """One rank: what its own trace gives, and the messages of each of its steps, by the step's name."""

    imported: Imported
    messages: dict[str, list[Message]]
    step_s: dict[str, float]
    communication_s: float
    """Of the typical step, hidden or not."""


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Reduce a trace to its typical step; raise ImportRefused where it holds no operations of PyTorch."""
    return read_rank(source, filename, limits).imported


def read_rank(source: Source, filename: str, limits: Limits) -> RankTrace:
    """Reduce a trace to its typical step: seconds by phase and category, kernels, collectives, peaks of memory.

    A file that ends among its events gives kernels, but no step. Raises ImportRefused where it holds no operations of
    PyTorch.
    """
    collecting = gc.isenabled()
    gc.disable()  # no value that is built here refers back to itself; collecting would take half of the time
    try:
        return _read_rank(source, filename, limits)
    finally:
        if collecting:
            gc.enable()


def _read_rank(source: Source, filename: str, limits: Limits) -> RankTrace:
    report = StreamReport()
    trace = collect(events(source, report))
    if not len(trace.device) and not len(trace.ops):
        raise _empty(trace, report)
    warnings: list[Warning] = about_file(report, trace, source) + about_recording(report.metadata, trace)
    launched = launches(trace)
    said: list[Warning] = []
    every, step = steps(trace, launched.time, said)
    # PyTorch writes thread by thread, all steps of each, and kernels last: a file that ends early may lack part of any
    warnings += said if report.closed else [_no_step()]
    whole = report.closed and bool(every)
    work = device_work(trace, launched, step) if len(trace.device) else host_work(trace, step)
    totals = sums(work, step.begin, step.end)
    named, merged = kernels(work, trace.names, limits.kernels)
    world_size, rank, ground = header.ranks(report.metadata, trace, filename)
    found = collectives(trace, every or [step], world_size, warnings)
    warnings += about_kernels(
        named, merged, launched, trace, ground, bool(found) or totals.breakdown_s[Category.COMMUNICATION] > 0
    )
    measurement = Measurement(
        label=_label(filename),
        origin=Origin(
            kind="upload",
            format="kineto",
            producer="PyTorch profiler",
            version=str(report.metadata.get("schemaVersion", ""))[:20],
        ),
        device=header.device(report.metadata, trace),
        world_size=world_size,
        rank=rank,
        steps_s=tuple(one.seconds for one in every) if whole else (),
        phases_s=totals.phases_s if whole else {},
        breakdown_s=totals.breakdown_s if whole else {},
        kernels=named,
        collectives=found,
        memory=_memory(trace, warnings) if report.closed else MeasuredMemory(),
        timeline=step_timeline(trace, work, step) if whole else None,
        environment={
            **header.environment(report.metadata),
            **({"step": step.name} if whole else {}),
            "events": trace.events,
        },
        warnings=tuple(warnings),
    )
    ops = None
    if report.closed:
        ops = op_list(
            trace,
            launched,
            step,
            program=measurement.label,
            chip=_chip(measurement),
            ranks=(world_size, rank),
            loop_s=step_time_s(measurement.steps_s),
            versions={key: str(value) for key, value in measurement.environment.items() if key.endswith("_version")},
        )
    imported = Imported(
        measurements=(measurement,),
        warnings=tuple(warnings),
        skipped=report.skipped + trace.unusable,
        op_lists=() if ops is None else (to_json(ops),),
    )
    talking = work.category == MESSAGE
    starts, ends = union(np.maximum(work.start[talking], step.begin), np.minimum(work.end[talking], step.end))
    return RankTrace(
        imported=imported,
        messages={one.name: messages(trace, one) for one in every} if whole else {},
        step_s={one.name: one.seconds for one in every} if whole else {},
        communication_s=float(np.sum(np.maximum(ends - starts, 0.0))) * 1e-6,
    )


def _chip(measurement: Measurement) -> str:
    """Key of the chip in the catalogue, "" where it has none of that name."""
    name = str(measurement.device.get("name", ""))
    if name == catalog.THIS_CPU:
        return name
    try:
        return catalog.chip(name).name
    except InputProblems:
        return ""


def _label(filename: str) -> str:
    name = filename.rsplit("/", 1)[-1].rsplit("\\", 1)[-1]
    for ending in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return name[:200]


def _memory(trace: Trace, warnings: list[Warning]) -> MeasuredMemory:
    if _CUDA in trace.allocated_bytes:
        reserved = trace.reserved_bytes.get(_CUDA)
        return MeasuredMemory(
            peak_bytes=float(trace.allocated_bytes[_CUDA]), reserved_bytes=None if reserved is None else float(reserved)
        )
    if _CPU in trace.allocated_bytes and not len(trace.device):
        message = "On the CPU the profiler counts only memory taken while it ran; what the model held before is missing"
        warnings.append(Warning(code="cpu-memory-partial", message=message))
        return MeasuredMemory(peak_bytes=float(trace.allocated_bytes[_CPU]))
    return MeasuredMemory()


def _no_step() -> Warning:
    message = (
        "The file ends before its steps do, so it gives no step time and no breakdown, only what single operations "
        "took. Copy it again, whole, or export fewer steps"
    )
    return Warning(code="no-whole-step", message=message)


def _empty(trace: Trace, report: StreamReport) -> ImportRefused:
    if report.truncated:
        message = f"the file is cut off after {counted(trace.events, 'event')}, before any operation"
        remedy = "Copy the file again, whole."
    elif trace.events == 0 or "schemaVersion" in report.metadata:
        message = "the trace holds no operations"
        remedy = "Export inside on_trace_ready, or before profiler.step() begins a new cycle; record CPU and CUDA."
    else:
        message = f"none of its {trace.events:,} events is an operation or kernel of PyTorch"
        remedy = "Upload a trace of torch.profiler (prof.export_chrome_trace); traces of other tools are not read."
    return ImportRefused("kineto", "traceEvents", message, remedy)
