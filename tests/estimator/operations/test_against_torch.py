"""The estimator's FLOPs and memory against torch's own counters, on the model that the runner measures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from estimator.estimate.estimate import estimate
from estimator.operations import elementwise
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.scenario import Scenario, scenario_from_json
from runners.model import training as trained
from runners.model import transformer as measured

pytestmark = pytest.mark.usefixtures("one_thread")

LLAMA = {"layers": 2, "hidden": 256, "heads": 8, "kv_heads": 2, "ffn": 704, "vocab": 1024}
CS336 = {"layers": 2, "hidden": 384, "heads": 6, "ffn": 1536, "vocab": 2000}
GPT2 = {
    "layers": 2,
    "hidden": 256,
    "heads": 4,
    "ffn": 1024,
    "vocab": 1000,
    "gated_ffn": False,
    "activation": "gelu-tanh",
    "norm": "layer",
    "position": "learned",
    "bias": True,
    "tied_embedding": True,
}
QWEN3 = {**LLAMA, "qk_norm": True, "head_dim": 64}
CHIP = {
    "name": "test chip",
    "fp32_flops_per_s": 1e12,
    "tf32_flops_per_s": 2e12,
    "bf16_flops_per_s": 4e12,
    "fp16_flops_per_s": 4e12,
    "memory_bytes": 1e12,
    "memory_bytes_per_s": 1e11,
    "link": "loopback",
    "network": "loopback",
}


def scenario(model: dict, *, precision: str, attention: str, recompute: str = "none", seq_len: int = 128) -> Scenario:
    return scenario_from_json(
        {
            "model": model,
            "cluster": {"chip": CHIP, "chips_per_node": 1},
            "plan": {"micro_batch": 4, "recompute": recompute},
            "training": {"seq_len": seq_len, "global_batch": 4, "precision": precision, "attention": attention},
        }
    )


@contextmanager
def counting(one: Scenario) -> Iterator[None]:
    """Multiply short sequences in fp32 alone, and give the others their sizes only, which are the same.

    A CPU without instructions for bf16 takes fifty times as long, and one with them twice for 512 tokens.
    """
    if one.training.precision == "fp32" and one.training.seq_len < 512:
        yield
        return
    with FakeTensorMode():
        yield


def counted_flops(one: Scenario, device: str) -> int:
    """Run the runner's model forward and backward under torch's counter."""
    module = measured.build(one.model, one.training, one.plan, device)
    tokens, targets = trained.batch(one.model, one.training, one.plan, device)
    # torch registers its attention formula for the CUDA kernels only; the CPU kernel does the same work.
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    fused_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    counter = FlopCounterMode(
        display=False,
        custom_mapping={
            fused: lambda q, k, v, *_, out_shape=None, **__: sdpa_flop_count(q, k, v),
            fused_backward: lambda g, q, k, v, *_, out_shape=None, **__: sdpa_backward_flop_count(g, q, k, v),
        },
    )
    with counter:
        with trained.autocast(one.training, "cpu"):
            loss = trained.loss_of(module, tokens, targets)
        loss.backward()
    return counter.get_total_flops()


def estimated_flops(one: Scenario) -> float:
    found = network(rank_sizes(one))
    runs = [(block.ops, block.layers) for block in found.blocks] + [(found.head, 1)]
    return sum(
        float(op.flops * op.count) * times for ops, times in runs for op in ops if op.kind in ("gemm", "attention")
    )


FLOP_CASES = [
    (LLAMA, "fp32", "eager", "none"),
    (LLAMA, "bf16", "eager", "none"),
    (CS336, "fp32", "sdpa", "none"),
    (CS336, "bf16-amp", "sdpa", "none"),
    (CS336, "fp32", "eager", "full"),
    (GPT2, "bf16-amp", "eager", "none"),
    (GPT2, "fp32", "sdpa", "selective"),
    (QWEN3, "bf16-amp", "eager", "selective"),
]


@pytest.mark.parametrize(("model", "precision", "attention", "recompute"), FLOP_CASES)
def test_flops_of_forward_and_backward_equal_torchs_counter(model, precision, attention, recompute):
    one = scenario(model, precision=precision, attention=attention, recompute=recompute)
    with counting(one):
        assert estimated_flops(one) == counted_flops(one, "cpu")


def tracked_peak_bytes(one: Scenario) -> tuple[int, dict[str, int]]:
    """Peak of a steady step (the second) of the runner's model under torch's memory tracker."""
    with warnings.catch_warnings():
        # The private module warns about its own imports; what it measures is what is compared here.
        warnings.simplefilter("ignore")
        from torch.distributed._tools.mem_tracker import MemTracker  # takes seconds
    module = measured.build(one.model, one.training, one.plan, "cpu")
    optimizer = torch.optim.AdamW(module.parameters(), foreach=True)
    tokens, targets = trained.batch(one.model, one.training, one.plan, "cpu")

    def step(tokens: torch.Tensor, targets: torch.Tensor) -> None:
        with trained.autocast(one.training, "cpu"):
            loss = trained.loss_of(module, tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    # The first step only makes the optimizer's states, for which one short sequence does
    step(tokens[:1, :8], targets[:1, :8])
    tracker = MemTracker()
    tracker.track_external(module, optimizer, tokens, targets)
    with tracker:
        step(tokens, targets)
    (peak,) = [kinds for device, kinds in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu"]
    kinds = {str(getattr(kind, "value", kind)): int(size) for kind, size in peak.items()}
    total = kinds.pop("Total")
    return total, kinds


def every_second_product() -> tuple[object, object]:
    """What torch is told to keep of a block: attention's output, and the first, third, … product's."""
    products = {True: 0, False: 0}

    def policy(context, op, *_args, **_kwargs) -> CheckpointPolicy:
        if op == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            kept = products[context.is_recompute] % 2 == 1
        else:
            kept = "scaled_dot_product" in str(op)
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


@pytest.mark.parametrize(("model", "precision"), [(LLAMA, "bf16"), (CS336, "fp32")])
def test_what_is_kept_by_op_runs_and_stays_as_torch_has_it(monkeypatch, model, precision):
    full = scenario(model, precision=precision, attention="sdpa", recompute="full", seq_len=512)
    plan, training = replace(full.plan, recompute="selective"), replace(full.training, framework="torchtitan")
    one = replace(full, plan=plan, training=training)
    monkeypatch.setattr(measured, "checkpoint", partial(checkpoint, context_fn=every_second_product))
    with counting(full):
        assert estimated_flops(one) == counted_flops(full, "cpu")
        total, _ = tracked_peak_bytes(full)
    monkeypatch.setitem(FRAMEWORKS, "kept by op", replace(FRAMEWORKS["pytorch-eager"], keeps_products=True))
    one, plain = (replace(x, training=replace(x.training, framework="kept by op")) for x in (one, full))
    found, fewer = estimate(one).memory, estimate(plain).memory
    assert found.peak_bytes - found.by_kind["framework"] == pytest.approx(total, rel=0.06)
    assert fewer.peak_bytes < found.peak_bytes


MEMORY_CASES = [
    (LLAMA, "fp32", "eager", "none", 256),
    ({**LLAMA, "layers": 4}, "bf16", "eager", "none", 256),  # of fewer blocks, what one of them passes on weighs more
    (CS336, "fp32", "eager", "none", 128),
    (CS336, "fp32", "eager", "none", 512),
    (CS336, "fp32", "sdpa", "none", 512),
    (CS336, "bf16", "sdpa", "none", 512),
    (CS336, "bf16-amp", "eager", "none", 512),
    (CS336, "bf16-amp", "sdpa", "none", 512),
    (CS336, "fp32", "eager", "full", 512),
    (CS336, "bf16", "sdpa", "full", 512),
    (CS336, "fp32", "eager", "selective", 512),
    (GPT2, "fp32", "sdpa", "none", 512),
    (GPT2, "bf16", "eager", "none", 512),
    ({**GPT2, "layers": 1, "vocab": 16_000}, "fp32", "sdpa", "none", 16),  # the head's table gradient, the embedding's
    ({**GPT2, "activation": "gelu"}, "bf16-amp", "sdpa", "none", 512),
    (QWEN3, "fp32", "eager", "none", 256),
    ({**QWEN3, "layers": 4}, "bf16", "eager", "none", 256),
]


@pytest.mark.parametrize(("model", "precision", "attention", "recompute", "seq_len"), MEMORY_CASES)
def test_peak_memory_is_within_6_percent_of_torchs_tracker(model, precision, attention, recompute, seq_len):
    one = scenario(model, precision=precision, attention=attention, recompute=recompute, seq_len=seq_len)
    with counting(one):
        tracked, kinds = tracked_peak_bytes(one)
    found = estimate(one).memory
    # The tracker sees tensors only, neither the libraries' workspace nor what an op takes for itself on a GPU.
    estimated = found.peak_bytes - found.by_kind["framework"]
    assert estimated == pytest.approx(tracked, rel=0.06), (found.moment, found.by_kind, kinds)


class Moved(TorchDispatchMode):
    """Bytes that each op reads and writes of tensors with a number for each score."""

    def __init__(self, scores: int) -> None:
        super().__init__()
        self.scores, self.bytes = scores, []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        size = sum(
            one.nbytes for one in (*args, result) if isinstance(one, torch.Tensor) and one.numel() == self.scores
        )
        self.bytes += [size] if size and "view" not in str(op) and "detach" not in str(op) else []
        return result


def test_the_gradient_of_a_maximum_is_five_kernels_over_the_scores():
    scores = torch.zeros(4, 8, 8, requires_grad=True)
    kept = torch.max(scores, torch.tensor(torch.finfo(torch.float32).min))
    gradient = torch.ones_like(kept)
    with Moved(scores.numel()) as mode:
        kept.backward(gradient)
    plain, clamped = (
        elementwise.softmax(
            rank_sizes(scenario({**GPT2, "clamped_scores": it}, precision="fp32", attention="eager")), 8
        )
        for it in (False, True)
    )
    scale = 2 * 4
    assert clamped[1].stream - (plain[1].stream - scale) == sum(mode.bytes) / scores.numel()
    assert clamped[1].launches - (plain[1].launches - 1) == len(mode.bytes) == 5
