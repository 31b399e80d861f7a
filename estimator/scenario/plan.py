"""Plan: how one training step is laid out over the chips."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from estimator.scenario.codec import spec

SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp")
RECOMPUTES = ("none", "selective", "full")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v")
"""``zero-bubble`` is ZB-H1, ``zero-bubble-v`` ZB-V (Qi 2023, arXiv 2401.10241; Qi 2024, arXiv 2405.15362)."""
FOLDED = ("zero-bubble-v",)
"""Schedules that run the last chunk on the first rank."""
TP_KINDS = ("1d", "2d", "2.5d", "3d")
CP_KINDS = ("ring", "ulysses", "all-gather")
DDP_MODES = ("bucketed", "flat", "naive")
DISPATCHES = ("to-experts", "to-nodes")
OFFLOADS = ("none", "optimizer", "activations", "both")
AXIS_LABELS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "dp": "data parallel",
    "pp": "pipeline parallel",
    "ep": "expert parallel",
    "expert_tp": "tensor parallel inside one expert",
    "edp": "data parallel of experts: ranks that hold the same ones",
}
"""How people read each axis that messages go along: fields of ``Plan``, and ``edp``, which follows from them."""
AXES = ("tp", "cp", "dp", "pp")
PLACEMENTS = tuple("-".join(order) for order in permutations(AXES))
"""Orders of the axes from neighbouring chips outwards; the first fills a node first."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Degrees of every axis (their product is the number of chips) and how each axis is used."""

    dp: int = spec(1, minimum=1, maximum=1_000_000, help="data parallel degree")
    tp: int = spec(1, minimum=1, maximum=100_000, help="tensor parallel degree")
    tp_kind: str = spec("1d", choices=TP_KINDS, help="tensor parallel algorithm")
    tp_depth: int = spec(1, minimum=1, maximum=100_000, help="depth d of 2.5d tensor parallelism: tp = d·q²")
    sequence_parallel: bool = spec(False, help="Megatron sequence parallelism: norms and residuals split over tp")
    tp_overlap: bool = spec(
        False,
        help="gathers and scatters of sequence parallelism pass beside the products they feed, a rank's share at once",
    )
    cp: int = spec(1, minimum=1, maximum=100_000, help="context parallel degree")
    cp_kind: str = spec("ring", choices=CP_KINDS, help="context parallel algorithm")
    pp: int = spec(1, minimum=1, maximum=10_000, help="pipeline parallel degree")
    virtual_stages: int = spec(1, minimum=1, maximum=1_000, help="model chunks per pipeline rank")
    schedule: str = spec("1f1b", choices=SCHEDULES, help="pipeline schedule")
    pp_overlap: bool = spec(False, help="messages between stages pass beside compute, but while the pipeline fills")
    ep: int = spec(1, minimum=1, maximum=100_000, help="expert parallel degree")
    expert_tp: int = spec(1, minimum=1, maximum=100_000, help="tensor parallel degree inside one expert")
    ep_overlap: bool = spec(
        False, help="tokens travel to experts and back beside the compute of another half micro-batch"
    )
    ep_dispatch: str = spec(
        "to-experts",
        choices=DISPATCHES,
        help="a token is sent to each of its experts, or once to each node and rank that has any (DeepEP, HybridEP)",
    )
    sharding: str = spec("ddp", choices=SHARDINGS, help="what data parallel ranks shard; fsdp is zero3 with reshard")
    shard_ranks: int = spec(
        0, minimum=0, maximum=1_000_000, help="ranks that share one copy of the sharded states (HSDP); 0: all"
    )
    micro_batch: int = spec(1, minimum=1, maximum=1_000_000, help="sequences per micro-batch and data parallel rank")
    recompute: str = spec("none", choices=RECOMPUTES, help="activations computed again in backward")
    recompute_every: int = spec(1, minimum=1, maximum=10_000, help="blocks per checkpoint under full recomputation")
    offload: str = spec("none", choices=OFFLOADS, help="what lives in host memory between its uses")
    ddp_mode: str = spec(
        "bucketed", choices=DDP_MODES, help="gradients exchanged in buckets, in one flat buffer, or tensor by tensor"
    )
    bucket_bytes: int = spec(26_214_400, minimum=1, help="gradient bucket of DDP")
    overlap: bool = spec(True, help="data parallel communication runs beside compute")
    placement: str = spec("tp-cp-dp-pp", choices=PLACEMENTS, help="axes from neighbouring chips outwards")

    @property
    def chips(self) -> int:
        """dp · tp · pp · cp."""
        return self.dp * self.tp * self.pp * self.cp
