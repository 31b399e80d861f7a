"""Legal scenarios of every kind that is modelled, for hypothesis to draw from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from estimator.scenario import catalog
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.model import ACTIVATIONS, NORMS, POSITIONS
from estimator.scenario.plan import CP_KINDS, DDP_MODES, PLACEMENTS, RECOMPUTES, SCHEDULES, SHARDINGS
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.scenario.training import ATTENTIONS, OPTIMIZERS

DEGREES = (1, 2, 4, 8)
CHIPS = ("v100-32gb", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "mi300x", "rtx-4090")
GRIDS = {4: (("2d", 1),), 8: (("2.5d", 2), ("3d", 1))}
"""Grids of a tensor parallel degree: kind and depth."""


@st.composite
def documents(draw: st.DrawFn, **fixed: Any) -> dict[str, Any]:
    """Draw a scenario's JSON; ``fixed`` pins fields of plan and training by name."""

    def pick(name: str, values: tuple[Any, ...]) -> Any:
        return fixed[name] if name in fixed else draw(st.sampled_from(values))

    def divisors(name: str, value: int) -> int:
        return int(pick(name, tuple(n for n in (1, 2, 4, 8, 16) if value % n == 0)))

    tp, pp, dp = (pick(name, DEGREES) for name in ("tp", "pp", "dp"))
    grid = tp in GRIDS and "tp_kind" not in fixed and draw(st.integers(0, 3)) == 0
    tp_kind, tp_depth = draw(st.sampled_from(GRIDS[tp])) if grid else ("1d", 1)
    cp = 1 if grid else pick("cp", (1, 1, 2, 4))
    cp_kind = pick("cp_kind", CP_KINDS) if cp > 1 else "ring"
    experts = not grid and pick("experts", (False, False, True))
    ep = divisors("ep", dp * cp * tp) if experts else 1

    schedule = pick("schedule", SCHEDULES) if pp > 1 else "1f1b"
    virtual = {"interleaved": draw(st.integers(1, 3)), "zero-bubble-v": 2}.get(schedule, 1)
    layers = pp * virtual * draw(st.integers(1, 3))
    # A block less on one stage, or on both ends, as where embedding and head take their place.
    layers -= draw(st.integers(0, 2)) if layers > 2 * pp * virtual else 0
    split_heads = tp * (cp if cp_kind == "ulysses" else 1)
    heads = split_heads * draw(st.integers(1, 4))
    shared = [n for n in range(1, heads + 1) if heads % n == 0
              and all(n % ranks == 0 or ranks % n == 0 for ranks in (tp, split_heads))]  # fmt: skip
    kv_heads = draw(st.sampled_from(shared))
    micro_batch = draw(st.sampled_from((1, 2, 4) if grid else (1, 2, 3, 4)))
    batches = draw(st.integers(1, 8)) * (pp if schedule == "interleaved" and virtual > 1 else 1)
    recompute = pick("recompute", RECOMPUTES)
    sharding = pick("sharding", SHARDINGS)
    hybrid = sharding != "ddp" and "shard_ranks" not in fixed and draw(st.integers(0, 3)) == 0

    chip = catalog.chip(draw(st.sampled_from(CHIPS)))
    precisions = ["fp32", "fp16-amp"]
    precisions += ["tf32"] if chip.tf32_flops_per_s else []
    precisions += ["bf16", "bf16-amp"] if chip.bf16_flops_per_s else []
    precisions += ["fp8"] if chip.fp8_flops_per_s and chip.bf16_flops_per_s else []
    chips = tp * pp * dp * cp
    per_node = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n <= chips]))
    mixture = {
        "experts": ep * draw(st.integers(1, 4)),
        "top_k": 1,
        "moe_ffn": 16 * draw(st.integers(1, 128)),
        "shared_experts": draw(st.integers(0, 1)),
        "dense_layers": draw(st.integers(0, max(layers - 1, 0))),
    }
    window = draw(st.sampled_from((0, 0, 1, 100, 4096)))
    found = {
        "model": {
            "layers": layers,
            "hidden": draw(st.sampled_from((64, 320, 1024, 4096))),
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": draw(st.sampled_from((16, 64, 128))),
            "ffn": tp * 16 * draw(st.integers(1, 512)),
            "vocab": draw(st.integers(1, 200_000)),
            "gated_ffn": draw(st.booleans()),
            "activation": draw(st.sampled_from(ACTIVATIONS)),
            "norm": draw(st.sampled_from(NORMS)),
            "norms_per_layer": draw(st.sampled_from((2, 1, 4))),
            "parallel_residual": draw(st.booleans()),
            "sliding_window": window,
            "full_attention_every": draw(st.integers(0, 3)) if window else 0,
            "qk_norm": draw(st.booleans()),
            "position": draw(st.sampled_from(POSITIONS)),
            "bias": draw(st.booleans()),
            "tied_embedding": draw(st.booleans()),
            **(mixture if experts else {}),
        },
        "cluster": {"chip": chip.name, "chips_per_node": per_node, "nodes": chips // per_node},
        "plan": {
            "dp": dp,
            "tp": tp,
            "tp_kind": tp_kind,
            "tp_depth": tp_depth,
            "cp": cp,
            "cp_kind": cp_kind,
            "pp": pp,
            "ep": ep,
            "virtual_stages": virtual,
            "sequence_parallel": pick("sequence_parallel", (False, True)) if tp > 1 and not grid else False,
            "schedule": schedule,
            "sharding": sharding,
            "shard_ranks": divisors("shard_ranks", dp * cp) if hybrid else 0,
            "micro_batch": micro_batch,
            "recompute": recompute,
            "recompute_every": draw(st.integers(1, min(layers, 2))) if recompute == "full" else 1,
            "bucket_bytes": draw(st.sampled_from((10**5, 26_214_400, 10**9))),
            "ddp_mode": pick("ddp_mode", DDP_MODES),
            "overlap": pick("overlap", (True, False)),
            "placement": pick("placement", PLACEMENTS),
        },
        "training": {
            "seq_len": tp * cp * 8 * draw(st.integers(1, 512 // cp)),
            "global_batch": dp * micro_batch * batches,
            "precision": fixed.get("precision") or draw(st.sampled_from(precisions)),
            "optimizer": draw(st.sampled_from(OPTIMIZERS)),
            "attention": pick("attention", ATTENTIONS),
            "dropout": draw(st.sampled_from((0.0, 0.1))),
            "compile": draw(st.booleans()),
            "framework": pick("framework", tuple(FRAMEWORKS)),
        },
    }
    drawn = {**found["model"], **found["plan"], **found["training"]}
    assert all(drawn.get(name, value) == value for name, value in fixed.items() if name != "experts"), fixed
    return found


def scenarios(**fixed: Any) -> st.SearchStrategy[Scenario]:
    """Draw a legal scenario; ``fixed`` pins fields of plan and training by name."""
    return documents(**fixed).map(scenario_from_json)
