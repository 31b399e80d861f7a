"""rocprofv3's JSON (``--kernel-trace --output-format json``): kernels by name, from their launches.

Times are nanoseconds; a launch names its kernel by number (ROCprofiler-SDK, "Using rocprofv3", JSON output).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from app.importers.whole_recording import listed, no_steps
from estimator.scenario.measurement import Kernel, Measurement, Origin
from estimator.scenario.units import MIB
from runners.trace.kernel_category import category_of, on_device

KEY = "rocprofiler-sdk-tool"
_MOST_BYTES = 512 * MIB
_NS = 1e-9
_GPU = 2
"""Kind of an agent (rocprofiler_agent_type_t); 1 is a CPU."""
_REMEDY = "Record with rocprofv3 --kernel-trace --output-format csv json -- CMD, and upload what it wrote, whole."


class _Symbol(msgspec.Struct):
    kernel_id: int = 0
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    truncated_kernel_name: str = ""
    kernel_name: str = ""


class _Agent(msgspec.Struct):
    id: Any = None
    type: Any = 0
    product_name: str = ""
    name: str = ""


class _Dispatch(msgspec.Struct):
    kernel_id: int = 0
    agent_id: Any = None


class _Span(msgspec.Struct):
    start_timestamp: int = 0
    end_timestamp: int = 0
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)


class _Records(msgspec.Struct):
    kernel_dispatch: list[_Span] = []
    memory_copy: list[_Span] = []


class _Process(msgspec.Struct):
    agents: list[_Agent] = []
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Records = msgspec.field(default_factory=_Records)


_DOCUMENT = msgspec.json.Decoder(dict[str, list[_Process]])


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Sum every launch by its kernel; raise ImportRefused where none was recorded."""
    try:
        processes = _DOCUMENT.decode(source.read("rocprof", _MOST_BYTES)).get(KEY, [])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImportRefused("rocprof", "", f"this JSON of rocprofv3 cannot be read ({error})", _REMEDY) from None
    spent: dict[str, list[_Span]] = defaultdict(list)
    copies: list[_Span] = []
    for process in processes:
        names = {one.kernel_id: _name(one) for one in process.kernel_symbols}
        for span in filter(_lasts, process.buffer_records.kernel_dispatch):
            number = span.dispatch_info.kernel_id
            spent[names.get(number) or f"kernel {number}"].append(span)
        copies += filter(_lasts, process.buffer_records.memory_copy)
    if not spent:
        raise ImportRefused("rocprof", KEY, "no launch of a kernel was recorded", _REMEDY)
    kernels = [
        Kernel(name=name, category=on_device(category_of(name)), count=len(spans), total_s=_seconds(spans))
        for name, spans in spent.items()
    ]
    kernels.sort(key=lambda one: -one.total_s)
    kept, left_out = listed(kernels, limits.kernels, (len(copies), _seconds(copies)))
    warnings = [no_steps("rocprofv3"), *left_out]
    launches = [span for spans in spent.values() for span in spans]
    begin = min(span.start_timestamp for span in launches)
    end = max(span.end_timestamp for span in launches)
    gpus = [one for process in processes for one in process.agents if one.type in (_GPU, "GPU")]
    ran = {str(span.dispatch_info.agent_id) for span in launches}
    # All of the machine's are listed, whichever of them a process uses.
    gpus = list({str(one.id): one for one in gpus if str(one.id) in ran}.values()) or gpus
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="rocprof-json", producer="rocprofv3"),
        device={"name": (gpus[0].product_name or gpus[0].name)[:100], "count": len(gpus)} if gpus else {},
        kernels=kept,
        environment={"recorded_s": (end - begin) * _NS},
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings))


def _lasts(span: _Span) -> bool:
    return span.end_timestamp >= span.start_timestamp


def _seconds(spans: Sequence[_Span]) -> float:
    return sum(span.end_timestamp - span.start_timestamp for span in spans) * _NS


def _name(symbol: _Symbol) -> str:
    named = (
        symbol.formatted_kernel_name,
        symbol.demangled_kernel_name,
        symbol.truncated_kernel_name,
        symbol.kernel_name,
    )
    return short_name(next((one for one in named if one), "").removesuffix(".kd"))
