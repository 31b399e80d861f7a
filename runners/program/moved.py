"""A tensor that becomes another in place: as modules move their parameters, and as a program writes to ``.data``."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_KEPT = frozenset(("_is_param",))


def become(parameter: Any, moved: Any) -> None:
    """Give a parameter another device or type in place, as ``.data =`` does on a GPU."""
    if moved is parameter or type(moved) is not FakeTensor:
        return
    if moved.untyped_storage()._cdata == parameter.untyped_storage()._cdata:
        return
    made = moved.detach().requires_grad_(parameter.requires_grad)
    own = {name: value for name, value in parameter.__dict__.items() if name not in made.__dict__ or name in _KEPT}
    fresh = {**own, **made.__dict__, **{name: own[name] for name in _KEPT if name in own}}
    torch._C._swap_tensor_impl(parameter, made)
    parameter.__dict__.clear()
    parameter.__dict__.update(fresh)


def set_data(tensor: Any, value: Any) -> bool:
    """Set ``.data`` to a tensor of another device; False where torch does it itself, as between fakes of one device."""
    if type(value) is not FakeTensor:
        return False
    if type(tensor) is torch.Tensor:  # a buffer of the host's, which was real
        tensor.__class__ = FakeTensor
    elif type(tensor) is not FakeTensor or tensor.fake_device == value.fake_device:
        return False
    become(tensor, value)
    return True
