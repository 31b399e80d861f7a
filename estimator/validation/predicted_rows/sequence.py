"""Sequence: rows that are one step of an attention layer whose sequence is split over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.cost.collectives import Group, collective_s
from estimator.cost.price import price
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.validation.predicted_rows.device import TableDevice, whole, word

OPS = {
    "q, k, v": ("q projection", "k, v projections"),
    "A = q·kᵀ": ("scores",),
    "c = A·v": ("values",),
    "fused attention": ("attention",),
    "output": ("output projection",),
}
"""Which forward ops of the estimator a step of the layer is."""
ALL_TO_ALLS = {"all-to-all q, k, v": 3, "all-to-all c": 1}
"""How many tensors a step sends, one all-to-all each."""


def layer_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of ``ulysses``: products, fused attention and all-to-alls; not the copies between them."""
    step, ranks = word(row, "step"), whole(row, "ranks")
    if step in ALL_TO_ALLS and ranks > 1:
        group = Group(ranks=float(ranks), ranks_per_node=float(ranks))
        each = collective_s("all-to-all", float(whole(row, "bytes")), group, place.cluster(ranks), place.efficiencies)
        return {"median_s": ALL_TO_ALLS[step] * float(each)}
    if step not in OPS:
        return {}
    hidden, heads, length = (whole(row, column) for column in ("hidden", "heads", "seq_len"))
    model = {"network": "attention", "layers": 1, "hidden": hidden, "heads": heads, "ffn": 1, "vocab": 1}
    attention = "sdpa" if row.get("core") == "fused" else "eager"
    training = {
        "seq_len": length,
        "global_batch": 1,
        "precision": word(row, "precision"),
        "attention": attention,
    }
    d = rank_sizes(place.scenario(model, {"cp": ranks, "cp_kind": "ulysses"}, training))
    chip = place.hardware
    return {
        "median_s": sum(
            float(price(op, chip, place.efficiencies).seconds * op.count)
            for op in network(d).blocks[0].ops
            if op.phase == "forward" and op.name in OPS[step]
        )
    }
