"""Edges of the network: the embedding on the first stage, the head with the loss on the last."""

from __future__ import annotations

from estimator.networks import pieces
from estimator.networks.attention import pair
from estimator.networks.dims import Dims
from estimator.networks.linear import linear
from estimator.ops import Op, kernels


def embedding(d: Dims) -> list[Op]:
    """Return the token (and position) look-up; backward scatters into a zeroed gradient of the whole table."""
    n, elements = d.numbers, d.tokens * d.hidden_width
    lookups = 2 if d.model.position == "learned" else 1
    width = n.parameter if n.autocast else n.residual
    table = (d.vocab + d.positions) * d.hidden_width / d.row_gather
    return [
        kernels("embedding", "embedding", "forward", elements=elements, stream=(2 * lookups + lookups - 1) * width,
                launches=2 * lookups - 1.0),
        kernels("embedding gradient", "embedding", "backward", elements=elements, stream=2 * width * lookups,
                launches=8.0 * lookups),
        kernels("embedding gradient table", "embedding", "backward", elements=table, stream=width,
                launches=lookups * 1.0),
    ]  # fmt: skip


def head(d: Dims) -> list[Op]:
    """Return the final norm, the logits and the loss; logits are not multiplied in fp8."""
    n = d.numbers
    ops = pair("final norm", "head", d.stream_tokens * d.hidden, *pieces.norm(d, n.residual))
    aligned = d.model.vocab * n.compute % 16 == 0
    ops += linear(d, "logits", "head", inputs=d.hidden_width, outputs=d.vocab, aligned=aligned, quantised=False,
                  kept=d.kept_tokens * d.hidden)  # fmt: skip
    return ops + pair("cross-entropy", "head", d.tokens * d.vocab, *pieces.cross_entropy(d))
