"""Causal attention by the textbook, and in pieces with a running maximum, forward and backward."""

from __future__ import annotations

import numpy as np

QKV = tuple[np.ndarray, np.ndarray, np.ndarray]


def operands(tokens: int, heads: int, kv_heads: int, width: int) -> tuple[QKV, np.ndarray]:
    """Random q, k, v of shape (tokens, heads, width) and the gradient of the output."""
    random = np.random.default_rng(4)
    q, dout = random.standard_normal((2, tokens, heads, width))
    k, v = random.standard_normal((2, tokens, kv_heads, width))
    return (q, k, v), dout


def full(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray) -> tuple[np.ndarray, QKV]:
    """Attention of all tokens at once: the output, and the gradients of q, k and v."""
    group, tokens = q.shape[1] // k.shape[1], np.arange(len(q))
    kk, vv = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, kk)
    scores[:, tokens[:, None] < tokens] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = np.einsum("hij,jhd->ihd", weights, vv)
    dweights = np.einsum("ihd,jhd->hij", dout, vv)
    dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True))
    dq = np.einsum("hij,jhd->ihd", dscores, kk)
    dk, dv = np.einsum("hij,ihd->jhd", dscores, q), np.einsum("hij,ihd->jhd", weights, dout)
    return out, (dq, _fold(dk, group), _fold(dv, group))


class Rows:
    """Attention of some queries that meet keys and values piece by piece; ``pairs`` counts unmasked scores per head."""

    def __init__(self, q: np.ndarray, positions: np.ndarray) -> None:
        self.q, self.positions, self.pairs = q, positions, 0
        self.most = np.full(q.shape[1::-1], -np.inf)
        self.total = np.zeros(q.shape[1::-1])
        self.sum = np.zeros_like(q)

    def meet(self, k: np.ndarray, v: np.ndarray, positions: np.ndarray) -> None:
        """Add a piece: the running sums are scaled down whenever the maximum grows."""
        kk, vv, seen = self._piece(k, v, positions)
        self.pairs += int(seen.sum())
        scores = np.where(seen, np.einsum("ihd,jhd->hij", self.q, kk), -np.inf)
        most = np.maximum(self.most, scores.max(-1))
        finite = np.where(np.isfinite(most), most, 0.0)
        weights, scale = np.exp(scores - finite[..., None]), np.exp(self.most - finite)
        self.total = self.total * scale + weights.sum(-1)
        self.sum = self.sum * scale.T[..., None] + np.einsum("hij,jhd->ihd", weights, vv)
        self.most = most

    @property
    def output(self) -> np.ndarray:
        return self.sum / self.total.T[..., None]

    def gradients(self, k: np.ndarray, v: np.ndarray, positions: np.ndarray, dout: np.ndarray) -> QKV:
        """Gradients of q, k and v from one piece, from the saved maximum and total (Dao 2022, arXiv 2205.14135)."""
        kk, vv, seen = self._piece(k, v, positions)
        scores = np.where(seen, np.einsum("ihd,jhd->hij", self.q, kk), -np.inf)
        weights = np.exp(scores - self.most[..., None]) / self.total[..., None]
        dweights = np.einsum("ihd,jhd->hij", dout, vv)
        dscores = weights * (dweights - (dout * self.output).sum(-1).T[..., None])
        group = self.q.shape[1] // k.shape[1]
        dk, dv = np.einsum("hij,ihd->jhd", dscores, self.q), np.einsum("hij,ihd->jhd", weights, dout)
        return np.einsum("hij,jhd->ihd", dscores, kk), _fold(dk, group), _fold(dv, group)

    def _piece(self, k: np.ndarray, v: np.ndarray, positions: np.ndarray) -> QKV:
        group = self.q.shape[1] // k.shape[1]
        return np.repeat(k, group, axis=1), np.repeat(v, group, axis=1), self.positions[:, None] >= positions


def _fold(gradient: np.ndarray, group: int) -> np.ndarray:
    return gradient.reshape(len(gradient), -1, group, gradient.shape[-1]).sum(2)
