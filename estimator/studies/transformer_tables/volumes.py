"""Volumes of a block's linears by kind of tensor parallelism, and the tokens from which a grid moves less than 1D."""

from __future__ import annotations

from estimator.communication.grid import linear_moves, received
from estimator.studies.transformer_tables.inputs import Inputs


def linear_exchange_bytes(i: Inputs, phase: str) -> float:
    """Bytes that a rank receives for the four linears of a block, in one phase, gathered inputs kept for backward."""
    shapes = (((i.e, i.f), (i.f, i.e)), ((i.e, 3 * i.e), (i.e, i.e)))
    return sum(_pair_elements(i, i.tokens, *pair, phase) for pair in shapes) * i.element_bytes


def mlp_elements(i: Inputs, tokens: int) -> float:
    """Elements that a rank receives for the MLP's two linears of so many tokens, forward and backward."""
    return _pair_elements(i, tokens, (i.e, i.f), (i.f, i.e), None)


def _pair_elements(i: Inputs, tokens: int, first: tuple[int, int], second: tuple[int, int], phase: str | None) -> float:
    kinds = ("1d-column", "1d-row") if i.tp_kind == "1d" else (i.tp_kind, i.tp_kind)
    return float(
        sum(
            received(linear_moves(kind, tokens, k, n, side=i.side, depth=i.tp_depth), phase)
            for kind, (k, n) in zip(kinds, (first, second), strict=True)
        )
    )
