"""Probes of what a runtime adds on the host: FSDP2 and DTensor around small modules, and launching collectives.

Of one process, the exchanges go to a group of two ranks that sends nothing (torch's fake backend), so it measures all
that Python does for them; launching a collective of NCCL is probed apart, in a group of this process alone. Of several,
small transformers really exchange, so that launching and waiting for the later rank are in what they take; their rows
say among how many ``ranks``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.by_name import TINY_MODEL
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import Transformer
from runners.model.transformer import build as transformer
from runners.probes.host import VISITS
from runners.probes.probe import Probe, counted_dispatches
from runners.row_status import Unsupported

WIDTH = 64
RANKS = 2
COLLECTIVE_CALLS = 100
LAYERS, SMALL_LAYERS = 16, 2
MODEL_LAYERS = (2, 10)
TENSORS = (2, 8)
"""Linear layers of a block: two numbers of them tell what a block costs from what each of its tensors does."""

DIRECTIONS = ("forward", "forward-backward", "optimizer")
ONE_BY_ONE = "optimizer for-loop"
"""AdamW tensor by tensor, which is probed plain and of DTensors."""
Made = Callable[[], object]


def runtimes(cuda: bool, small: bool) -> Iterator[Probe]:
    """Blocks of a few linear layers, plain and under each runtime: forward, both passes, AdamW's step.

    That goes over all tensors at once, and plain or of DTensors one by one as well. Several ranks run models alone.
    """
    layers, visits = (SMALL_LAYERS, 1) if small else (LAYERS, VISITS)
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    for tensors in () if ranks > 1 else TENSORS[:1] if small else TENSORS:
        for name in _RUNTIMES:
            for direction in DIRECTIONS if name.startswith("fsdp") else (*DIRECTIONS, ONE_BY_ONE):
                columns = {"op": name, "direction": direction, "layers": layers, "tensors": layers * tensors}
                build = _blocks(name, direction, layers, tensors)
                yield Probe(ladder="runtime", columns=columns, build=build, count=counted_dispatches, visits=visits)
    for name in _MODELS:
        for count in MODEL_LAYERS[:1] if small else MODEL_LAYERS:
            for direction in ("forward", "forward-backward", "step"):
                meets = ranks > 1 and name != "plain"
                columns = {"op": f"model {name}", "direction": direction, "layers": count}
                yield Probe(
                    ladder="runtime",
                    columns=columns | ({"ranks": ranks} if meets else {}),
                    build=_model(name, direction, count),
                    precision="bf16-amp",
                    count=counted_dispatches,
                    visits=visits,
                    meets=meets,
                )
    for name in () if ranks > 1 else ("all-reduce", "all-gather", "reduce-scatter"):
        columns = {"op": f"launch {name}", "kernels": COLLECTIVE_CALLS}
        yield Probe(ladder="runtime", columns=columns, build=_collective(name))


class _Block(nn.Module):
    def __init__(self, tensors: int, device: str) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False, device=device) for _ in range(tensors))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


def _plain(module: nn.Sequential, device: str) -> nn.Module:
    del device
    return module


def _fsdp(reshard: bool) -> Callable[[nn.Sequential, str], nn.Module]:
    def wrap(module: nn.Sequential, device: str) -> nn.Module:
        from torch.distributed.fsdp import fully_shard

        mesh = _mesh(device)
        for part in (*module, module):
            fully_shard(part, mesh=mesh, reshard_after_forward=reshard)
        return module

    return wrap


def _dtensor(module: nn.Sequential, device: str) -> nn.Module:
    """Columns, then rows, in turns."""
    from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

    mesh = _mesh(device)
    for block in module:
        styles: dict[str, ParallelStyle] = {
            name: RowwiseParallel() if index % 2 else ColwiseParallel()
            for index, (name, part) in enumerate(block.named_modules())
            if isinstance(part, nn.Linear)
        }
        parallelize_module(block, mesh, styles)
    return module


_RUNTIMES: dict[str, Callable[[nn.Sequential, str], nn.Module]] = {
    "plain": _plain,
    "fsdp": _fsdp(True),
    "fsdp no-reshard": _fsdp(False),
    "dtensor": _dtensor,
}


def _blocks(name: str, direction: str, layers: int, tensors: int) -> Callable[[str], Made]:
    def build(device: str) -> Made:
        with _group(name != "plain", device) as group:
            blocks = nn.Sequential(*(_Block(tensors, device) for _ in range(layers)))
            module = _RUNTIMES[name](blocks, device)
            x = torch.randn(16, WIDTH, device=device)

            def forward() -> object:
                return module(x)

            def both() -> object:
                module(x).sum().backward()
                module.zero_grad(set_to_none=True)
                return None

            if direction not in ("optimizer", ONE_BY_ONE):
                return group.kept(forward if direction == "forward" else both)
            module(x).sum().backward()
            at_once = direction != ONE_BY_ONE
            return group.kept(torch.optim.AdamW(module.parameters(), lr=1e-9, foreach=at_once).step)

    return build


def _fully_sharded(reshard: bool) -> Callable[[Transformer, Any], None]:
    """Blocks and the rest, which gather and compute in 2 bytes and reduce in 4."""

    def wrap(module: Transformer, mesh: Any) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for part in (*module.blocks.values(), module):
            fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)

    return wrap


def _split(sequence_parallel: bool) -> Callable[[Transformer, Any], None]:
    def wrap(module: Transformer, mesh: Any) -> None:
        from runners.parallel.tensor import split

        split(module, mesh, sequence_parallel=sequence_parallel, split_vocabulary=False)

    return wrap


_MODELS: dict[str, Callable[[Transformer, Any], None] | None] = {
    "plain": None,
    "fsdp": _fully_sharded(True),
    "fsdp no-reshard": _fully_sharded(False),
    "dtensor": _split(False),
    "dtensor sequence": _split(True),
}


def _model(name: str, direction: str, layers: int) -> Callable[[str], Made]:
    """A small transformer under a runtime; its whole step has what one pass alone in a loop has in the caches."""

    def build(device: str) -> Made:
        from runners.parallel.tensor import ByLayout

        wrap = _MODELS[name]
        with _group(wrap is not None, device) as group:
            # FSDP computes in 2 bytes by itself, without autocast.
            precision = "fp32" if name.startswith("fsdp") else "bf16-amp"
            training = Training(seq_len=16, global_batch=1, precision=precision)
            model = replace(TINY_MODEL, layers=layers)
            module = transformer(model, training, Plan(), device)
            if wrap is not None:
                wrap(module, _mesh(device))
            optimizer = torch.optim.AdamW(ByLayout(module).parameters(), lr=1e-9, foreach=True)
            tokens, targets = batch(model, training, Plan(), device)

            def call() -> None:
                with autocast(training, device):
                    loss = loss_of(module, tokens, targets)
                if direction != "forward":
                    torch.autograd.backward(loss)
                if direction == "step":
                    optimizer.step()
                module.zero_grad(set_to_none=True)

            return group.kept(call)

    return build


def _collective(name: str) -> Callable[[str], Made]:
    def build(device: str) -> Made:
        if not device.startswith("cuda"):
            raise Unsupported("launching NCCL's collectives needs a GPU")
        with _group(True, device, backend="nccl") as group:
            x, y = torch.ones(WIDTH, device=device), torch.ones(WIDTH, device=device)
            calls: dict[str, Callable[[], Any]] = {
                "all-reduce": lambda: dist.all_reduce(x, async_op=True),
                "all-gather": lambda: dist.all_gather_into_tensor(x, y, async_op=True),
                "reduce-scatter": lambda: dist.reduce_scatter_tensor(x, y, async_op=True),
            }
            call = calls[name]

            def several() -> None:
                for _ in range(COLLECTIVE_CALLS):
                    call().wait()

            return group.kept(several)

    return build


class _Call:
    """A call whose process group goes when it does."""

    def __init__(self, call: Made, grouped: bool) -> None:
        self.call, self.grouped = call, grouped

    def __call__(self) -> object:
        return self.call()

    def close(self) -> None:
        """Leave the group."""
        if self.grouped and dist.is_initialized():
            dist.destroy_process_group()


class _group(AbstractContextManager["_group"]):  # noqa: N801
    """A process group for one probe: of two ranks that exchanges nothing, or NCCL's of this process alone.

    Where this process is one of several, theirs, which stays.
    """

    def __init__(self, wanted: bool, device: str, backend: str = "fake") -> None:
        self.wanted, self.device, self.backend, self.left = wanted and not dist.is_initialized(), device, backend, False

    def __enter__(self) -> _group:
        if not self.wanted:
            return self
        if self.backend == "nccl":
            store: Any = torch._C._distributed_c10d.HashStore()
            dist.init_process_group("nccl", store=store, rank=0, world_size=1)
            return self
        from torch.testing._internal.distributed import fake_pg

        store = fake_pg.FakeStore
        warnings.filterwarnings("ignore", module=r"torch\.(distributed|testing|nn)")
        dist.init_process_group("fake", store=store(), rank=0, world_size=RANKS)
        return self

    def kept(self, call: Made) -> _Call:
        """The call, with the group until it is closed."""
        self.left = True
        return _Call(call, self.wanted)

    def __exit__(self, *about: object) -> None:
        if self.wanted and not self.left and dist.is_initialized():
            dist.destroy_process_group()


def _mesh(device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(torch.device(device).type, (dist.get_world_size(),))
