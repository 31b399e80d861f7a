"""What the program gets where it asks for values, which nothing has computed: stated placeholders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from runners.program import places, values, varying
from runners.program.places import Place

if TYPE_CHECKING:
    from runners.program.recorder import Recorder
    from runners.program.recording import Recording

FLOAT, WHOLE, TRUTH = 1.0, 1, False

SMALL = 1 << 20
"""Elements up to which a tensor that comes back to the host is a real one, filled with placeholders."""


def stated(read_at: Iterable[Place]) -> str:
    """Say what values the program got in place of those of the device, and at which lines it asked for them."""
    said = (
        f"values that the program reads from the device are placeholders: {FLOAT} for floats, {WHOLE} for whole "
        f"numbers, {TRUTH} for truths (True of `all`); what depends on them goes that way"
    )
    known = [place for place in read_at if place]
    more = f" and {len(known) - MOST_PLACES} more" if len(known) > MOST_PLACES else ""
    lines: dict[str, list[int]] = {}
    for file, line in known[:MOST_PLACES]:
        lines.setdefault(file, []).append(line)
    named = [
        f"{file}, {'lines' if len(some) > 1 else 'line'} {', '.join(map(str, some))}" for file, some in lines.items()
    ]
    return f"{said}; it reads them in {'; '.join(named)}{more}" if known else said


MOST_PLACES = 4
"""Lines of a program that are named."""


def value_for(dtype: torch.dtype) -> float | int | bool:
    """Return the placeholder of a type."""
    if dtype == torch.bool:
        return TRUTH
    return FLOAT if dtype.is_floating_point or dtype.is_complex else WHOLE


def scalar(recording: Recording, tensor: torch.Tensor) -> Any:
    """Return what ``.item()`` gives: what is known of the tensor, or a placeholder."""
    numbers, told = values.of(tensor), known(tensor)
    if numbers is not None and (told is None or not numbers.guessed):
        return _real(recording, numbers).item()
    recording.read_at(places.of_program())
    return value_for(tensor.dtype) if told is None else told


def _real(recording: Recording, numbers: values.Numbers) -> torch.Tensor:
    if numbers.guessed:
        recording.assume(values.BALANCED)
    return numbers.real


def on_host(recorder: Recorder, source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the copy of a device's tensor on the host."""
    numbers = values.of(source)
    if numbers is not None:
        if numbers.guessed:
            varying.read(recorder.recording, numbers.real)
        return _real(recorder.recording, numbers).to(dtype, copy=True)
    recorder.recording.read_at(places.of_program())
    if source.numel() <= SMALL:
        told = known(source)
        return torch.full(source.shape, value_for(dtype) if told is None else told, dtype=dtype, device="cpu")
    with recorder.fakes:
        return torch.empty(source.shape, dtype=dtype, device="cpu")


def filled(recording: Recording, tensor: torch.Tensor) -> torch.Tensor:
    """Return a real tensor in the place of a fake one on the host."""
    recording.read_at(places.of_program())
    with torch._C.DisableTorchFunction(), _disable_current_modes():  # a large one would be a shape again
        return torch.full(tensor.shape, value_for(tensor.dtype), dtype=tensor.dtype)


