"""Events: the fields of a trace event that are used; everything else in it is never kept."""

from __future__ import annotations

import math
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from app.importers.names import short_name

NO_ID = -(2**63)


class Args(msgspec.Struct, gc=False):
    """What an event's ``args`` say, as far as it is used; in the order of the file, which decodes fastest."""

    external: int = msgspec.field(name="External id", default=NO_ID)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    sequence: int = msgspec.field(name="Sequence number", default=NO_ID)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=0)
    correlation: int = NO_ID
    old_external: int = msgspec.field(name="external id", default=NO_ID)
    old_dims: msgspec.Raw = msgspec.field(name="Input dims", default=msgspec.Raw())
    """As PyTorch 1.8 spells them."""
    collective: str = msgspec.field(name="Collective name", default="")
    in_elements: int = msgspec.field(name="In msg nelems", default=0)
    out_elements: int = msgspec.field(name="Out msg nelems", default=0)
    group_size: int = msgspec.field(name="Group size", default=0)
    dtype: str = ""
    ranks: str = msgspec.field(name="Process Group Ranks", default="")
    allocated: int = msgspec.field(name="Total Allocated", default=NO_ID)
    reserved: int = msgspec.field(name="Total Reserved", default=NO_ID)
    device_type: int = msgspec.field(name="Device Type", default=0)
    kernel_flop: float | None = None
    kernel_num_gb: float | None = None


class Event(msgspec.Struct, gc=False):
    """One event of a Chrome trace; times in microseconds, whatever ``displayTimeUnit`` says."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = 0.0
    dur: float = -1.0
    args: Args | None = None


_FIELDS = {one.name: one for one in msgspec.structs.fields(Args)}


def _some(*names: str) -> type:
    """Those fields of ``Args`` alone."""
    chosen = [
        (name, _FIELDS[name].type, msgspec.field(name=_FIELDS[name].encode_name, default=_FIELDS[name].default))
        for name in names
    ]
    return msgspec.defstruct("SomeArgs", chosen, gc=False)


_OP_ARGS = _some(
    "external", "concrete", "types", "strides", "dims", "sequence", "forward_thread", "old_external", "old_dims"
)  # fmt: skip
_DEVICE_ARGS = _some(
    "external", "correlation", "old_external", "collective", "in_elements", "out_elements", "group_size", "dtype",
    "ranks", "kernel_flop", "kernel_num_gb"
)  # fmt: skip
_LAUNCH_ARGS = _some("external", "correlation", "old_external")
_ARGS_OF: dict[str, Any] = {
    "cpu_op": _OP_ARGS, "user_annotation": _OP_ARGS, "kernel": _DEVICE_ARGS, "gpu_memcpy": _DEVICE_ARGS,
    "gpu_memset": _DEVICE_ARGS,
    "cpu_instant_event": Args, "cuda_runtime": _LAUNCH_ARGS, "cuda_driver": _LAUNCH_ARGS, "python_function": None,
}  # fmt: skip
UNUSED = ("ac2g", "fwdbwd", "async_gpu", "async_cpu_to_gpu", "gpu_user_annotation", "overhead")
"""Arrows and what else nothing is taken from: only how many there are."""


def _of_category(category: str) -> type:
    """An event of one category with what it may have, which decodes in less time and memory than ``Event``."""
    args = _ARGS_OF.get(category)
    name = [("name", str, "")]
    others = [("pid", _Identity, None), ("tid", _Identity, None), ("ts", float, 0.0), ("dur", float, -1.0)]
    fields: list[tuple[str, Any, Any]] = name if category in UNUSED else [("ph", str, ""), *name, *others]
    constants: dict[str, Any] = {"cat": category}
    if category in UNUSED:
        constants |= {"ph": "", **{field: default for field, _, default in others}}
    if args is None:
        constants["args"] = None
    else:
        fields.append(("args", args | None, None))
    return msgspec.defstruct(category, fields, namespace=constants, tag_field="cat", tag=category, gc=False)


_Identity = int | str | None
LARGEST = 1e18
"""No time of a trace is further from 0, in microseconds."""
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, of other types than expected, or nested without end."""

LIST = msgspec.json.Decoder(list[Event])
_ANY_OF_THEM: Any = reduce(or_, (_of_category(one) for one in (*_ARGS_OF, *UNUSED)))
USUAL: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[_ANY_OF_THEM])
"""Decodes events of the usual categories alone, a fifth faster; raises for any other."""
ONE = msgspec.json.Decoder(Event)
_ANY = msgspec.json.Decoder()
_WHOLES = ("External id", "external id", "correlation", "In msg nelems", "Out msg nelems", "Group size",
           "Total Allocated", "Total Reserved", "Device Type", "Sequence number", "Fwd thread id")  # fmt: skip
_TEXTS = ("Collective name", "dtype", "Process Group Ranks")
_LISTS = ("Input Dims", "Input dims", "Input type", "Concrete Inputs", "Input Strides")


def lenient(data: bytes) -> Event | None:
    """Decode one event with fields of unexpected types: usable ones are converted, others dropped; None if hopeless."""
    try:
        found = _ANY.decode(data)
    except BROKEN:
        return None
    if not isinstance(found, dict):
        return None
    stamp, length = _number(found.get("ts", 0.0)), _number(found.get("dur", -1.0))
    if stamp is None or length is None or not isinstance(found.get("name", ""), str):
        return None
    event = {
        "ph": found.get("ph") if isinstance(found.get("ph"), str) else "",
        "cat": found.get("cat") if isinstance(found.get("cat"), str) else "",
        "name": short_name(found.get("name", "")),
        "ts": stamp,
        "dur": length,
        "pid": _identity(found.get("pid")),
        "tid": _identity(found.get("tid")),
    }
    arguments = found.get("args")
    if isinstance(arguments, dict):
        event["args"] = _arguments(arguments)
    try:
        return ONE.decode(msgspec.json.encode(event))
    except BROKEN:
        return None


def _arguments(found: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in _WHOLES:
        value = _number(found.get(name))
        if value is not None and abs(value) < 2**62:
            kept[name] = int(value)
    for name in _TEXTS:
        if isinstance(found.get(name), str):
            kept[name] = found[name]
    for name in _LISTS:
        if isinstance(found.get(name), list):
            kept[name] = found[name]
    return kept


def _number(value: Any) -> float | None:
    """Return a finite number of sane size; digits in a string count as one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # whole numbers may have hundreds of digits, which no float holds
    return value if abs(value) <= LARGEST and (isinstance(value, int) or math.isfinite(value)) else None


def _identity(value: Any) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        return None
    return value if isinstance(value, (int, str)) else str(value)


def decoded_list(data: bytes) -> list[Any]:
    """The list that a raw field holds; [] where it is none or broken."""
    try:
        found = msgspec.json.decode(data) if data else []
    except BROKEN:
        return []
    return found if isinstance(found, list) else []
