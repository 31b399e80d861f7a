"""Plan: how one training step is laid out over the chips."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.codec import spec
from estimator.problems import Problem

SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp")
RECOMPUTES = ("none", "selective", "full")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
TP_KINDS = ("1d", "2d", "2.5d", "3d")
CP_KINDS = ("ring", "ulysses")

MODELLED = {"tp_kind": ("1d",), "schedule": ("gpipe", "1f1b")}
"""Choices that the contract names and that are predicted today; the others are refused with this list."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Degrees of every axis (their product is the number of chips) and how each axis is used."""

    dp: int = spec(1, minimum=1, maximum=1_000_000, help="data parallel degree")
    tp: int = spec(1, minimum=1, maximum=100_000, help="tensor parallel degree")
    tp_kind: str = spec("1d", choices=TP_KINDS, help="tensor parallel algorithm")
    sequence_parallel: bool = spec(False, help="Megatron sequence parallelism: norms and residuals split over tp")
    cp: int = spec(1, minimum=1, maximum=100_000, help="context parallel degree")
    cp_kind: str = spec("ring", choices=CP_KINDS, help="context parallel algorithm")
    pp: int = spec(1, minimum=1, maximum=10_000, help="pipeline parallel degree")
    virtual_stages: int = spec(1, minimum=1, maximum=1_000, help="model chunks per pipeline rank")
    schedule: str = spec("1f1b", choices=SCHEDULES, help="pipeline schedule")
    ep: int = spec(1, minimum=1, maximum=100_000, help="expert parallel degree")
    sharding: str = spec("ddp", choices=SHARDINGS, help="what data parallel ranks shard; fsdp is zero3 with reshard")
    micro_batch: int = spec(1, minimum=1, maximum=1_000_000, help="sequences per micro-batch and data parallel rank")
    recompute: str = spec("none", choices=RECOMPUTES, help="activations computed again in backward")
    bucket_bytes: int = spec(26_214_400, minimum=1, help="gradient bucket of DDP")
    overlap: bool = spec(True, help="data parallel communication runs beside compute")

    @property
    def chips(self) -> int:
        """dp · tp · pp · cp."""
        return self.dp * self.tp * self.pp * self.cp

    def problems(self) -> list[Problem]:
        """List choices that contradict each other or are not modelled yet."""
        found = []
        for field, known in MODELLED.items():
            value = getattr(self, field)
            if value not in known:
                found.append(
                    Problem(
                        field=f"plan.{field}",
                        message=f"{value!r} is not modelled yet",
                        remedy=f"Choose one of: {', '.join(known)}.",
                    )
                )
        for field in ("cp", "ep", "virtual_stages"):
            if getattr(self, field) != 1:
                found.append(
                    Problem(
                        field=f"plan.{field}",
                        message=f"{field} = {getattr(self, field)} is not modelled yet",
                        remedy=f"Set {field} to 1.",
                    )
                )
        return found