def of_data(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of an op whose shape depends on values; NotImplemented of all other ops.

    Where values are not known, a mask holds everywhere, unless it comes from one_hot, of which each class has an equal
    part; values are all different; what is repeated is repeated once.
    """
    rule = _RULES.get(id(func))
    if rule is None:
        return NotImplemented
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    found = values.computed(func, args, kwargs, tensors)
    if found is None:
        result = rule(recorder, args, kwargs)
        if _is_sized_by_data(func, kwargs):
            _varies(result)
        values.carry(func, args, kwargs, tensors, [result] if isinstance(result, torch.Tensor) else list(result))
        return result
    real, guessed = found
    if guessed and awaits_its_size(func, kwargs):
        recorder.recording.doubt(func._schema.name, values.BALANCED, _FIXED)

    def shape_of(numbers: torch.Tensor) -> torch.Tensor:
        shaped = _made(recorder, args[0], tuple(numbers.shape), numbers.dtype)
        values.give(shaped, numbers, guessed=guessed)
        if guessed and _is_sized_by_data(func, kwargs):
            _varies(shaped)
        return shaped

    return shape_of(real) if isinstance(real, torch.Tensor) else tuple(map(shape_of, real))


def awaits_its_size(func: Any, kwargs: Any) -> bool:
    """Whether the host waits for an op's kernels, to make room for their result."""
    return id(func) in _RULES and not kwargs.get("output_size")


def _is_sized_by_data(func: Any, kwargs: Any) -> bool:
    return awaits_its_size(func, kwargs) and func not in _SIZED_OTHERWISE


def _varies(result: Any) -> None:
    for one in (result,) if isinstance(result, torch.Tensor) else result:
        varying.mark(one, one.shape[:1])


def _hits(tensor: torch.Tensor) -> int:
    return max(round(tensor.numel() * getattr(tensor, "density", 1.0)), 1)


def _made(recorder: Recorder, like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    with recorder.fakes:
        return torch.empty(shape, dtype=dtype, device=like.device)


def _nonzero(recorder: Recorder, args: Any, kwargs: Any) -> torch.Tensor:
    mask = args[0]
    equal = getattr(mask, "density", 1.0) != 1.0
    taken = "taken to be as many as if all classes of one_hot came equally often" if equal else "taken to hold all over"
    recorder.recording.doubt("aten::nonzero", f"where a mask holds is not known: {taken}", _FIXED)
    return _made(recorder, mask, (_hits(mask), mask.dim()), torch.int64)


def _masked_select(recorder: Recorder, args: Any, kwargs: Any) -> torch.Tensor:
    found = _nonzero(recorder, (args[1],), {})
    return _made(recorder, args[0], (found.shape[0],), args[0].dtype)


def _unique(recorder: Recorder, args: Any, kwargs: Any) -> tuple[torch.Tensor, ...]:
    tensor = args[0]
    recorder.recording.doubt("aten::unique", "how many values differ is not known: taken to be all", _FIXED)
    count = tensor.numel()
    whole = _made(recorder, tensor, (count,), torch.int64)
    return _made(recorder, tensor, (count,), tensor.dtype), whole, _made(recorder, tensor, (count,), torch.int64)


def _repeat(recorder: Recorder, args: Any, kwargs: Any) -> torch.Tensor:
    if not kwargs.get("output_size"):
        message = "how often it repeats is not known: taken to be once"
        recorder.recording.doubt("aten::repeat_interleave", message, "Give it output_size.")
    return _made(recorder, args[0], (kwargs.get("output_size") or args[0].numel(),), torch.int64)


def _bincount(recorder: Recorder, args: Any, kwargs: Any) -> torch.Tensor:
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    message = "how large its values are is not known: taken to be below its minlength"
    recorder.recording.doubt("aten::bincount", message, "Give it minlength.")
    return _made(recorder, args[0], (max(least, 1),), torch.int64)


def _ctc_loss(recorder: Recorder, args: Any, kwargs: Any) -> tuple[torch.Tensor, ...]:
    """A loss of each sequence, and the logarithms of its paths: steps by twice its longest target and one."""
    chances, targets, lengths = args[0], args[1], args[3]
    batch = chances.shape[1]
    told = values.of(lengths)
    longest = targets.shape[-1] if targets.dim() > 1 else -(-targets.shape[0] // batch)
    if told is not None:
        longest = int(told.real.max())
    elif not isinstance(lengths, torch.Tensor):
        longest = max(lengths)
    paths = (batch, chances.shape[0], 2 * longest + 1)
    return _made(recorder, chances, (batch,), chances.dtype), _made(recorder, chances, paths, chances.dtype)


_FIXED = (
    "Use operations whose shape is fixed (torch.where of three arguments, padding), or import a profile, whose shapes"
    " are real."
)
_aten = torch.ops.aten
_RULES = {
    id(_aten.nonzero.default): _nonzero,
    id(_aten.masked_select.default): _masked_select,
    id(_aten._unique2.default): _unique,
    id(_aten.unique_consecutive.default): _unique,
    id(_aten.repeat_interleave.Tensor): _repeat,
    id(_aten.bincount.default): _bincount,
    id(_aten._ctc_loss.default): _ctc_loss,
    id(_aten._ctc_loss.Tensor): _ctc_loss,
}
"""By identity, as ops live as long as torch: to hash one is a call of Python, and each op asks several tables."""
_SIZED_OTHERWISE = {_aten.bincount.default, _aten._ctc_loss.default, _aten._ctc_loss.Tensor}
"""Whose size does not follow from data: that of bincount is its minlength."""


def tell(tensor: Any, value: Any, version: int | None = None) -> Any:
    """Attach to a fake tensor what is known of its value; with ``version``, until an op writes to it after that one."""
    if type(tensor) is FakeTensor:
        tensor.known_value = (value, version)  # type: ignore[attr-defined]
    return tensor


def known(tensor: torch.Tensor) -> Any:
    """Return what was told of a tensor's value, None where nothing was or it was written to since."""
    value, version = getattr(tensor, "known_value", (None, None))
    return value if version is None or version == tensor._version else None
