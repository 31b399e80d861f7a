"""Tensor parallel training through DTensor: columns, then rows, and norms split by sequence where asked.

Shoeybi 2019 (arXiv 1909.08053) section 3 for the split; Korthikanti 2022 (arXiv 2205.05198) section 4.2 for sequence
parallelism. Embedding and norms are whole on every rank; the head is split by vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from runners.model.training import optimizer_of
from runners.model.transformer import build
from runners.parallel.variants import Spread, Variant, VariantSetting, held, step_of
from runners.ranks import Ranks
from runners.row_status import Unsupported
from runners.train_step import empty


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build the whole model and split it; all ranks see the same data. Raises Unsupported."""
    model, degree = setting.model, ranks.world_size
    if model.position != "rope":
        raise Unsupported("query, key and value are one projection here, which columns would tear apart")
    if model.tied_embedding:
        raise Unsupported("a head that is the embedding cannot be split while the embedding is whole")
    if model.heads % degree or model.kv % degree or model.ffn % degree or setting.training.seq_len % degree:
        raise Unsupported(f"{degree} ranks do not divide heads, kv_heads, ffn and seq_len")
    module = build(model, setting.training, setting.plan, ranks.device)
    mesh = init_device_mesh("cuda" if ranks.cuda else "cpu", (degree,))
    parallelize_module(module, mesh, _plan(module, variant.sequence_parallel))
    optimizer = optimizer_of(_Groups(module), setting.training)
    # one seed for all: the ranks share one batch
    step, loss = step_of(module, optimizer, setting, ranks, seed=setting.seed + 1)
    return Spread(
        step=step,
        silent=False,
        global_batch=setting.plan.micro_batch,
        parameters=held(module),
        last_loss=loss,
        discard=partial(empty, module, optimizer),
    )


def _plan(module: nn.Module, sequence_parallel: bool) -> dict[str, Any]:
    """Style of each submodule by its name."""
    split = Shard(1) if sequence_parallel else Replicate()
    plan: dict[str, Any] = {
        "head": ColwiseParallel(input_layouts=split, output_layouts=Replicate()),
    }
    if sequence_parallel:
        plan["norm"] = SequenceParallel()
        plan["blocks.0"] = PrepareModuleInput(
            input_layouts=(Replicate(), None, None), desired_input_layouts=(Shard(1), None, None), use_local_output=True
        )
    for index, block in enumerate(module.blocks):  # type: ignore[arg-type]
        here = f"blocks.{index}"
        plan |= {f"{here}.attention.qkv.{i}": ColwiseParallel() for i in range(len(block.attention.qkv))}
        plan[f"{here}.attention.o"] = RowwiseParallel(output_layouts=split)
        plan |= {f"{here}.ffn.{name}": ColwiseParallel() for name in ("gate", "up") if getattr(block.ffn, name)}
        plan[f"{here}.ffn.down"] = RowwiseParallel(output_layouts=split)
        if sequence_parallel:
            plan |= {f"{here}.{norm}": SequenceParallel() for norm in ("attention_norm", "ffn_norm")}
            plan[f"{here}.attention"] = _gathered(3)
            plan[f"{here}.ffn"] = _gathered(1)
    return plan


def _gathered(inputs: int) -> PrepareModuleInput:
    """Gather the first input's sequence before a module whose weights are split by columns."""
    rest: tuple[None, ...] = (None,) * (inputs - 1)
    return PrepareModuleInput(
        input_layouts=(Shard(1), *rest), desired_input_layouts=(Replicate(), *rest), use_local_output=True
    )


class _Groups(nn.Module):
    """Parameters in two groups, because one foreach call takes either DTensors or plain tensors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def parameters(self, recurse: bool = True) -> Any:
        """The groups as an optimizer takes them."""
        every = list(self.module.parameters(recurse))
        split = [p for p in every if isinstance(p, DTensor)]
        whole = [p for p in every if not isinstance(p, DTensor)]
        return [{"params": group} for group in (split, whole) if group]
