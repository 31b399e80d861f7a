"""Which numbers are known although nothing computes: what the host sent, and choices that are taken to be balanced.

Programs with experts read how many tokens each of them got, and make tensors of that size. So small tensors of whole
numbers have their numbers beside their shape, and an op whose tensors all have them is run on those, too. Where
``topk``, ``sort``, ``argmax`` or ``multinomial`` choose by numbers that nobody computed, all places are taken to come
equally often.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

LARGEST = 1 << 22
"""Elements up to which whole numbers are kept; what is longer are the masks of long sequences."""
LARGEST_OF_FLOATS = 1 << 16
"""The same of floats that are made from whole numbers, or filled: masks of a batch's tokens are, in some libraries."""

BALANCED = "what topk, sort, argmax and multinomial choose is not known: taken to be all places equally often"

_aten = torch.ops.aten


@dataclass(slots=True)
class _Memory:
    """What views of the same numbers share: whether something unknown was written there, and anything guessed."""

    unknown: bool = False
    guessed: bool = False


@dataclass(slots=True)
class Numbers:
    """What a fake tensor holds; ``real`` is a view of others' memory where the fake tensor is."""

    real: torch.Tensor
    memory: _Memory

    @property
    def guessed(self) -> bool:
        """Whether any of it was chosen as balanced."""
        return self.memory.guessed


def of(tensor: Any) -> Numbers | None:
    """Return what a tensor holds, None where that is not known."""
    found: Numbers | None = getattr(tensor, "numbers", None)
    return None if found is None or found.memory.unknown else found


def give(tensor: torch.Tensor, real: torch.Tensor, *, guessed: bool = False) -> None:
    """Say what a fake tensor holds, where it is of a kind and size that is kept."""
    if is_kept(tensor) and real.shape == tensor.shape:
        real = real.to(tensor.dtype)
        tensor.numbers = Numbers(real, _Memory(guessed=guessed))  # type: ignore[attr-defined]


def forget(tensors: Iterable[Any]) -> None:
    """Say that what was written to them is not known."""
    for tensor in _numbered(tensors):
        tensor.numbers.memory.unknown = True


