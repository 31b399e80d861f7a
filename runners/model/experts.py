"""Mixture of experts, dropless: a router, the experts that it chooses for each token, and their weighted sum.

Tokens are sorted by expert; then experts run one after another (``loop``) or all at once in grouped products
(``grouped``, torch's ``grouped_mm``). What brings rows to other ranks' experts is put in between as ``dispatch``
(``runners/parallel/experts.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from estimator.scenario.model import Model
from runners.model.layers import INITIAL_STD, draw_from, linear

WAYS = ("loop", "grouped")
EXPERT_SEED = 1_000_003
"""Every expert is drawn from a seed of its own, so that it is the same on whichever rank it lies."""

Dispatch = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]]
"""Rows sorted by expert and how many each of all experts gets; returns those of this rank's experts likewise, and how
their results go back."""

Activation = Callable[[Tensor], Tensor]


class Experts(nn.Module):
    """The routed experts of one block, of which this rank holds ``held``."""

    def __init__(
        self, model: Model, way: str, held: range, activation: Activation, factory: dict[str, Any], seed: int
    ) -> None:
        super().__init__()
        assert way in WAYS
        self.count, self.top_k, self.way, self.held = model.experts, model.top_k, way, held
        self.activation = activation
        self.dispatch: Dispatch | None = None
        self.router = linear(model.hidden, model.experts, model.router_bias, factory)
        ups = 2 if model.gated_ffn else 1
        shapes = {"up": (model.hidden, ups * model.expert_ffn), "down": (model.expert_ffn, model.hidden)}
        self.gated = model.gated_ffn
        drawn: dict[str, list[Tensor]] = {name: [] for name in shapes}
        for expert in held:
            draw_from(seed + EXPERT_SEED * (expert + 1), factory)
            for name, shape in shapes.items():
                drawn[name].append(nn.init.normal_(torch.empty(shape, **factory), std=INITIAL_STD))
        if way == "grouped":
            self.up: Any = nn.Parameter(torch.stack(drawn["up"]))
            self.down: Any = nn.Parameter(torch.stack(drawn["down"]))
        else:
            self.up, self.down = (nn.ParameterList(map(nn.Parameter, drawn[name])) for name in ("up", "down"))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (…, hidden) to their experts' weighted sum."""
        flat = x.flatten(0, -2)
        scores = F.softmax(self.router(flat), dim=-1, dtype=torch.float32)
        weights, chosen = torch.topk(scores, self.top_k, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(flat.dtype)
        with torch.no_grad():
            order = torch.argsort(chosen.flatten(), stable=True)
            ones = torch.ones_like(order)
            # Unlike bincount, this does not wait for the device
            counts = order.new_zeros(self.count).scatter_add_(0, chosen.flatten(), ones)
            tokens = order // self.top_k
        rows = flat.index_select(0, tokens)
        back: Callable[[Tensor], Tensor] | None = None
        if self.dispatch is not None:
            rows, counts, back = self.dispatch(rows, counts)
        y = (_grouped if self.way == "grouped" else _one_by_one)(self, rows, counts)
        if back is not None:
            y = back(y)
        y = y * weights.flatten().index_select(0, order).unsqueeze(-1)
        return torch.zeros_like(flat, dtype=y.dtype).index_add(0, tokens, y).view(x.shape)

    def inner(self, up: Tensor) -> Tensor:
        """What the activation makes of the up projections, gate and up side by side where gated."""
        if not self.gated:
            return self.activation(up)
        gate, rest = up.chunk(2, dim=-1)
        return self.activation(gate) * rest


def _one_by_one(experts: Experts, rows: Tensor, counts: Tensor) -> Tensor:
    parts = torch.split(rows, counts.tolist())  # the host waits for the device here, once in a block
    # FSDP2 narrows what it shards: experts that no other rank has stay as they are
    narrowed = not torch.is_autocast_enabled(rows.device.type)
    ups, downs = ([w.to(rows.dtype) if narrowed else w for w in held] for held in (experts.up, experts.down))
    found = [experts.inner(part @ up) @ down for part, up, down in zip(parts, ups, downs, strict=True)]
    return torch.cat(found)


def _grouped(experts: Experts, rows: Tensor, counts: Tensor) -> Tensor:
    ends = counts.cumsum(0).to(torch.int32)
    device = rows.device.type
    # Autocast does not know grouped products
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
    rows, up, down = (tensor.to(dtype) for tensor in (rows, experts.up, experts.down))
    inner = experts.inner(torch._grouped_mm(rows, up, offs=ends))
    found: Tensor = torch._grouped_mm(inner, down, offs=ends)
    return found


class MixtureOfExperts(nn.Module):
    """Routed experts and, where the model has them, shared ones that see every token, scaled by a gate of width 1."""

    def __init__(self, routed: Experts, shared: nn.Module | None, gate: nn.Module | None) -> None:
        super().__init__()
        self.routed, self.shared, self.gate = routed, shared, gate

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.routed(x)
        if self.shared is None:
            return y
        shared: Tensor = self.shared(x)
        return y + (shared if self.gate is None else torch.sigmoid(self.gate(x)) * shared)
