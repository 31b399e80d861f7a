"""Op list: what a program or a profile did in one step, call by call; the noun beside Scenario that an estimate prices.

Standard library only, because runners write it on hosts that have nothing but Python and torch. In JSON, calls and
storages are columns and signatures stand once, as a step repeats few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from estimator.scenario.breakdown import PHASES, MemoryKind
from estimator.scenario.problems import InputProblems, Problem

FORMAT = "headroom-ops"
SCHEMA_VERSION = 1

CALLS = ("kernel", "collective", "wait", "sync")
"""``kernel``: an op that launches device kernels; ``collective``: an exchange of a group's ranks; ``wait``: its stream
waits for an earlier call (an event, a collective's work); ``sync``: the host itself waits for an earlier call, or for
all that was launched."""

NONE = -1
"""No signature, no module, no earlier call; as a birth: before the step; as a death: after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operand:
    """A tensor as an op saw it. ``dtype`` as torch prints it without "torch."; ``strides`` None: contiguous."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """An op with all that decides which kernels it launches and how long they take.

    ``op``: namespace and name, "aten::mm", "c10d::allgather". ``inputs``: device tensors in the order of the arguments,
    lists flattened. ``arguments``: what else matters: {"is_causal": true, "backend": "flash"}, {"group": 1}.
    """

    op: str
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One execution, in the order in which the host launched them; indices point into the list's own tables.

    ``dispatches``: ops that the host went through since the call before, this one included (views cost time, too).
    0 of a kernel: what launches it does so below Python and autograd, as DistributedDataParallel's reducer.
    ``dtensor``: those among them that DTensor took apart first. ``graphs``: compiled graphs that the host entered since
    the call before.
    ``recomputed``: runs a second time in backward. ``compiled``: stands in a region that the program compiles, recorded
    as eager would run it, so that its neighbours may fuse. ``waits_for``: index of an earlier call. ``measured_s``:
    device seconds of its kernels where it was profiled, else None. ``varies``: a size of its operands that follows from
    what the data chose, as tokens of an expert do, so that it is another in every step; 0 where none does.
    """

    kind: str
    signature: int = NONE
    phase: str = ""
    module: int = NONE
    stream: int = 0
    dispatches: int = 1
    dtensor: int = 0
    graphs: int = 0
    recomputed: bool = False
    compiled: bool = False
    waits_for: int = NONE
    measured_s: float | None = None
    varies: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """A parameter of the program as this rank holds it: its path, as ``named_parameters`` gives it.

    ``trains``: whether it wants a gradient.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    trains: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """Device memory that a program held: requested bytes, and the calls before which it was born and died.

    ``born`` -1: there when the step began; ``died`` -1: there when it ended. ``kind``: a name of MemoryKind.
    ``weight``: index of the parameter that it holds, or of which it holds gradient or optimizer state.
    """

    bytes: int
    born: int = NONE
    died: int = NONE
    kind: str = MemoryKind.TEMPORARIES
    weight: int = NONE


@dataclass(frozen=True, kw_only=True)
class OpList:
    """One step of one rank. ``groups``: ranks of each process group; ``streams``: names, the first is the default one.

    ``chip``: catalogue key of the chip that it was traced for or profiled on, "" where unknown. ``source``: "trace" or
    "profile". ``parameters``: elements of all parameters, frozen ones too, 0 where unknown; ``trained_parameters``: of
    those with a gradient, 0 where all are or it is unknown. ``weights``: each of them, in the order of their
    registration, none where unknown. ``loop_s``: measured step time. ``follows_on``: the host goes on to the next step
    without waiting for the device, as a loop does that reads nothing in between.
    """

    source: str
    program: str
    calls: tuple[Call, ...]
    signatures: tuple[Signature, ...]
    storages: tuple[Storage, ...] = ()
    modules: tuple[str, ...] = ()
    streams: tuple[str, ...] = ("default",)
    groups: tuple[tuple[int, ...], ...] = ()
    chip: str = ""
    world_size: int = 1
    rank: int = 0
    parameters: int = 0
    trained_parameters: int = 0
    weights: tuple[Weight, ...] = ()
    loop_s: float | None = None
    arguments: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    follows_on: bool = False

    def of(self, call: Call) -> Signature:
        """Return the signature of a kernel or collective."""
        return self.signatures[call.signature]


_CALL = {"kind": "", "signature": NONE, "phase": "", "module": NONE, "stream": 0, "dispatches": 1, "dtensor": 0,
         "graphs": 0, "recomputed": False, "compiled": False, "waits_for": NONE, "measured_s": None,
         "varies": 0}  # fmt: skip
_STORAGE = {"bytes": 0, "born": NONE, "died": NONE, "kind": MemoryKind.TEMPORARIES, "weight": NONE}


def to_json(found: OpList) -> dict[str, Any]:
    """Write an op list as one JSON document; columns with nothing but defaults are left out, the first one excepted."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "source": found.source,
        "program": found.program,
        "arguments": list(found.arguments),
        "versions": dict(found.versions),
        "chip": found.chip,
        "world_size": found.world_size,
        "rank": found.rank,
        "parameters": found.parameters,
        "trained_parameters": found.trained_parameters,
        "loop_s": found.loop_s,
        **({"follows_on": True} if found.follows_on else {}),
        "assumptions": list(found.assumptions),
        "problems": [{f.name: getattr(p, f.name) for f in fields(p)} for p in found.problems],
        "groups": [list(ranks) for ranks in found.groups],
        "streams": list(found.streams),
        "modules": list(found.modules),
        "signatures": [
            {
                "op": s.op,
                "inputs": [_operand(o) for o in s.inputs],
                "outputs": [_operand(o) for o in s.outputs],
                "arguments": dict(s.arguments),
            }
            for s in found.signatures
        ],
        "weights": [[one.name, list(one.shape), one.dtype, one.trains] for one in found.weights],
        "calls": _columns(found.calls, _CALL),
        "storages": _columns(found.storages, _STORAGE),
    }


