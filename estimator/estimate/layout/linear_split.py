"""Linear split: which linears of an op list are split by columns and which by rows, as their names or a plan say.

A column linear divides what it makes, the row linear behind it what it takes: one without the other has no half.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from estimator.estimate.layout.units import unit_of
from estimator.scenario.aten_cost import op_name
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import NONE, OpList, Signature

COLUMN, ROW = "column", "row"
PROPOSED = {
    COLUMN: (
        "q", "k", "v", "qkv", "qkv.*", "q_proj", "k_proj", "v_proj", "qkv_proj", "Wqkv", "query", "key", "value",
        "query_key_value", "c_attn", "gate", "up", "gate_proj", "up_proj", "gate_up_proj", "fc1", "c_fc", "w1", "w3",
        "dense_h_to_4h", "fc_in", "wq", "wk", "wv", "wi", "wi_0", "wi_1", "lin1", "linear1", "intermediate.dense",
    ),
    ROW: (
        "o", "o_proj", "out_proj", "out", "down", "down_proj", "fc2", "c_proj", "w2", "wo", "dense_4h_to_h", "fc_out",
        "attention.dense", "self_attention.dense", "lin2", "linear2", "output.dense",
    ),
}  # fmt: skip
"""How linears that are split by columns and by rows are called, by the ends of their paths: in Llama and its kin (also
Meta's own), GPT-2, GPT-NeoX and BLOOM, OPT, BERT, ViT, and torch's own TransformerEncoderLayer (whose attention keeps
q, k and v in one parameter that is no linear's: ``parallelize_module`` does not split it either)."""

PRODUCTS = ("mm", "addmm", "linear")

Plan = Mapping[str, str]
"""From a pattern, the end of a module's path in which * stands for any part, to ``column`` or ``row``."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which linears are split how, by their paths; ``named``: the same, equal layers taken together."""

    of: Mapping[str, str]

    @property
    def named(self) -> dict[str, str]:
        """The plan as people would write it."""
        return {re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", path): how for path, how in self.of.items()}


def proposed_split(found: OpList) -> Split:
    """The linears of repeated modules whose names say how they are split, columns with the row after them."""
    split = split_by(found, {name: how for how, names in PROPOSED.items() for name in names})
    # A gate without an up beside it chooses experts.
    routers = [path for path in split.of if path.endswith(".gate") and f"{path.removesuffix('gate')}up" not in split.of]
    split = Split(of={path: how for path, how in split.of.items() if path not in routers})
    alike = Split(of=dict.fromkeys(unpaired(found, split), "")).named
    return Split(of={path: how for path, how in split.of.items() if not set(Split(of={path: how}).named) & set(alike)})


def unpaired(found: OpList, split: Split) -> list[str]:
    """Column linears that no row linear follows in the same repeated module, and row linears that follow none."""
    met: set[str] = set()
    waiting: list[str] = []
    for call in found.calls:
        if call.kind != "kernel" or call.phase != Phase.FORWARD or call.module == NONE:
            continue
        path = found.modules[call.module]
        how = split.of.get(path, "")
        if not how or not is_product(found.of(call)):
            continue
        waiting = [one for one in waiting if unit_of(one) == unit_of(path)]
        if how == COLUMN:
            waiting.append(path)
        elif waiting:
            met.update((path, *waiting))
            waiting = []
    return [path for path in split.of if path not in met]


def split_by(found: OpList, plan: Plan) -> Split:
    """The linears of repeated modules that a plan's patterns name; of several that fit, the longest decides."""
    rules = [
        (re.compile(r"(?:^|.*\.)" + re.escape(name).replace(r"\*", r"[^.]+") + "$"), how)
        for name, how in sorted(plan.items(), key=lambda item: -len(item[0]))
    ]
    of: dict[str, str] = {}
    for one in found.weights:
        path, _, kind = one.name.rpartition(".")
        if kind == "weight" and len(one.shape) == 2 and unit_of(path):
            how = next((how for rule, how in rules if rule.match(path)), "")
            if how:
                of[path] = how
    return Split(of=of)


def is_product(s: Signature) -> bool:
    """Whether an op multiplies a linear's input by its weight, or their gradients."""
    return op_name(s.op) in PRODUCTS


def is_linear(s: Signature) -> bool:
    """Whether a product is x·Wᵀ + b in one op, W (makes × takes), as inference_mode leaves it."""
    return op_name(s.op) == "linear"
