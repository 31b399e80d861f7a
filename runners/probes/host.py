"""Probes about the host and the optimizer: what launching costs, and how fast AdamW moves its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, islice, repeat

import torch
from torch import Tensor, nn

from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.by_name import TINY_MODEL
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import build
from runners.probes.probe import Probe, counted_dispatches
from runners.refusals import has_compiler
from runners.row_status import Unsupported

ADAMW_PASSES = 7.0
"""AdamW reads parameter, gradient and two moments, and writes all but the gradient."""

OPTIMIZERS = ("foreach", "fused", "for-loop")
PARAMETERS = (2**20, 2**24, 2**28)
SMALL_PARAMETERS = (2**12,)
TENSOR_ELEMENTS = 2**20
FEW = 16
LAUNCHES = 100
MOST_ROWS, WIDTH, APART = 4096, 512, 16
VISITS = 3
"""Times at which small models and optimizers of small tensors are timed."""
LAYERS = (2, 10)
"""Numbers of blocks of a small model, whose difference is what blocks cost without what surrounds them."""
CHAIN = (4, 24)
"""Products, each followed by an element-wise kernel, of a compiled function."""
TENSORS = (64, 512)
"""Tensors of a few numbers that an optimizer walks over."""


def launches(cuda: bool, small: bool) -> Iterator[Probe]:
    """Seconds of a hundred kernels (or of a whole small model) too small to keep a device busy."""
    for name in _LAUNCHES:
        yield Probe(ladder="launch", columns={"op": name, "kernels": LAUNCHES}, build=_LAUNCHES[name])
    for name in ("model forward", "model forward and backward"):
        for precision in ("fp32", "bf16", "bf16-amp"):
            for layers in LAYERS[:1] if small else (TINY_MODEL.layers, *LAYERS) if precision == "fp32" else LAYERS:
                yield Probe(
                    ladder="launch",
                    columns={"op": name, "layers": layers},
                    build=_model(name.endswith("backward"), layers, precision),
                    precision=precision,
                    count=counted_dispatches,
                    visits=1 if small else VISITS,
                )
    for name in ("compiled chain forward", "compiled chain forward and backward"):
        for length in () if small else CHAIN:
            columns = {"op": name, "products": length}
            work = _chain(name.endswith("backward"), length)
            yield Probe(ladder="launch", columns=columns, build=work, visits=VISITS)
    for kernel in OPTIMIZERS:
        for tensors in TENSORS[:1] if small else TENSORS:
            yield Probe(
                ladder="launch",
                columns={"op": f"adamw {kernel}", "tensors": tensors},
                build=_optimizer(tensors * FEW, kernel, torch.float32, FEW),
                count=counted_dispatches,
                visits=1 if small else VISITS,
            )
    del cuda


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


def _recorded_ops(device: str) -> Callable[[], object]:
    """Ops that autograd records, without their backward."""
    x = torch.randn(64, device=device, requires_grad=True)

    def call() -> Tensor:
        y: Tensor = x
        for _ in range(LAUNCHES):
            y = y * 1.0
        return y

    return call


def _views(device: str) -> Callable[[], object]:
    """Views that autograd records: no kernel. One that is launched marks when they are done."""
    x = torch.randn(8, 8, device=device, requires_grad=True)

    def call() -> Tensor:
        y: Tensor = x
        for _ in range(LAUNCHES):
            y = y.transpose(0, 1)
        return y.detach().mul_(1.0)

    return call


def _modules(device: str) -> Callable[[], object]:
    """Calls of a module that does nothing."""
    module, x = nn.Identity(), torch.randn(64, device=device)

    def call() -> Tensor:
        y: Tensor = x
        for _ in range(LAUNCHES):
            y = module(y)
        return y.mul_(1.0)

    return call


def _reads(device: str) -> Callable[[], object]:
    """A kernel whose result the host waits for, each time."""
    x = torch.ones(64, device=device)

    def call() -> None:
        for _ in range(LAUNCHES):
            x[:1].item()

    return call


def _products(new: bool) -> Callable[[str], Callable[[], object]]:
    """Linears' products, forward and for weights, all of one number of rows or each of one that was never multiplied.

    Kernels are loaded before, with every sixteenth number: that costs as much again, but only once.
    """

    def make(device: str) -> Callable[[], object]:
        if not device.startswith("cuda"):
            raise Unsupported("a CPU's library of products looks for no kernels")
        rows, weight = (torch.randn(many, WIDTH, device=device, dtype=torch.bfloat16) for many in (MOST_ROWS, WIDTH))
        others = (size for size in cycle(range(2, MOST_ROWS)) if size % APART)
        sizes = others if new else repeat(MOST_ROWS // 2)

        def multiply(size: int) -> None:
            some = rows[:size]
            torch.mm(some, weight)
            torch.mm(some.t(), some)

        for size in range(APART, MOST_ROWS, APART) if new else ():
            multiply(size)

        def call() -> None:
            for size in islice(sizes, LAUNCHES // 2):
                multiply(size)

        return call

    return make


def _chain(backward: bool, length: int) -> Callable[[str], Callable[[], object]]:
    """A compiled function of products that no fusion joins: guards once, then the launch of each kernel."""

    def make(device: str) -> Callable[[], object]:
        if not device.startswith("cuda") and not has_compiler():
            raise Unsupported("torch.compile needs a C++ compiler on a CPU")
        x = torch.randn(32, 64, device=device, requires_grad=True)
        weights = [torch.randn(64, 64, device=device, requires_grad=True) for _ in range(length)]

        def chained(y: Tensor, weights: list[Tensor]) -> Tensor:
            for weight in weights:
                y = torch.tanh(y @ weight)
            return y

        torch.compiler.reset()
        function = torch.compile(chained)

        def call() -> object:
            y = function(x, weights)
            return torch.autograd.grad(y.sum(), [x, *weights]) if backward else y

        return call

    return make


def _model(backward: bool, layers: int, precision: str) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        training = Training(seq_len=16, global_batch=1, precision=precision)
        model = replace(TINY_MODEL, layers=layers)
        module = build(model, training, Plan(), device)
        tokens, targets = batch(model, training, Plan(), device)

        def call() -> None:
            with autocast(training, device):
                loss = loss_of(module, tokens, targets)
            if backward:
                torch.autograd.backward(loss)
                module.zero_grad(set_to_none=True)

        return call

    return make


_LAUNCHES: dict[str, Callable[[str], Callable[[], object]]] = {
    "op": _ops,
    "op with autograd": _ops_with_autograd,
    "recorded op": _recorded_ops,
    "view": _views,
    "module call": _modules,
    "read": _reads,
    "compiled op": _compiled,
    "graph of ops": _graph,
    "product": _products(new=False),
    "product of a new size": _products(new=True),
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


def _optimizer(
    count: int, kernel: str, dtype: torch.dtype, largest: int = TENSOR_ELEMENTS
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        each = min(count, largest)
        parameters = [nn.Parameter(torch.randn(each, device=device, dtype=dtype)) for _ in range(count // each)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        chosen = {name: name == kernel for name in ("foreach", "fused")}
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, **chosen)  # type: ignore[arg-type]
        return optimizer.step

    return make