def from_json(data: object) -> OpList:
    """Read an op list; raise InputProblems that name the bad field and the remedy."""
    return _read(data)


def is_op_list(data: object) -> bool:
    """Whether a JSON document says that it is one."""
    return isinstance(data, Mapping) and data.get("format") == FORMAT


def _operand(one: Operand) -> list[Any]:
    found: list[Any] = [list(one.shape), one.dtype]
    return found if one.strides is None else [*found, list(one.strides)]


def _columns(rows: Sequence[Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"count": len(rows)}
    for index, (name, default) in enumerate(defaults.items()):
        column = list(map(attrgetter(name), rows))
        if index == 0 or any(value != default for value in column):
            found[name] = column
    return found


def _read(data: object) -> OpList:
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise _bad("format", f"is not {FORMAT!r}", "Write the file with `headroom trace`.")
    if data.get("schema_version") != SCHEMA_VERSION:
        message = f"is {data.get('schema_version')!r}; this version reads {SCHEMA_VERSION}"
        raise _bad("schema_version", message, "Trace the program again with this version.")
    known = {f.name for f in fields(OpList)} | {"format", "schema_version"}
    for key in data:
        if key not in known:
            raise _bad(str(key), "unknown key", f"Known keys: {', '.join(sorted(known))}.")
    signatures = tuple(_signatures(_list(data, "signatures")))
    modules = tuple(_texts(data, "modules"))
    streams = tuple(_texts(data, "streams")) or ("default",)
    groups = tuple(tuple(_ranks(ranks, index)) for index, ranks in enumerate(_list(data, "groups")))
    limits = {"signature": len(signatures), "module": len(modules), "stream": len(streams)}
    calls = tuple(Call(**row) for row in _rows(data, "calls", _CALL, limits))
    for index, call in enumerate(calls):
        if call.kind not in CALLS:
            raise _bad(f"calls.kind[{index}]", f"is {call.kind!r}", f"One of: {', '.join(CALLS)}.")
        if call.phase and call.phase not in PHASES:
            raise _bad(f"calls.phase[{index}]", f"is {call.phase!r}", f"One of: {', '.join(PHASES)}, or nothing.")
        if call.waits_for >= index:
            raise _bad(f"calls.waits_for[{index}]", "is not an earlier call", "Give the index of one before it, or -1.")
        if call.signature == NONE and call.kind in ("kernel", "collective"):
            raise _bad(f"calls.signature[{index}]", "is missing", "A kernel or collective needs its signature.")
    weights = tuple(_weights(_list(data, "weights")))
    limits = {"born": len(calls) + 1, "died": len(calls) + 1, "weight": len(weights)}
    storages = tuple(Storage(**row) for row in _rows(data, "storages", _STORAGE, limits))
    return OpList(
        source=_text(data, "source"),
        program=_text(data, "program"),
        calls=calls,
        signatures=signatures,
        storages=storages,
        modules=modules,
        streams=streams,
        groups=groups,
        chip=_text(data, "chip"),
        world_size=_whole(data, "world_size", 1, 1),
        rank=_whole(data, "rank", 0, 0),
        parameters=_whole(data, "parameters", 0, 0),
        trained_parameters=_whole(data, "trained_parameters", 0, 0),
        weights=weights,
        loop_s=_seconds(data.get("loop_s"), "loop_s"),
        follows_on=_truth(data.get("follows_on", False), "follows_on"),
        arguments=tuple(_texts(data, "arguments")),
        versions={str(k): str(v) for k, v in dict(data.get("versions") or {}).items()},
        assumptions=tuple(_texts(data, "assumptions")),
        problems=tuple(
            Problem(**{f.name: str(p.get(f.name, "")) for f in fields(Problem)})
            for p in _list(data, "problems")
            if isinstance(p, Mapping)
        ),
    )


def _bad(where: str, message: str, remedy: str) -> InputProblems:
    return InputProblems([Problem(field=where, message=message, remedy=remedy)])


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    found = data.get(name, [])
    if not isinstance(found, list):
        raise _bad(name, "must be a list", "Write [...].")
    return found


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name, "")
    if not isinstance(found, str):
        raise _bad(name, "must be text", 'Write "...".')
    return found


