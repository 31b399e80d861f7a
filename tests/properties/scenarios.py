"""Legal scenarios of every kind that is modelled, for hypothesis to draw from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from estimator import catalog
from estimator.model import ACTIVATIONS, NORMS, POSITIONS
from estimator.plan import RECOMPUTES, SHARDINGS
from estimator.scenario import Scenario, scenario_from_json
from estimator.training import ATTENTIONS, FRAMEWORKS, OPTIMIZERS

DEGREES = (1, 2, 4, 8)
CHIPS = ("v100-32gb", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "mi300x", "rtx-4090")


@st.composite
def documents(draw: st.DrawFn, **fixed: Any) -> dict[str, Any]:
    """Draw a scenario's JSON; ``fixed`` pins fields of plan and training by name."""

    def pick(name: str, values: tuple[Any, ...]) -> Any:
        return fixed[name] if name in fixed else draw(st.sampled_from(values))

    tp, pp, dp = (pick(name, DEGREES) for name in ("tp", "pp", "dp"))
    heads = tp * draw(st.integers(1, 4))
    kv_heads = draw(
        st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0 and (n % tp == 0 or tp % n == 0)])
    )
    head_dim = draw(st.sampled_from((16, 64, 128)))
    chip = catalog.chip(draw(st.sampled_from(CHIPS)))
    precisions = ["fp32", "fp16-amp"]
    precisions += ["tf32"] if chip.tf32_flops_per_s else []
    precisions += ["bf16", "bf16-amp"] if chip.bf16_flops_per_s else []
    micro_batch = draw(st.integers(1, 4))
    chips = tp * pp * dp
    per_node = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n <= chips]))
    return {
        "model": {
            "layers": pp * draw(st.integers(1, 3)),
            "hidden": draw(st.sampled_from((64, 320, 1024, 4096))),
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "ffn": tp * 16 * draw(st.integers(1, 512)),
            "vocab": draw(st.integers(1, 200_000)),
            "gated_ffn": draw(st.booleans()),
            "activation": draw(st.sampled_from(ACTIVATIONS)),
            "norm": draw(st.sampled_from(NORMS)),
            "qk_norm": draw(st.booleans()),
            "position": draw(st.sampled_from(POSITIONS)),
            "bias": draw(st.booleans()),
            "tied_embedding": draw(st.booleans()),
        },
        "cluster": {"chip": chip.name, "chips_per_node": per_node, "nodes": chips // per_node},
        "plan": {
            "dp": dp,
            "tp": tp,
            "pp": pp,
            "sequence_parallel": pick("sequence_parallel", (False, True)) if tp > 1 else False,
            "schedule": pick("schedule", ("gpipe", "1f1b")),
            "sharding": pick("sharding", SHARDINGS),
            "micro_batch": micro_batch,
            "recompute": pick("recompute", RECOMPUTES),
            "bucket_bytes": draw(st.sampled_from((10**5, 26_214_400, 10**9))),
            "overlap": pick("overlap", (True, False)),
        },
        "training": {
            "seq_len": tp * 8 * draw(st.integers(1, 512)),
            "global_batch": dp * micro_batch * draw(st.integers(1, 8)),
            "precision": fixed.get("precision") or draw(st.sampled_from(precisions)),
            "optimizer": draw(st.sampled_from(OPTIMIZERS)),
            "attention": pick("attention", ATTENTIONS),
            "dropout": draw(st.sampled_from((0.0, 0.1))),
            "compile": draw(st.booleans()),
            "framework": pick("framework", FRAMEWORKS),
        },
    }


def scenarios(**fixed: Any) -> st.SearchStrategy[Scenario]:
    """Draw a legal scenario; ``fixed`` pins fields of plan and training by name."""
    return documents(**fixed).map(scenario_from_json)
