"""Tensor parallel training through DTensor: columns, then rows, and norms split by sequence where asked.

Shoeybi 2019 (arXiv 1909.08053) section 3 for the split; Korthikanti 2022 (arXiv 2205.05198) section 4.2 for sequence
parallelism. Norms are whole on every rank.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from runners.model.experts import MixtureOfExperts
from runners.model.latent_attention import LatentAttention
from runners.model.training import optimizer_of
from runners.model.transformer import Transformer, build
from runners.parallel.variants import Spread, Variant, VariantSetting, held, step_of
from runners.ranks import Ranks
from runners.row_status import Unsupported
from runners.train_step import empty


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build the whole model and split it; all ranks see the same data. Raises Unsupported."""
    model, degree = setting.model, ranks.world_size
    if model.heads % degree or model.kv % degree or model.ffn % degree or setting.training.seq_len % degree:
        raise Unsupported(f"{degree} ranks do not divide heads, kv_heads, ffn and seq_len")
    module = build(model, setting.training, setting.plan, ranks.device)
    mesh = init_device_mesh("cuda" if ranks.cuda else "cpu", (degree,))
    split(module, mesh, sequence_parallel=variant.sequence_parallel, split_vocabulary=True)
    optimizer = optimizer_of(ByLayout(module), setting.training)
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


def split(module: Transformer, mesh: DeviceMesh, *, sequence_parallel: bool, split_vocabulary: bool) -> None:
    """Split a module, or the blocks of it that are here, over the ranks of ``mesh``.

    The embedding is whole on every rank, and so is the head unless ``split_vocabulary``; both are split where the head
    is the embedding.
    """
    degree = mesh.size()
    for block in module.blocks.values():
        if getattr(block.attention, "fused", False):
            _by_heads(block.attention, degree)
    tied = module.head is not None and module.embedding is not None and module.head.weight is module.embedding.weight
    plan = _styles(module, sequence_parallel, split_vocabulary, tied)
    parallelize_module(module, mesh, plan)
    if tied and split_vocabulary:
        assert module.head is not None
        assert module.embedding is not None
        module.head.weight = module.embedding.weight