def _texts(data: Mapping[str, Any], name: str) -> list[str]:
    found = _list(data, name)
    if not all(isinstance(one, str) for one in found):
        raise _bad(name, "must be a list of texts", 'Write ["...", ...].')
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(data: Mapping[str, Any], name: str, default: int, least: int) -> int:
    found = data.get(name, default)
    if not _is_whole(found) or found < least:
        raise _bad(name, "must be a whole number", f"Write {least} or more.")
    return int(found)


def _truth(found: object, where: str) -> bool:
    if not isinstance(found, bool):
        raise _bad(where, "must be true or false", "Leave it out where the host waits between steps.")
    return found


def _seconds(found: object, where: str) -> float | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < 1e9:
        raise _bad(where, "must be seconds", "Write a number that is not negative, or null.")
    return float(found)


def _ranks(found: object, index: int) -> list[int]:
    if not isinstance(found, list) or not all(_is_whole(rank) and rank >= 0 for rank in found):
        raise _bad(f"groups[{index}]", "must be a list of ranks", "Write [0, 1, ...].")
    return found


def _sizes(found: object, where: str) -> tuple[int, ...]:
    if not isinstance(found, list) or not all(_is_whole(size) and 0 <= size < 1 << 48 for size in found):
        raise _bad(where, "must be a list of whole numbers", "Write [4096, 1024].")
    return tuple(found)


_MOST_ELEMENTS = 1 << 56


