"""What an op gives on shapes, remembered by what it was given: a step repeats few ops many times.

torch's fake tensors remember as well, by a key that covers symbolic shapes and takes ten times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from runners.program.tensors import PLAIN

_LEFT = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)
_UNMARKED_VIEWS = {torch.ops.aten._unsafe_view.default}
"""Show the memory of what they are given although their schema does not say so."""
_MANY = ("aten::_foreach_", "aten::_fused_")
_WHOLE = {int}


@dataclass(slots=True)
class _Made:
    """One tensor that an op returned; ``of``: the place of the argument whose memory it shows, None where it is new.

    ``about``: what a fake tensor carries beside its shape, as torch set it.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    about: dict[str, Any]
    of: int | None = None


class Remembered:
    """Runs ops of torch on shapes, each only once for the same shapes, strides, types and values."""

    def __init__(self, fakes: FakeTensorMode) -> None:
        self._fakes = fakes
        self._results: dict[Any, Callable[[Any], Any]] = {}
        self._kinds: dict[int, str] = {}

    def dispatch(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return what ``FakeTensorMode.dispatch`` does."""
        kind = self._kinds.get(id(func))
        if kind is None:
            kind = self._kinds[id(func)] = _kind(func)
        if kind == "many":
            return None
        if kind == "shows" and torch.is_inference_mode_enabled() and not args[0].is_inference():
            with (
                torch.inference_mode(False),
                torch.no_grad(),
            ):  # a view of a tensor that counts its versions counts them, too
                return self._dispatch(kind, func, types, args, kwargs)
        return self._dispatch(kind, func, types, args, kwargs)

    def _dispatch(self, kind: str, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        key = None if kind == "" else _key(func, args, kwargs)
        freed = kind == "shows" and key is not None and type(args[0]) is FakeTensor
        freed = freed and not args[0].untyped_storage().nbytes()
        if key is None or freed:  # a view that is set to memory which was freed would make it anew
            return self._fakes.dispatch(func, types, args, kwargs)
        again = self._results.get(key)
        if again is not None:
            return again(args)
        caches = self._fakes.cache_enabled
        self._fakes.cache_enabled = False  # what is remembered here need not be there as well
        try:
            found = self._fakes.dispatch(func, types, args, kwargs)
        finally:
            self._fakes.cache_enabled = caches
        made = self._again(kind, func, args, kwargs, found)
        if made is not None:
            self._results[key] = made
        return found

    def _again(self, kind: str, func: Any, args: Any, kwargs: Any, found: Any) -> Callable[[Any], Any] | None:
        """What makes such a result another time; None where it is not known to be the same then."""
        if kind == "writes":
            return _first if found is args[0] else None
        if kind == "nothing":
            return _nothing if found is None else None
        several = isinstance(found, (tuple, list))
        plans: list[_Made | None] = []
        taken = set() if kind == "shows" else set(_storages((args, kwargs)))
        for one in found if several else (found,):
            plan = None if one is None else _plan(one, args, kind == "shows", taken)
            if plan is None and one is not None:
                return None
            plans.append(plan)
        if not several:
            plan = plans[0]
            return None if plan is None else lambda given: _make(plan, given)
        container: Any = list if isinstance(found, list) else tuple
        return lambda given: container([None if one is None else _make(one, given) for one in plans])


def _kind(func: Any) -> str:
    """What it returns: new tensors or views, the argument that it writes to, nothing; "" where it is not remembered.

    "many": works in place on all the tensors of a model; to look at each would take as long as a layer.
    """
    schema = func._schema
    if func.namespace != "aten" or any(tag in func.tags for tag in _LEFT):
        return ""
    writes = [one.alias_info is not None and one.alias_info.is_write for one in schema.arguments]
    if not schema.returns:
        if any(writes) and schema.name.startswith(_MANY):
            return "many"
        return "nothing" if any(writes) else ""
    if any(writes):
        first = writes[0] and sum(writes) == 1 and len(schema.returns) == 1
        return "writes" if first and schema.name.endswith("_") and str(schema.returns[0].type) == "Tensor" else ""
    return "shows" if func.is_view or func in _UNMARKED_VIEWS else "makes"


def _key(func: Any, args: Any, kwargs: Any) -> Any:
    parts: list[Any] = [id(func), torch.get_default_dtype()]
    if not _add(parts, args):
        return None
    for name, value in kwargs.items():
        parts.append(name)
        if not _add(parts, (value,)):
            return None
    return tuple(parts)


def _add(parts: list[Any], values: Any) -> bool:
    """Append what decides the result; False where a value is none of those that are known to."""
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if value.dtype.is_complex or value.layout is not torch.strided:
                return False
            parts += (value.shape, value.stride(), value.storage_offset(), value.dtype, value.fake_device)
        elif kind in PLAIN:
            parts += (kind, value)
        elif kind is list or kind is tuple or kind is torch.Size:
            parts += (kind, len(value))
            if _WHOLE.issuperset(map(type, value)):
                parts += value
            elif not _add(parts, value):
                return False
        else:
            return False
    return True


def _plan(one: Any, args: Any, is_view: bool, taken: set[int]) -> _Made | None:
    """Say how a result is made; None where it is not plain memory of its own, or a view of the first argument."""
    if type(one) is not FakeTensor or one.constant is not None or one.dtype.is_complex:
        return None
    if one.layout is not torch.strided or one._is_view() or one.requires_grad:
        return None
    made = _Made(tuple(one.shape), tuple(one.stride()), int(one.storage_offset()), one.dtype, one.fake_device,
                 dict(one.__dict__))  # fmt: skip
    storage = one.untyped_storage()
    if is_view:
        same = type(args[0]) is FakeTensor and args[0].untyped_storage()._cdata == storage._cdata
        made.of = 0
        return made if same else None
    fits = storage.nbytes() == _reach(made) * one.element_size() and made.offset == 0
    if not fits or storage._cdata in taken:
        return None
    taken.add(storage._cdata)
    return made


def _storages(value: Any) -> Iterator[int]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _storages(one)
    elif isinstance(value, dict):
        yield from _storages(tuple(value.values()))
    elif isinstance(value, torch.Tensor):
        yield value.untyped_storage()._cdata


def _reach(made: _Made) -> int:
    if 0 in made.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(made.shape, made.strides, strict=True))


def _make(made: _Made, args: Any) -> FakeTensor:
    """Make it as FakeTensor's own constructor does, which looks at more that cannot be here."""
    empty = torch.empty_strided(made.shape, made.strides, dtype=made.dtype, device="meta")
    if made.of is not None:
        empty.set_(args[made.of].untyped_storage(), made.offset, made.shape, made.strides)
    tensor = torch.Tensor._make_subclass(
        FakeTensor, empty, False, dispatch_device=True, device_for_backend_keys=made.device
    )
    torch._C._set_warn_deprecated_on_mutable_data_ptr(tensor)  # as of any other: FSDP compares addresses
    tensor.__dict__.update(made.about)
    return tensor


def _first(args: Any) -> Any:
    return args[0]


def _nothing(args: Any) -> None:
    return None