def _styles(module: Transformer, sequence_parallel: bool, split_vocabulary: bool, tied: bool) -> dict[str, Any]:
    """Style of each submodule by its name."""
    stream = Shard(1) if sequence_parallel else Replicate()
    plan: dict[str, Any] = {}
    if module.head is not None and split_vocabulary:
        plan["head"] = ColwiseParallel(input_layouts=stream, output_layouts=Replicate())
    elif module.head is not None and sequence_parallel:
        plan["head"] = _gathered(1)
    if tied and split_vocabulary:
        plan["embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate())
    if sequence_parallel:
        if module.norm is not None:
            plan["norm"] = SequenceParallel()
        if module.embedding is not None:
            plan["blocks.0"] = PrepareModuleInput(
                input_layouts=(Replicate(), None, None),
                desired_input_layouts=(Shard(1), None, None),
                use_local_output=True,
            )
    for name, block in module.blocks.items():
        here = f"blocks.{name}"
        latent = isinstance(block.attention, LatentAttention)
        parts = (_latent if latent else _attention)(block.attention, stream)
        styles = {f"attention.{part}": style for part, style in parts.items()}
        if isinstance(block.ffn, MixtureOfExperts):
            styles["ffn.routed"] = _RoutedShare(stream)
            styles["ffn.routed.router"] = SequenceParallel(sequence_dim=0, use_local_output=True)
            if block.ffn.gate is not None and sequence_parallel:
                styles["ffn.gate"] = SequenceParallel(use_local_output=True)
            if block.ffn.shared is not None:
                styles |= _feed_forward("ffn.shared", block.ffn.shared, stream)
        else:
            styles |= _feed_forward("ffn", block.ffn, stream)
        if sequence_parallel:
            styles |= {norm: SequenceParallel() for norm in ("attention_norm", "ffn_norm")}
            if not latent:
                styles["attention"] = _gathered(3)
        plan |= {f"{here}.{part}": style for part, style in styles.items()}
    return plan


def _attention(attention: Any, stream: Placement) -> dict[str, ParallelStyle]:
    found: dict[str, ParallelStyle] = {f"qkv.{i}": ColwiseParallel() for i in range(len(attention.qkv))}
    if attention.q_norm is not None:  # one weight for the heads of all ranks, each of which adds to its gradient
        found |= {name: SequenceParallel(sequence_dim=2, use_local_output=True) for name in ("q_norm", "k_norm")}
    return {**found, "o": RowwiseParallel(output_layouts=stream)}


def _latent(attention: Any, stream: Placement) -> dict[str, ParallelStyle]:
    """Down-projections and norms whole, on each rank's share of the stream; up-projections by heads."""
    found: dict[str, ParallelStyle] = {
        "q_up": ColwiseParallel(input_layouts=stream),
        "kv_up": ColwiseParallel(input_layouts=stream),
        "shared_key": _SharedKeyGradient(stream),
        "o": RowwiseParallel(output_layouts=stream),
    }
    if isinstance(stream, Shard):
        whole = ["kv_down", "kv_norm", *(["q_down", "q_norm"] if attention.q_down is not None else [])]
        found |= {name: SequenceParallel() for name in whole}
    return found


def _feed_forward(name: str, network: Any, stream: Placement) -> dict[str, ParallelStyle]:
    found: dict[str, ParallelStyle] = {
        f"{name}.{part}": ColwiseParallel() for part in ("gate", "up") if getattr(network, part)
    }
    found[f"{name}.down"] = RowwiseParallel(output_layouts=stream)
    if isinstance(stream, Shard):
        found[name] = _gathered(1)
    return found


def _gathered(inputs: int) -> PrepareModuleInput:
    """Gather the first input's sequence before a module whose weights are split by columns."""
    rest: tuple[None, ...] = (None,) * (inputs - 1)
    return PrepareModuleInput(
        input_layouts=(Shard(1), *rest), desired_input_layouts=(Replicate(), *rest), use_local_output=True
    )


class _SharedKeyGradient(ParallelStyle):
    """The rotary key goes whole to every rank; heads of all ranks add to its gradient."""

    def __init__(self, stream: Placement) -> None:
        super().__init__()
        self.stream = stream

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def whole(_module: nn.Module, _inputs: Any, key: Any) -> Any:
            shared = key if isinstance(key, DTensor) else DTensor.from_local(key, device_mesh, (self.stream,))
            return shared.redistribute(placements=(Replicate(),)).to_local(grad_placements=(Partial(),))

        module.register_forward_hook(whole)
        return module


class _RoutedShare(ParallelStyle):
    """Each rank routes its share of the tokens, and puts the others' beside them where the stream is whole."""

    def __init__(self, stream: Placement) -> None:
        super().__init__()
        self.stream = stream

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def enter(_module: nn.Module, inputs: Any) -> Any:
            x = inputs[0]
            whole = x if isinstance(x, DTensor) else DTensor.from_local(x, device_mesh, (self.stream,))
            return (whole.redistribute(placements=(Shard(1),)).to_local(),)

        def leave(_module: nn.Module, _inputs: Any, y: Any) -> Any:
            return DTensor.from_local(y, device_mesh, (Shard(1),)).redistribute(placements=(self.stream,)).to_local()

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)
        return module


def _by_heads(attention: Any, degree: int) -> None:
    """Order the rows of a fused projection so that each rank's are q, k and v of its own heads."""
    projection = attention.qkv[0]
    with torch.no_grad():
        for parameter in projection.parameters():
            parts = [part.chunk(degree) for part in parameter.split(attention.widths)]
            parameter.copy_(torch.cat([part[rank] for rank in range(degree) for part in parts]))
    attention.widths = [width // degree for width in attention.widths]


class ByLayout(nn.Module):
    """Parameters in groups of one layout, because one foreach call takes DTensors of one mesh, or plain tensors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def parameters(self, recurse: bool = True) -> Any:
        """The groups as an optimizer takes them."""
        groups: dict[Any, list[nn.Parameter]] = {}
        for parameter in self.module.parameters(recurse):
            groups.setdefault(parameter.device_mesh if isinstance(parameter, DTensor) else None, []).append(parameter)
        return [{"params": group} for group in groups.values()]
