"""Memory of one training step: the allocator's peaks by phase, and what kinds of tensors make the peak."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.measurement import MeasuredMemory, Warning
from runners.train_step import Trainer, one_step

KINDS = {
    "Parameter": MemoryKind.PARAMETERS,
    "Gradient": MemoryKind.GRADIENTS,
    "Optstate": MemoryKind.OPTIMIZER,
    "Activation": MemoryKind.ACTIVATIONS,
    "Temp": MemoryKind.TEMPORARIES,
    "Buffer": MemoryKind.FRAMEWORK,
    "Other": MemoryKind.FRAMEWORK,
}
"""MemTracker's words for ours; activations are what forward made (logits among them), temporaries what backward did."""


def allocator_peaks(trainer: Trainer) -> dict[str, dict[str, float]]:
    """Run one step on a GPU and read the caching allocator's peaks of each phase, in bytes."""
    peaks: dict[str, dict[str, float]] = {}

    def done(phase: str) -> None:
        allocated, reserved = float(torch.cuda.max_memory_allocated()), float(torch.cuda.max_memory_reserved())
        before = peaks.get(phase, {"allocated_bytes": 0.0, "reserved_bytes": 0.0})
        peaks[phase] = {
            "allocated_bytes": max(before["allocated_bytes"], allocated),
            "reserved_bytes": max(before["reserved_bytes"], reserved),
        }
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    one_step(trainer, done)
    return peaks


def tracked_peak(trainer: Trainer) -> tuple[float, dict[str, float]]:
    """Run one step under PyTorch's MemTracker: bytes of all tensors at the peak, and the same by kind.

    It sees every tensor that an op makes, not what kernels and libraries allocate inside. It slows steps: do it last.
    """
    from torch.distributed._tools.mem_tracker import MemTracker  # takes as long to import as all of torch

    tracker = MemTracker()
    tracker.track_external(trainer.module, trainer.optimizer, *_tensors(trainer.batches))

    def done(phase: str) -> None:
        if phase == Phase.BACKWARD:
            tracker.reset_mod_stats()

    with tracker:
        one_step(trainer, done)
    device = torch.device(trainer.ranks.device)
    snapshot = tracker.get_tracker_snapshot("peak").get(device, {})
    by_kind: dict[str, float] = {}
    for word, size in snapshot.items():
        kind = KINDS.get(getattr(word, "value", word))
        if kind:
            by_kind[kind] = by_kind.get(kind, 0.0) + float(size)
    states = _state_bytes(trainer)
    if by_kind.get(MemoryKind.OPTIMIZER, 0.0) > states:
        # MemTracker counts all that the optimizer's step makes as its state
        beyond = by_kind[MemoryKind.OPTIMIZER] - states
        by_kind[MemoryKind.TEMPORARIES] = by_kind.get(MemoryKind.TEMPORARIES, 0.0) + beyond
        by_kind[MemoryKind.OPTIMIZER] = states
    return sum(by_kind.values()), by_kind


def memory(trainer: Trainer, peaks: dict[str, dict[str, float]]) -> tuple[MeasuredMemory, list[Warning]]:
    """Put both together: on a GPU the allocator's peak counts and what no tensor explains is ``framework``."""
    tracked: float | None = None
    by_kind: dict[str, float] = {}
    found: list[Warning] = []
    if trainer.fused or trainer.graphs or trainer.exchange is not None:
        where = "CUDA graphs" if trainer.graphs else "compiled code"
        where = "ranks that share a model" if trainer.exchange is not None else where
        found = [Warning(code="memory_kinds_unknown", message=f"kinds of memory are not told apart in {where}")]
    else:
        try:
            tracked, by_kind = tracked_peak(trainer)
        except Exception as error:  # a private tool of PyTorch: what it cannot do must not cost the measurement
            message = f"kinds of memory are not told apart: {type(error).__name__}: {error}"
            found = [Warning(code="memory_kinds_unknown", message=message[:500])]
    copies = _bucket_bytes(trainer)
    if peaks:
        peak = max(phase["allocated_bytes"] for phase in peaks.values())
        reserved = max(phase["reserved_bytes"] for phase in peaks.values())
        if tracked is not None:
            rest = max(0.0, peak - tracked)
            buckets = min(copies, rest)
            by_kind[MemoryKind.COMMUNICATION] = buckets
            by_kind[MemoryKind.FRAMEWORK] = by_kind.get(MemoryKind.FRAMEWORK, 0.0) + rest - buckets
        return MeasuredMemory(peak_bytes=peak, reserved_bytes=reserved, by_kind=by_kind), found
    if tracked is not None and copies:
        by_kind[MemoryKind.COMMUNICATION] = copies
        tracked += copies
    return MeasuredMemory(peak_bytes=tracked, by_kind=by_kind), found


def resident_peak_bytes() -> float:
    """The most memory that this process ever held, libraries and all (Linux counts it in KiB)."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _tensors(batch: Any) -> list[torch.Tensor]:
    """All tensors of a batch, however it holds them."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, (tuple, list)):
        return [tensor for part in batch for tensor in _tensors(part)]
    return [batch] if isinstance(batch, torch.Tensor) else []


def _state_bytes(trainer: Trainer) -> float:
    values = [value for state in trainer.optimizer.state.values() for value in state.values()]
    return float(sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor)))


def _bucket_bytes(trainer: Trainer) -> float:
    """DDP keeps a copy of all gradients in its buckets."""
    if not isinstance(trainer.module, DistributedDataParallel):
        return 0.0
    return float(sum(p.numel() * p.element_size() for p in trainer.module.parameters()))
