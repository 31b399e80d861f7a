"""Every op that the program dispatches: run on shapes alone, recorded where it would launch a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from runners.program import accumulation, grouped, placeholders, recurrent, transfers, values, varying, zeros
from runners.program.attention import attend
from runners.program.devices import DEVICE, inward, inward_named
from runners.program.recording import Recording
from runners.program.remembered import Remembered
from runners.program.schemas import Schema
from runners.program.tensors import given_tensors, is_on_device, leaves

aten = torch.ops.aten

_ASKS_DEVICE = torch.ops.prim.device.default

_PLAIN_TYPES = {torch.Tensor, FakeTensor, torch.nn.Parameter, torch.nn.Buffer}

Handler = Callable[["Recorder", Any, tuple[Any, ...], dict[str, Any]], Any]


def _without_empty(tensors: Sequence[torch.Tensor], dim: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """What a compiler makes of a concatenation: parts of no size fall out, and one part alone is copied as it lies."""
    parts = [one for one in tensors if one.shape != (0,) and one.shape[dim]]
    if len(parts) == 1 and all(one.dtype is parts[0].dtype for one in tensors):
        return aten.clone.default, (parts[0],)
    return aten.cat.default, (parts or tensors, dim)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs what touches the device, or the host's large tensors, on fakes; all else for real.

    ``handlers``: by namespace of an op, who takes it instead. ``in_backward`` is told of an error there, which the
    engine would not survive.
    """

    def __init__(self, recording: Recording, fakes: FakeTensorMode, capability: tuple[int, int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = recording
        self.fakes = fakes
        self._remembered = Remembered(fakes)
        self.capability = capability
        self.handlers: dict[str, Handler] = {}
        self._schemas: dict[int, Schema] = {}
        self.in_backward: Callable[[Any, Exception], None] = lambda func, error: None
        self._unrecorded = 0
        self._alone = accumulation.counts_alone()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here: without this, torch would import its compiler."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take an op; subclasses that wrap tensors unwrap themselves first."""
        if func is _ASKS_DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        if not _PLAIN_TYPES.issuperset(types):
            # by its name: importing it takes as long as torch
            split = any(one.__name__ == "DTensor" for one in types)
            self.recording.dtensor += split
            self.recording.split_trains |= split and any(one.requires_grad for one in given_tensors(args, kwargs or {}))
            return NotImplemented
        with torch._C.DisableTorchFunction():
            if self._unrecorded:
                return self._remembered.dispatch(func, types, args, inward_named(kwargs or {}))
            if not self.recording.backward:
                return self._take(func, types, args, kwargs)
            try:
                return self._take(func, types, args, kwargs)
            except Exception as error:
                self.in_backward(func, error)
                raise

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """What runs on shapes to learn them, on no device, is neither a kernel nor memory."""
        self._unrecorded += 1
        try:
            yield
        finally:
            self._unrecorded -= 1

    def schema(self, func: Any) -> Schema:
        """What is known of an op; ops live as long as torch, and are found by identity, not by a hash in Python."""
        found = self._schemas.get(id(func))
        if found is None:
            found = self._schemas[id(func)] = Schema(func)
        return found

    def _take(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        kwargs = kwargs or {}
        if self.recording.backward and id(func) in _IN_PLACE_BACKWARD:
            if func is aten.index_put.default:  # whose indices are not checked there: the host would wait
                kwargs = {**kwargs, "unsafe": True}
                args = (args[0], self._beside(args[1]), *args[2:])
            func = _IN_PLACE_BACKWARD[id(func)]
        elif self.recording.backward and func is aten.add.Tensor and accumulation.in_place(args, self._alone):
            func = func if self.recording.is_compiled() else aten.add_.Tensor  # a compiler's sums are new
        elif func is aten.cat.default and self.recording.is_compiled():
            func, args = _without_empty(*args, **kwargs)
            kwargs = {}
        schema = self._schemas.get(id(func)) or self.schema(func)
        if schema.composite and id(func) not in _SPECIAL:
            # within an op (DTensor's handlers) no function mode has named the device
            args, kwargs = inward(args), inward_named(kwargs)
            with self:
                return func.decompose(*args, **kwargs)
        handler = self.handlers.get(schema.namespace)
        if handler is not None:
            return handler(self, func, args, kwargs)
        if schema.query:
            if func in _WHOLE and any(type(one) is FakeTensor for one in args):
                return _alike(self, func, *args, **kwargs)
            return self.fakes.dispatch(func, types, args, kwargs)
        tensors = given_tensors(args, kwargs)
        inputs = [tensor for tensor in tensors if is_on_device(tensor)]
        on_device = bool(inputs)
        pins = kwargs.get("pin_memory")
        if pins:  # which asks for an accelerator's memory of the host
            kwargs = {**kwargs, "pin_memory": False}
        device = kwargs.get("device")
        if device is not None and device.type in ("cuda", DEVICE):
            kwargs = {**kwargs, "device": torch.device(DEVICE, 0)}
            on_device = True
        self.recording.dispatches += 1
        if not on_device:
            if func is aten._local_scalar_dense.default and type(args[0]) is FakeTensor:
                return placeholders.scalar(self.recording, args[0])
            faked = any(type(tensor) is FakeTensor for tensor in tensors) or schema.makes_large(args)
            made = self._on_fakes(func, types, args, kwargs) if faked else func(*args, **kwargs)
            if pins:
                self.recording.pinned.add(made)
            return made
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        special = _SPECIAL.get(id(func))
        if special is not None:
            return special(self, func, args, kwargs)
        if id(func) in _INDEXED and is_on_device(args[0]):
            args = (args[0], self._sent(args[1], args[0]), *args[2:])
            result = self._on_fakes(func, types, args, kwargs)
        else:
            result = self._on_fakes(func, types, args, kwargs, tensors)
        if not schema.view:
            self._note(schema, args, kwargs, inputs, result)
        if placeholders.awaits_its_size(func, kwargs):
            self.recording.sync()
        return result

    def note(self, schema: Schema, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], result: Any) -> None:
        """Take up the memory that an op made, and its kernel."""
        if not schema.view:
            self._note(schema, args, kwargs, [tensor for tensor in tensors if is_on_device(tensor)], result)

    def _note(self, schema: Schema, args: Any, kwargs: Any, inputs: list[torch.Tensor], result: Any) -> None:
        given = (result,) if type(result) is FakeTensor else leaves(result)
        outputs = [tensor for tensor in given if is_on_device(tensor)]
        recording = self.recording
        phase = recording.phase(inputs)
        for tensor in outputs:
            recording.storages.add(tensor, phase)
        if recording.drops:
            recording.drop()
        elif schema.launches and any(tensor.numel() for tensor in outputs or inputs):
            recording.record("kernel", schema.name, inputs, outputs, schema.arguments(args, kwargs))

    def _beside(self, places: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Indices on the device: those that a program left on the host are copied there."""
        with self.fakes:
            return [
                one
                if one is None or is_on_device(one) or one.dtype is torch.bool
                else torch.empty(one.shape, dtype=one.dtype, device=torch.device(DEVICE, 0))
                for one in places
            ]

    def on_fakes(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an op on shapes alone, unrecorded."""
        return self._on_fakes(func, (FakeTensor,), args, kwargs)

    def _on_fakes(
        self, func: Any, types: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor] | None = None
    ) -> Any:
        if tensors is None:
            tensors = given_tensors(args, kwargs)
        for tensor in tensors:
            if type(tensor) is FakeTensor and tensor.constant is not None:
                tensor.constant = None  # else the op runs for real, on a device that is not there
        made = placeholders.of_data(self, func, args, kwargs)
        if made is not NotImplemented:
            return made
        given = args
        if func is aten.index.Tensor:
            args = (args[0], self._counted(args[1]))
        try:
            found = self._remembered.dispatch(func, types, args, kwargs)
        except (UnsupportedOperatorException, DynamicOutputShapeException) as error:
            if isinstance(error, DynamicOutputShapeException) and func not in zeros.SIZED_BY_THE_HOST:
                raise
            found = zeros.shaped(self.fakes, func, args, kwargs)
        if found is not None:
            results: list[torch.Tensor] = [found] if type(found) is FakeTensor else list(leaves(found))
            values.carry(func, given, kwargs, tensors, results)
            varying.carry(self.recording, func, args, tensors, results)
        density = getattr(args[0], "density", None) if args and type(args[0]) is FakeTensor else None
        if density is not None and type(found) is FakeTensor and id(func) in _KEEPS_DENSITY:
            found.density = density  # type: ignore[attr-defined]
        return found

    def _sent(self, indices: Any, to: torch.Tensor) -> Any:
        """Indices of the host are sent to the device, as CUDA's index and index_put do."""
        if all(one is None or is_on_device(one) for one in indices):
            return indices
        with self:
            return [one if one is None or is_on_device(one) else one.to(to.fake_device) for one in indices]  # type: ignore[attr-defined]

    def _counted(self, indices: Any) -> Any:
        """Indices in which a mask has become the places where it holds."""
        if not any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in indices):
            return indices
        found: list[Any] = []
        for one in indices:
            if one is None or one.dtype not in (torch.bool, torch.uint8):
                found.append(one)
                continue
            places = placeholders.of_data(self, aten.nonzero.default, (one,), {})
            self.recording.record("kernel", "aten::nonzero", (one,), (places,))
            self.recording.sync()
            with self.fakes:
                along = list(places.unbind(1))
            for place in along:
                varying.mark(place, varying.of([places]))
            found += along
        return found


_IN_PLACE_BACKWARD = {
    id(aten.index_put.default): aten._index_put_impl_.default,
    id(aten.scatter.src): aten.scatter_.src,
    id(aten.scatter.value): aten.scatter_.value,
    id(aten.scatter_add.default): aten.scatter_add_.default,
    id(aten.index_add.default): aten.index_add_.default,
}
"""What gradients write in place to zeros of their own, unless a tensor is of a subclass, as fakes are."""

_INDEXED = set(map(id, (
    aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default,
)))  # fmt: skip

_KEEPS_DENSITY = set(map(id, (
    aten.permute.default, aten.view.default, aten.select.int, aten.index.Tensor, aten._to_copy.default,
    aten.squeeze.dim, aten.unsqueeze.default, aten.transpose.int, aten.alias.default, aten.detach.default,
    aten.clone.default, aten._unsafe_view.default, aten.slice.Tensor, aten.ne.Scalar, aten.eq.Scalar, aten.gt.Scalar,
    aten.index_select.default, aten.squeeze.default, aten.expand.default,
)))  # fmt: skip
"""As dense as what they are made from."""


_WHOLE = {aten.equal.default: aten.eq.Tensor, aten.allclose.default: aten.isclose.default}
"""Of two tensors as a whole: what CUDA asks of each element (Equal.cpp, TensorCompare.cpp of torch 2.13)."""


def _alike(recorder: Recorder, func: Any, first: torch.Tensor, second: torch.Tensor, *how: Any, **named: Any) -> bool:
    """Whether two tensors are equal or close: of what nobody knows the answer is that of ``all``, yes."""
    if func is aten.equal.default:
        if first.shape != second.shape:
            return False
        same = first.untyped_storage()._cdata == second.untyped_storage()._cdata
        if same and first.stride() == second.stride() and first.storage_offset() == second.storage_offset():
            return True
    with recorder:
        each = _WHOLE[func](first, second, *how, **named)
        return bool(placeholders.tell(each.all(), True).item())


def _attention(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given: dict[str, Any] = {
        "attn_mask": None,
        "dropout_p": 0.0,
        "is_causal": False,
        "scale": None,
        "enable_gqa": False,
    }
    given |= {**dict(zip(names, args, strict=False)), **kwargs}
    with recorder:
        return attend(
            given["query"], given["key"], given["value"], given["attn_mask"], given["dropout_p"], given["is_causal"],
            given["scale"], given["enable_gqa"], recorder.capability,
        )  # fmt: skip


def _unscale(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """The scaler looks for infinities, and finds none: it would skip the optimizer's step."""
    tensors = list(leaves((args, kwargs)))
    recorder.note(recorder.schema(func), func, args, kwargs, tensors, args[0])
    placeholders.tell(args[1], 0.0)
    return None


_SPECIAL: dict[int, Handler] = {
    id(aten._grouped_mm.default): grouped.products,
    id(aten._cudnn_rnn.default): recurrent.forward,
    id(aten._cudnn_rnn_backward.default): recurrent.backward,
    id(aten._amp_foreach_non_finite_check_and_unscale_.default): _unscale,
    id(aten._local_scalar_dense.default): transfers.item,
    id(aten._to_copy.default): transfers.to_copy,
    id(aten.copy_.default): transfers.copy,
    id(aten.scaled_dot_product_attention.default): _attention,
}