def computed(func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> tuple[Any, bool] | None:
    """Run an op on what its tensors hold; return its result and whether it is guessed, None where not all are known."""
    known: dict[int, Numbers] = {}
    for tensor in tensors:
        found = of(tensor)
        if found is not None:
            known[id(tensor)] = found
        elif type(tensor) is FakeTensor or tensor.dtype.is_floating_point or tensor.numel() > LARGEST:
            return None
    if not known:
        return None

    given = [_real(value, known) for value in args]
    named = {name: _real(value, known) for name, value in kwargs.items()}
    try:
        with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
            if func is _aten.histc.default:  # which the host has of floats alone
                found = func(given[0].double(), *given[1:], **named).to(given[0].dtype)
            else:
                found = func(*given, **named)
    except (RuntimeError, IndexError):  # numbers that do not fit, as balanced ones may not
        return None
    return found, any(one.guessed for one in known.values())


def _real(value: Any, known: dict[int, Numbers]) -> Any:
    """Return an argument with numbers where tensors are fake.

    No function within the caller's: one that calls itself is a cycle, which keeps all it sees until the collector runs.
    """
    if isinstance(value, torch.Tensor):
        return known[id(value)].real if id(value) in known else value
    if type(value) is list or type(value) is tuple:
        return type(value)(_real(one, known) for one in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def carry(func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], results: list[torch.Tensor]) -> None:
    """Say what is known of an op's results and of what it writes to, by what is known of what it is given."""
    given = _numbered(tensors)
    if not given and id(func) not in _BEGINS:  # most ops: nothing is known, and nothing begins here
        return
    written = _numbered(_written(func, args, kwargs)) if given else []
    if not written and all(one.numel() > LARGEST for one in results):
        return
    found = None if id(func) in _FILLS or not given else computed(func, args, kwargs, tensors)
    if found is None:
        forget(written)
        _begin(func, args, kwargs, results)
        return
    real, guessed = found
    for one in written:
        one.numbers.memory.guessed |= guessed
    if written:
        return
    several = real if isinstance(real, (list, tuple)) else (real,)
    for one, numbers in zip(results, several, strict=True):
        if func.is_view and is_kept(one):
            one.numbers = Numbers(numbers, args[0].numbers.memory)  # type: ignore[attr-defined]
        elif isinstance(numbers, torch.Tensor):
            give(one, numbers, guessed=guessed)


def _numbered(tensors: Iterable[Any]) -> list[Any]:
    """Those that have numbers beside their shape, be they still known or not."""
    return [one for one in tensors if getattr(one, "numbers", None) is not None]


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    places = _WRITES.get(id(func))
    if places is None:
        places = _WRITES[id(func)] = _writes_to(func)
    found: list[Any] = []
    for index, name in places:
        value = args[index] if index < len(args) else kwargs.get(name)
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


_WRITES: dict[int, list[tuple[int, str]]] = {}
"""By op, whose identity lasts."""


def _writes_to(func: Any) -> list[tuple[int, str]]:
    listed = enumerate(func._schema.arguments)
    return [(index, one.name) for index, one in listed if one.alias_info is not None and one.alias_info.is_write]


def is_kept(tensor: torch.Tensor) -> bool:
    """Whether the numbers of such a tensor are kept: a fake one, not too long."""
    if type(tensor) is not FakeTensor or tensor.dtype.is_complex:
        return False
    return tensor.numel() <= (LARGEST_OF_FLOATS if tensor.dtype.is_floating_point else LARGEST)


# Where numbers begin


def _begin(func: Any, args: Any, kwargs: Any, results: list[torch.Tensor]) -> None:
    """Say what an op gives whatever its tensors hold: filled ones, and choices."""
    rule = _BEGINS.get(id(func))
    if rule is None or not results or not is_kept(results[-1]):
        return
    given = {one.name: one.default_value for one in func._schema.arguments if one.has_default_value()}
    given |= {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        rule(given, results[-1])


def _filled(given: dict[str, Any], made: torch.Tensor, value: float | None, *, floats: bool) -> None:
    value = given["fill_value"] if value is None else value
    if not isinstance(value, torch.Tensor) and (floats or not made.dtype.is_floating_point):
        give(made, torch.full(made.shape, value, dtype=made.dtype))


def _arange(given: dict[str, Any], made: torch.Tensor) -> None:
    if not made.dtype.is_floating_point:
        give(made, torch.arange(given.get("start", 0), given["end"], given.get("step", 1)))


def _chosen(given: dict[str, Any], made: torch.Tensor, *, turned: bool = False) -> None:
    """Entry j of row t is (t·k + j) mod n, of k in a row: no row has one twice, and all come equally often.

    ``turned``: rows have all places, (t + j) mod n, so that the first few of each come equally often as well.
    """
    source, dim = given["self"], given.get("dim", -1)
    if dim is None or not source.dim():
        give(made, torch.zeros(made.shape, dtype=made.dtype), guessed=True)
        return
    along = made.dim() == source.dim()  # else the one that was chosen left no dimension
    width = made.shape[dim] if along else 1
    shape = [one for at, one in enumerate(made.shape) if not along or at != dim % made.dim()]
    rows = torch.arange(math.prod(shape)).reshape(*shape, 1)
    places = (rows * (1 if turned else width) + torch.arange(width)).remainder(max(source.shape[dim], 1))
    give(made, places.movedim(-1, dim) if along else places.squeeze(-1), guessed=True)


def _counted(given: dict[str, Any], made: torch.Tensor) -> None:
    """Each class as often as the others, and all together as often as there are numbers."""
    ends = torch.arange(made.numel() + 1) * given["self"].numel() // max(made.numel(), 1)
    give(made, ends.diff(), guessed=True)


def _nothing(given: dict[str, Any], made: torch.Tensor) -> None:
    """Nothing times what is not known is nothing."""
    numbers = [of(given[name]) for name in ("self", "other")]
    if not made.dtype.is_floating_point and any(one is not None and not one.real.any() for one in numbers):
        give(made, torch.zeros(made.shape, dtype=made.dtype))


def _overloads(name: str) -> list[Any]:
    packet = getattr(_aten, name)
    return [getattr(packet, one) for one in packet.overloads()]


_FILLS: dict[int, Callable[[dict[str, Any], torch.Tensor], None]] = {
    id(func): functools.partial(_filled, value=value, floats=kind != "empty")
    for kind, value in {"zeros": 0, "ones": 1, "empty": 0, "full": None}.items()
    for name in (kind, f"{kind}_like", f"new_{kind}")
    for func in _overloads(name)
}
_BEGINS: dict[int, Callable[[dict[str, Any], torch.Tensor], None]] = {
    **_FILLS,
    **dict.fromkeys(map(id, _overloads("arange")), _arange),
    **dict.fromkeys(map(id, (_aten.max.dim, _aten.min.dim, _aten.argmax.default, _aten.argmin.default)), _chosen),
    **dict.fromkeys(map(id, (_aten.topk.default, _aten.multinomial.default)), _chosen),
    **dict.fromkeys(map(id, (_aten.sort.default, _aten.sort.stable)), functools.partial(_chosen, turned=True)),
    **dict.fromkeys(map(id, (_aten.bincount.default, _aten.histc.default)), _counted),
    id(_aten.mul.Tensor): _nothing,
    **dict.fromkeys(
        map(id, (_aten.isnan.default, _aten.isinf.default)), functools.partial(_filled, value=0, floats=False)
    ),
}


# What exchanges give, where every rank holds the same

_OF_ALIKE = ("avg", "min", "max", "band", "bor")
"""Reductions of what is the same everywhere that give it again."""


def exchanged(
    kind: str, given: list[torch.Tensor], made: list[torch.Tensor], ranks: int, rank: int, reduction: str = ""
) -> None:
    """Say what a collective gives where all ranks hold what this one does; ``kind``: the name of its op."""
    known = of(given[0]) if len(given) == 1 else None
    forget(made)
    if known is None or (not known.real.dim() and not reduction):
        return
    reduces = "allreduce" in kind or "all_reduce" in kind
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        if "gather" in kind:
            real = torch.cat([known.real] * ranks)
        elif "broadcast" in kind or (reduces and reduction in _OF_ALIKE):
            real = known.real.clone()
        elif reduces and reduction == "sum":
            real = known.real * ranks
        elif ("alltoall" in kind or "all_to_all" in kind) and known.real.shape[0] % ranks == 0:
            real = torch.cat([known.real.tensor_split(ranks)[rank]] * ranks)
        else:
            return
        real = real.reshape(-1)
        if real.numel() == sum(one.numel() for one in made):
            parts: Any = torch.split(real, [one.numel() for one in made])
            for one, part in zip(made, parts, strict=True):
                give(one, part.reshape(one.shape).clone(), guessed=known.guessed)
