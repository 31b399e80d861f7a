"""What the program gets where it asks for values, which nothing has computed: stated placeholders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from runners.program.recorder import Recorder
    from runners.program.recording import Recording

FLOAT, WHOLE, TRUTH = 1.0, 1, False

STATED = (
    f"values that the program reads from the device are placeholders: {FLOAT} for floats, {WHOLE} for whole numbers, "
    f"{TRUTH} for truths (True of `all`); what depends on them goes that way"
)
SMALL = 1 << 20
"""Elements up to which a tensor that comes back to the host is a real one, filled with placeholders."""


def value_for(dtype: torch.dtype) -> float | int | bool:
    """Return the placeholder of a type."""
    if dtype == torch.bool:
        return TRUTH
    return FLOAT if dtype.is_floating_point or dtype.is_complex else WHOLE


def scalar(recording: Recording, tensor: torch.Tensor) -> Any:
    """Return what ``.item()`` gives; a tensor may carry its own in ``known_value``."""
    recording.assume(STATED)
    known = getattr(tensor, "known_value", None)
    return value_for(tensor.dtype) if known is None else known


def on_host(recorder: Recorder, source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the copy of a device's tensor on the host."""
    recorder.recording.assume(STATED)
    if source.numel() <= SMALL:
        known = getattr(source, "known_value", None)
        return torch.full(source.shape, value_for(dtype) if known is None else known, dtype=dtype, device="cpu")
    with recorder.fakes:
        return torch.empty(source.shape, dtype=dtype, device="cpu")


def filled(recording: Recording, tensor: torch.Tensor) -> torch.Tensor:
    """Return a real tensor in the place of a fake one on the host."""
    recording.assume(STATED)
    with torch._C.DisableTorchFunction():
        return torch.full(tensor.shape, value_for(tensor.dtype), dtype=tensor.dtype)


def of_data(recorder: Recorder, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
    """Return the result of an op whose shape depends on values; NotImplemented where nothing is known of it."""
    return NotImplemented


def tell(tensor: Any, value: Any) -> Any:
    """Attach to a fake tensor what is known of its value."""
    if type(tensor) is FakeTensor:
        tensor.known_value = value
    return tensor
