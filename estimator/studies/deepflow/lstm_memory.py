"""Parameters and memory of an LSTM language model: weights, activations and what pointwise operations keep, by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from estimator.scenario.units import Number
from estimator.studies.deepflow.kernel_split import KernelSplit
from estimator.studies.deepflow.lstm import Lstm

PARTS = ("embedding", "hidden", "softmax", "projection")


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes that one part keeps for a step."""

    weights_bytes: Number
    activations_bytes: Number
    pointwise_bytes: Number

    @property
    def bytes(self) -> Number:
        """All three together."""
        return self.weights_bytes + self.activations_bytes + self.pointwise_bytes


def parameters(m: Lstm, *, softmax_width: int, projection_bias: bool = False, projected: bool = True) -> int:
    """Parameters: V·D + L·(2D + 1)·G·D + D·Pr + (width + 1)·V.

    The reference counts a projection without bias although its softmax is as wide as the hidden layer.
    """
    embedding = m.vocab * m.hidden
    hidden = (2 * m.hidden + 1) * (m.gates * m.hidden) * m.layers
    projection = (m.hidden + projection_bias) * m.projection if projected else 0
    return embedding + hidden + projection + (softmax_width + 1) * m.vocab


def requirement(
    m: Lstm,
    splits: Mapping[str, KernelSplit] | None = None,
    *,
    stages: int = 1,
    softmax_width: int | None = None,
    projected: bool = True,
) -> dict[str, Held]:
    """Bytes that one processor keeps of each part; ``splits`` cut it, ``stages`` share the recurrent layers.

    Weights are cut where the inner dimension or the columns are, and repeated over rows; activations are kept in
    pieces. Pointwise: nine results of every cell (three sigmoids, two tanh, three products, one sum), two of every
    logit and one row sum, one of every projected value. Neither gradients nor optimizer state are counted.
    """
    cuts = {**dict.fromkeys(PARTS, KernelSplit()), **(splits or {})}
    width = m.projection if softmax_width is None else softmax_width
    positions = m.batch * m.sequence
    layers = m.layers / stages
    weights = {
        "embedding": m.vocab * m.hidden,
        "hidden": (2 * m.hidden + 1) * (m.gates * m.hidden) * layers,
        "softmax": (width + 1) * m.vocab,
        "projection": (m.hidden + 1) * m.projection if projected else 0,
    }
    activations = {
        "embedding": positions * m.hidden,
        "hidden": positions * (2 * m.hidden) * layers,
        "softmax": positions * m.vocab,
        "projection": positions * m.projection if projected else 0,
    }
    pointwise = {
        "embedding": 0,
        "hidden": positions * m.hidden * 9 * layers,
        "softmax": 2 * positions * m.vocab + positions,
        "projection": activations["projection"],
    }
    return {
        part: Held(
            weights_bytes=weights[part] / (cuts[part].inner * cuts[part].columns) * m.element_bytes,
            activations_bytes=activations[part] / cuts[part].degree * m.element_bytes,
            pointwise_bytes=pointwise[part] / cuts[part].degree * m.element_bytes,
        )
        for part in PARTS
    }


def total(held: Mapping[str, Held]) -> Held:
    """Sum over the parts, kind by kind."""
    return Held(
        weights_bytes=sum(part.weights_bytes for part in held.values()),
        activations_bytes=sum(part.activations_bytes for part in held.values()),
        pointwise_bytes=sum(part.pointwise_bytes for part in held.values()),
    )
