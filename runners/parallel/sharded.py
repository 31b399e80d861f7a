"""Data parallel training with sharded states: FSDP2, and an optimizer whose moments are shared out (ZeRO-1)."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from runners.model.training import AUTOCAST_DTYPES, optimizer_of
from runners.model.transformer import build
from runners.parallel.collectives import all_gather, reduce_scatter
from runners.parallel.variants import Spread, Variant, VariantSetting, held, step_of
from runners.ranks import Ranks
from runners.train_step import empty


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build the model, shard it or its optimizer; data differ from rank to rank."""
    return (_fsdp if variant.kind == "fsdp" else _zero1)(variant, setting, ranks)


def _fsdp(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """fully_shard for every block and for the rest (Zhao 2023, arXiv 2304.11277; FSDP2 of PyTorch).

    ``mixed`` gathers and computes in bf16 or fp16 and reduces in fp32 in place of autocast.
    """
    training = setting.training
    module = build(setting.model, training, setting.plan, ranks.device)
    mesh = init_device_mesh("cuda" if ranks.cuda else "cpu", (ranks.world_size,))
    policy = MixedPrecisionPolicy()
    if variant.mixed:
        dtype = AUTOCAST_DTYPES.get(training.precision, torch.bfloat16)
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    blocks = list(module.blocks.values())
    for part in (*blocks, module):
        fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=variant.reshard)
    if variant.mixed:
        setting = _without_autocast(setting)
    optimizer = optimizer_of(module, training)
    step, loss = step_of(module, optimizer, setting, ranks, seed=setting.seed + 1 + ranks.rank)
    return Spread(
        step=step,
        silent=False,
        global_batch=ranks.world_size * setting.plan.micro_batch,
        parameters=held(module),
        last_loss=loss,
        discard=partial(empty, module, optimizer),
    )


def _without_autocast(setting: VariantSetting) -> VariantSetting:
    from dataclasses import replace

    return replace(setting, training=replace(setting.training, precision="fp32"))


def _zero1(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Every rank averages its share of all gradients, steps its share of the parameters and sends them to all.

    Gradients, parameters and moments lie in one flat tensor each, of which rank r owns the r-th part
    (Rajbhandari 2020, arXiv 1910.02054, section 5.1: optimizer states partitioned).
    """
    del variant
    module = build(setting.model, setting.training, setting.plan, ranks.device)
    parameters = list(module.parameters())
    count = sum(p.numel() for p in parameters)
    padded = -(-count // ranks.world_size) * ranks.world_size
    flat = torch.zeros(padded, dtype=parameters[0].dtype, device=ranks.device)
    gradient = torch.zeros_like(flat)
    place = 0
    places = []
    for parameter in parameters:
        end = place + parameter.numel()
        flat[place:end] = parameter.detach().flatten()
        parameter.data = flat[place:end].view_as(parameter)
        places.append((place, end))
        place = end
    share = padded // ranks.world_size
    mine = slice(ranks.rank * share, (ranks.rank + 1) * share)
    owned = torch.nn.Parameter(flat[mine])
    owned.grad = torch.empty_like(owned)
    holder = torch.nn.Module()
    holder.owned = owned
    inner = optimizer_of(holder, setting.training)

    def finish() -> None:
        """Reduce-scatter; the all-gather of the new parameters belongs to the optimizer."""
        for parameter, (first, last) in zip(parameters, places, strict=True):
            if parameter.grad is not None:
                gradient[first:last] = parameter.grad.flatten()
        assert owned.grad is not None
        reduce_scatter(owned.grad, gradient, dist.ReduceOp.SUM)
        owned.grad.div_(ranks.world_size)

    optimizer = _Shared(inner, flat, owned, parameters)
    step, loss = step_of(module, optimizer, setting, ranks, seed=setting.seed + 1 + ranks.rank, finish=finish)
    return Spread(
        step=step,
        silent=False,
        global_batch=ranks.world_size * setting.plan.micro_batch,
        parameters=count,
        last_loss=loss,
        discard=partial(empty, module, inner),
    )


class _Shared(torch.optim.Optimizer):
    """Steps the owned share and gathers all shares; zero_grad clears the module's gradients."""

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        flat: torch.Tensor,
        owned: torch.nn.Parameter,
        parameters: list[torch.nn.Parameter],
    ) -> None:
        super().__init__(parameters, {})
        self.inner, self.flat, self.owned = inner, flat, owned

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step and gather; no closure."""
        assert closure is None
        self.inner.step()
        # gloo may not read and write the same memory
        all_gather(self.flat, self.owned.detach().clone())
