"""Probes about the host and the optimizer: what launching costs, and how fast AdamW moves its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.by_name import TINY_MODEL
from runners.model.training import batch, loss_of
from runners.model.transformer import build
from runners.probes.probe import Probe
from runners.refusals import has_compiler
from runners.row_status import Unsupported

ADAMW_PASSES = 7.0
"""AdamW reads parameter, gradient and two moments, and writes all but the gradient."""

OPTIMIZERS = ("foreach", "fused", "for-loop")
PARAMETERS = (2**20, 2**24, 2**28)
SMALL_PARAMETERS = (2**12,)
TENSOR_ELEMENTS = 2**20
LAUNCHES = 100


def launches(cuda: bool, small: bool) -> Iterator[Probe]:
    """Seconds of a hundred kernels (or of a whole small model) too small to keep a device busy."""
    del cuda, small
    for name in ("op", "op with autograd", "compiled op", "graph of ops"):
        yield Probe(ladder="launch", columns={"op": name, "kernels": LAUNCHES}, build=_LAUNCHES[name])
    for name in ("model forward", "model forward and backward"):
        yield Probe(ladder="launch", columns={"op": name, "layers": TINY_MODEL.layers}, build=_LAUNCHES[name])


def _ops(device: str) -> Callable[[], object]:
    x = torch.randn(64, device=device)

    def call() -> None:
        for _ in range(LAUNCHES):
            x.mul_(1.0)

    return call


def _ops_with_autograd(device: str) -> Callable[[], object]:
    x = torch.randn(64, device=device, requires_grad=True)

    def call() -> Tensor:
        y: Tensor = x
        for _ in range(LAUNCHES):
            y = y * 1.0
        return torch.autograd.grad(y.sum(), x)[0]

    return call


def _compiled(device: str) -> Callable[[], object]:
    """A hundred calls of one compiled function: guards and the launch of one fused kernel each."""
    if not device.startswith("cuda") and not has_compiler():
        raise Unsupported("torch.compile needs a C++ compiler on a CPU")
    x = torch.randn(64, device=device)
    torch.compiler.reset()
    function = torch.compile(lambda y: y * 1.5 + 2.0)

    def call() -> None:
        for _ in range(LAUNCHES):
            function(x)

    return call


def _graph(device: str) -> Callable[[], object]:
    if not device.startswith("cuda"):
        raise Unsupported("CUDA graphs need a GPU")
    work = _ops(device)
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _model(backward: bool) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        training = Training(seq_len=16, global_batch=1, precision="fp32")
        module = build(TINY_MODEL, training, Plan(), device)
        tokens, targets = batch(TINY_MODEL, training, Plan(), device)

        def call() -> None:
            loss = loss_of(module, tokens, targets)
            if backward:
                torch.autograd.backward(loss)
                module.zero_grad(set_to_none=True)

        return call

    return make


_LAUNCHES: dict[str, Callable[[str], Callable[[], object]]] = {
    "op": _ops,
    "op with autograd": _ops_with_autograd,
    "compiled op": _compiled,
    "graph of ops": _graph,
    "model forward": _model(False),
    "model forward and backward": _model(True),
}


def optimizers(cuda: bool, small: bool) -> Iterator[Probe]:
    """AdamW's step over parameters in tensors of about a million numbers, by kernel and number of parameters."""
    for precision in ("fp32", "bf16"):
        for kernel in OPTIMIZERS:
            for count in SMALL_PARAMETERS if small else PARAMETERS if cuda else PARAMETERS[:2]:
                size = 4 if precision == "fp32" else 2
                yield Probe(
                    ladder="optimizer",
                    columns={"op": f"adamw {kernel}", "parameters": count},
                    build=_optimizer(count, kernel, torch.float32 if size == 4 else torch.bfloat16),
                    bytes=ADAMW_PASSES * size * count,
                    precision=precision,
                )


def _optimizer(count: int, kernel: str, dtype: torch.dtype) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        each = min(count, TENSOR_ELEMENTS)
        parameters = [nn.Parameter(torch.randn(each, device=device, dtype=dtype)) for _ in range(count // each)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        chosen = {name: name == kernel for name in ("foreach", "fused")}
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, **chosen)  # type: ignore[arg-type]
        return optimizer.step

    return make
