"""Both tables of a block, whatever the kind of tensor parallelism."""

from __future__ import annotations

from estimator.studies.transformer_tables import grid, one_d
from estimator.studies.transformer_tables.inputs import Inputs
from estimator.studies.transformer_tables.one_d import LATER
from estimator.studies.transformer_tables.rows import Row, Words


def block_rows(i: Inputs, fixes: frozenset[int]) -> dict[str, list[Row]]:
    """Return the rows of the MLP and of self-attention (SA) with these defects corrected."""
    words = Words(element_bytes=i.element_bytes, mask_bytes=i.mask_bytes, later=LATER in fixes)
    if i.tp_kind == "1d":
        return {"MLP": one_d.mlp_rows(i, words, fixes), "SA": one_d.attention_rows(i, words, fixes)}
    return {"MLP": grid.mlp_rows(i, words), "SA": grid.attention_rows(i, words)}
