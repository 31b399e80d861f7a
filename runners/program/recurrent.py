"""LSTM, GRU and plain recurrent layers as one call of cuDNN; torch takes them apart for a device it does not know.

Source: aten/src/ATen/native/RNN.cpp and native/cudnn/RNN.cpp of torch 2.13, where cuDNN is acceptable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from runners.program.recorder import Recorder

aten = torch.ops.aten

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""cuDNN's numbers of them (cudnnRNNMode_t)."""
_KEPT = {0: 2, 1: 2, 2: 6, 3: 5}
"""Values that each step keeps of a hidden unit for backward: its gates, its state and, of a GRU, the new one's part."""


def install(device: str, casts: Callable[[torch.Tensor, torch.dtype], torch.Tensor]) -> Any:
    """Make the layers one op each on the fake device; that lives as long as what is returned."""
    make: Any = torch.library.Library
    library = make("aten", "IMPL")
    for kind, mode in _MODES.items():
        for overload, run in (("input", _whole), ("data", _packed)):
            op = getattr(getattr(aten, kind), overload)
            library.impl(op, functools.partial(run, mode, device, casts), "AutogradPrivateUse1")
    cudnn: Any = torch.backends.cudnn
    cudnn.is_acceptable = lambda tensor: False  # weights need not be laid together here, and are on a GPU
    return library


def _whole(
    mode: int, device: str, casts: Any, data: torch.Tensor, state: Any, weights: Sequence[torch.Tensor], biased: bool,
    layers: int, dropout: float, train: bool, both_ways: bool, batch_first: bool,
) -> Any:  # fmt: skip
    return _run(mode, device, casts, data, state, weights, biased, layers, dropout, train, both_ways, batch_first, [])


def _packed(
    mode: int, device: str, casts: Any, data: torch.Tensor, sizes: torch.Tensor, state: Any,
    weights: Sequence[torch.Tensor], biased: bool, layers: int, dropout: float, train: bool, both_ways: bool,
) -> Any:  # fmt: skip
    parts = sizes.tolist()
    return _run(mode, device, casts, data, state, weights, biased, layers, dropout, train, both_ways, False, parts)


def _run(
    mode: int, device: str, casts: Any, data: torch.Tensor, state: Any, weights: Sequence[torch.Tensor], biased: bool,
    layers: int, dropout: float, train: bool, both_ways: bool, batch_first: bool, parts: list[int],
) -> Any:  # fmt: skip
    hidden, cell = state if isinstance(state, (list, tuple)) else (state, None)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        data, hidden = data.to(dtype), hidden.to(dtype)
        cell = None if cell is None else cell.to(dtype)
        weights = [casts(one, dtype) for one in weights]
    width = (hidden if cell is None else cell).shape[2]
    projected = hidden.shape[2] if hidden.shape[2] != width else 0
    each = (4 if biased else 2) + (1 if projected else 0)
    result, last, last_cell, *_ = aten._cudnn_rnn.default(
        data, list(weights), each, data.new_empty(0), hidden, cell, mode, width, projected, layers, batch_first,
        dropout, train, both_ways, parts, None,
    )  # fmt: skip
    return (result, last) if cell is None else (result, last, last_cell)


def forward(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """The op, with what it keeps for backward: gates and states of every step, whose size torch asks cuDNN for."""
    output, last, cell, kept, weights = recorder.on_fakes(func, args, kwargs)
    mode, width, layers, train = args[6], args[7], args[9], args[12]
    if train:
        rows = output.numel() // output.shape[-1]
        ways = 2 if args[13] else 1
        count = rows * width * layers * ways * _KEPT[mode] * output.element_size()
        with recorder.fakes:
            kept = torch.empty(count, dtype=torch.uint8, device=output.fake_device)
    result = output, last, cell, kept, weights
    _note(recorder, func, args, kwargs, result)
    return result


def backward(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients of what the op was given, as it was given."""
    data, weights, hidden, cell = args[0], args[1], args[4], args[5]
    with recorder.fakes:
        found = tuple(None if one is None else torch.empty_like(one) for one in (data, hidden, cell))
        own = [torch.empty_like(one) for one in weights]
    result = (*found, own)
    _note(recorder, func, args, kwargs, result)
    return result


def _note(recorder: Recorder, func: Any, args: Any, kwargs: Any, result: Any) -> None:
    tensors = [one for value in args for one in (value if isinstance(value, (list, tuple)) else (value,))]
    given = [one for one in tensors if isinstance(one, torch.Tensor)]
    recorder.note(recorder.schema(func), func, args, kwargs, given, result)
