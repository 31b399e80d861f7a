"""Notices: what a reader must know about a trace before trusting its numbers."""

from __future__ import annotations

from typing import Any

from app.importers.kineto.launches import Launches
from app.importers.kineto.stream import StreamReport
from app.importers.kineto.trace_columns import Trace
from app.importers.source import Source
from estimator.scenario.measurement import Kernel, Warning
from estimator.scenario.units import counted

_ABSOLUTE_US = 1e15
"""Microseconds since 1970: so large that a double resolves no better than 0.25 µs."""
_MANY_LOST = 0.02
NO_DEVICE_EVENTS = "no-device-events"
"""Code of the warning that kernels were launched and none recorded."""


def about_file(report: StreamReport, trace: Trace, source: Source) -> list[Warning]:
    """Damage to the file itself."""
    found = []
    if report.truncated:
        how = {"truncated": "the compressed stream ends early", "corrupt": "the compressed stream is damaged"}
        why = how.get(source.damage, "the list of events is not closed")
        message = f"The file is cut off ({why}); its {trace.events:,} whole events were read"
        found.append(Warning(code="file-truncated", message=message, where="the end"))
    if report.cleaned:
        message = "The file breaks JSON's rules (raw control characters, bare nan, bad escapes); they were replaced"
        found.append(
            Warning(
                code="json-repaired",
                message=message,
                where=counted(report.cleaned, "part"),
            )
        )
    if report.skipped or trace.unusable:
        message = f"{counted(report.skipped + trace.unusable, 'event')} without usable times or fields left out"
        found.append(Warning(code="events-skipped", message=message))
    if report.metadata_lost:
        message = "The trace's own description could not be read, so device, ranks and options may be missing"
        found.append(Warning(code="metadata-unreadable", message=message))
    return found


def about_recording(metadata: dict[str, Any], trace: Trace) -> list[Warning]:
    """What the profiler's options did to the numbers, or kept out of them."""
    found = []
    if metadata.get("with_stack") == 1 or trace.python_functions:
        message = "Recorded with_stack: every Python call was timed, so the host looks slower than it is"
        found.append(Warning(code="with-stack-overhead", message=message))
    if metadata.get("with_flops") == 1:
        message = "with_flops writes no FLOPs into the file; those shown were computed from the shapes of the inputs"
        found.append(Warning(code="flops-not-in-file", message=message))
    if not trace.shapes:
        message = "Recorded without record_shapes=True, so FLOPs and bytes of kernels are unknown"
        found.append(Warning(code="no-shapes", message=message))
    if not len(trace.device) and len(trace.launches):
        message = "The host launched kernels but none were recorded; add ProfilerActivity.CUDA. Host times are shown"
        found.append(Warning(code=NO_DEVICE_EVENTS, message=message))
    if trace.last_time > _ABSOLUTE_US:
        message = "Times are absolute microseconds (older PyTorch), which resolve no better than 0.25 µs"
        found.append(Warning(code="coarse-timestamps", message=message))
    if len(trace.device) and trace.whole_times:
        message = "Kernel times are whole microseconds (older PyTorch); short kernels are off by up to their length"
        found.append(Warning(code="integer-timestamps", message=message))
    return found


def about_kernels(
    named: tuple[Kernel, ...], merged: int, launched: Launches, trace: Trace, rank_ground: str, communicates: bool
) -> list[Warning]:
    """What could not be told about kernels and ranks."""
    found = []
    count = len(trace.device)
    if count and launched.by_graph:
        message = f"CUDA graphs replayed {counted(launched.by_graph, 'kernel')}; ops, phases and FLOPs are unknown"
        found.append(Warning(code="cuda-graphs", message=message))
    elif count and launched.unattributed > _MANY_LOST * count:
        message = (
            f"{launched.unattributed:,} of {count:,} device events could not be traced to the op that launched them"
        )
        found.append(Warning(code="unattributed-kernels", message=message))
    if launched.left_over:
        message = (
            f"{counted(launched.left_over, 'device event')} ran from before the recording began; "
            "no step counts them, and the first begins behind them"
        )
        found.append(Warning(code="left-over-kernels", message=message))
    if launched.unlaunched and not launched.by_graph:
        message = (
            f"{counted(launched.unlaunched, 'device event')} have no record of their launch; "
            "each counts to the step in which it ran"
        )
        found.append(Warning(code="launches-missing", message=message))
    if merged:
        message = f"{counted(merged, 'kernel')} of little time summed by category"
        found.append(Warning(code="kernels-merged", message=message))
    if len(trace.devices) > 1:
        message = f"The file holds events of {len(trace.devices)} devices of one process; their times are mixed"
        found.append(Warning(code="several-devices", message=message))
    if rank_ground == "name":
        message = "The file does not say its rank; it was taken from the file's name"
        found.append(Warning(code="rank-from-name", message=message))
    elif not rank_ground and communicates:
        message = "Ranks communicated, but the file does not say which rank it is, nor of how many"
        found.append(Warning(code="rank-missing", message=message))
    return found