def _operands(found: object, where: str) -> tuple[Operand, ...]:
    if not isinstance(found, list):
        raise _bad(where, "must be a list", 'Write [[[4096, 1024], "bfloat16"]].')
    made = []
    for index, one in enumerate(found):
        at = f"{where}[{index}]"
        if not isinstance(one, list) or len(one) not in (2, 3) or not isinstance(one[1], str):
            raise _bad(at, "must be shape, dtype and perhaps strides", 'Write [[4096, 1024], "bfloat16"].')
        shape, strides = _sizes(one[0], at), _sizes(one[2], at) if len(one) == 3 else None
        if math.prod(shape) >= _MOST_ELEMENTS:
            raise _bad(at, "has more elements than any memory", "Correct its shape.")
        if strides is not None and len(strides) != len(shape):
            raise _bad(at, "has not one stride per dimension", "Leave them out where the tensor is contiguous.")
        made.append(Operand(shape=shape, dtype=one[1], strides=strides))
    return tuple(made)


def _weights(found: list[Any]) -> Iterator[Weight]:
    for index, one in enumerate(found):
        at = f"weights[{index}]"
        if not isinstance(one, list) or len(one) != 4 or not isinstance(one[0], str) or not isinstance(one[3], bool):
            remedy = 'Write ["head.weight", [32000, 1024], "bfloat16", true].'
            raise _bad(at, "must be name, shape, dtype and whether it is trained", remedy)
        (made,) = _operands([one[1:3]], at)
        yield Weight(name=one[0], shape=made.shape, dtype=made.dtype, trains=one[3])


def _signatures(found: list[Any]) -> Iterator[Signature]:
    for index, one in enumerate(found):
        where = f"signatures[{index}]"
        arguments = one.get("arguments", {}) if isinstance(one, Mapping) else None
        if not isinstance(one, Mapping) or not isinstance(one.get("op"), str) or not isinstance(arguments, Mapping):
            raise _bad(where, "must be an object with an op", 'Write {"op": "aten::mm", "inputs": [...]}.')
        yield Signature(
            op=one["op"],
            inputs=_operands(one.get("inputs", []), f"{where}.inputs"),
            outputs=_operands(one.get("outputs", []), f"{where}.outputs"),
            arguments=dict(arguments),
        )


def _rows(
    data: Mapping[str, Any], name: str, defaults: Mapping[str, Any], limits: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    table = data.get(name, {"count": 0})
    if not isinstance(table, Mapping) or not _is_whole(table.get("count")) or not 0 <= table["count"] <= 10_000_000:
        raise _bad(name, "must be an object of columns with their count", 'Write {"count": 2, ...: [...]}.')
    count = table["count"]
    columns: dict[str, list[Any]] = {}
    for key in table:
        if key != "count" and key not in defaults:
            raise _bad(f"{name}.{key}", "unknown column", f"Known columns: {', '.join(defaults)}.")
    for key, default in defaults.items():
        column = table.get(key)
        if column is None and not columns:
            # The one column that is always there: else a short file could ask for any number of rows.
            column = []
        elif column is None:
            column = [default] * count
        if not isinstance(column, list) or len(column) != count:
            raise _bad(f"{name}.{key}", f"must be a list of {count} values", "Give one value per row.")
        _check(f"{name}.{key}", column, default, limits.get(key))
        columns[key] = column
    names = tuple(columns)
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(names, row, strict=True))


def _check(where: str, column: list[Any], default: Any, limit: int | None) -> None:
    if isinstance(default, str):
        fit = all(isinstance(value, str) for value in column)
    elif isinstance(default, bool):
        fit = all(isinstance(value, bool) for value in column)
    elif default is None:
        for index, value in enumerate(column):
            _seconds(value, f"{where}[{index}]")
        fit = True
    else:
        least = min(default, 0)
        fit = all(_is_whole(value) and least <= value and (limit is None or value < limit) for value in column)
    if not fit:
        raise _bad(where, "has a value that does not fit", f"Give values like {default!r}, and indices of what exists.")
