"""Recurrent layers as cuDNN runs them: products of all steps together, and of each step by itself.

cuDNN's standard algorithm, which torch chooses but for halves on Volta and larger chips under few conditions
(aten/src/ATen/native/cudnn/RNN.cpp, get_algo): the inputs of all steps are multiplied at once, then every step
multiplies its state and runs one kernel of its gates; backward the same in reverse, with the gradients of weights of
all steps at once. Appleyard et al. (2016), Optimizing Performance of Recurrent Neural Networks on GPUs, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from estimator.operations.aten.operands import kernel, width
from estimator.operations.aten.products import name, precision
from estimator.operations.op import Op, gemm
from estimator.scenario.op_list import Signature

GATES = {0: 1, 1: 1, 2: 4, 3: 3}
"""Products of a step by cuDNN's mode: ReLU, tanh, LSTM, GRU."""


@dataclass(frozen=True, kw_only=True)
class _Layers:
    steps: int
    batch: float
    inputs: int
    hidden: int
    out: int
    gates: int
    layers: int
    directions: int

    def alike(self) -> Iterator[tuple[int, int]]:
        """Features that the first layer is given, and the others; and how many runs of a direction those are."""
        yield self.inputs, self.directions
        if self.layers > 1:
            yield self.out * self.directions, self.directions * (self.layers - 1)


def _layers(s: Signature) -> _Layers:
    said = s.arguments
    given = s.inputs[0].shape
    hidden = int(said.get("hidden_size", 0))
    if not hidden or "mode" not in said:
        raise ValueError("a recurrent layer without its sizes")
    parts = said.get("batch_sizes") or ()
    steps = len(parts) if parts else given[1] if said.get("batch_first") else given[0]
    rows = given[0] if parts else given[0] * given[1]
    return _Layers(
        steps=steps, batch=rows / max(steps, 1), inputs=given[-1], hidden=hidden,
        out=int(said.get("proj_size", 0)) or hidden, gates=GATES[int(said["mode"])],
        layers=int(said.get("num_layers", 1)), directions=2 if said.get("bidirectional") else 1,
    )  # fmt: skip


def forward(s: Signature) -> list[Op]:
    """Each layer and direction: X·Wᵀ of all steps; of every step h·Uᵀ and the gates."""
    one = _layers(s)
    e = width(s.inputs[0])
    found: list[Op] = []
    for width_in, runs in one.alike():
        found += [
            _product(s, m=one.steps * one.batch, n=one.gates * one.hidden, k=width_in, count=runs),
            _product(s, m=one.batch, n=one.gates * one.hidden, k=one.out, count=runs * one.steps),
            _gates(s, one, e, runs),
        ]
        if one.out != one.hidden:
            found.append(_product(s, m=one.batch, n=one.out, k=one.hidden, count=runs * one.steps))
    return found


def backward(s: Signature) -> list[Op]:
    """Each layer and direction: of every step the gates' gradients times U; then those of inputs, weights, biases."""
    one = _layers(s)
    e = width(s.inputs[0])
    rows, columns = one.steps * one.batch, one.gates * one.hidden
    found: list[Op] = []
    for width_in, runs in one.alike():
        found += [
            _gates(s, one, e, runs),
            _product(s, m=one.batch, n=one.out, k=columns, count=runs * one.steps),
            _product(s, m=rows, n=width_in, k=columns, count=runs),
            _product(s, m=columns, n=width_in, k=rows, count=runs, outer=True),
            _product(s, m=columns, n=one.out, k=rows, count=runs, outer=True),
            _counted(kernel(name(s), stream=rows * columns * e, column=rows * columns * e), runs),
        ]
        if one.out != one.hidden:
            found += [
                _product(s, m=one.batch, n=one.hidden, k=one.out, count=runs * one.steps),
                _product(s, m=one.out, n=one.hidden, k=rows, count=runs, outer=True),
            ]
    return found


def _product(s: Signature, *, m: float, n: float, k: float, count: float, outer: bool = False) -> Op:
    e = width(s.inputs[0])
    return gemm(
        name(s), "", "forward", m=m, n=n, k=k, element_bytes=e, precision=precision(s.inputs[0], s), count=count,
        outer=outer,
    )  # fmt: skip


def _gates(s: Signature, one: _Layers, element_bytes: float, runs: int) -> Op:
    """Both halves of the gates and the state are read, the gates are kept for backward, the state is written."""
    moved = one.batch * one.hidden * (3 * one.gates + 4) * element_bytes
    return _counted(kernel(name(s), stream=moved), runs * one.steps)


def _counted(op: Op, count: float) -> Op:
    op.count = count
    return op
