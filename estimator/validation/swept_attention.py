"""Swept attention: the names, batch and memory of tables that sweep one attention, for who reads them and who predicts.

An import needs no more of the estimator than this, and begins sooner without the rest.
"""

from __future__ import annotations

from estimator.scenario.units import Number

WIDTHS = ("head_dim", "d_model", "d", "d_head", "dim", "hidden", "embed_dim", "d_k")
"""Under which names a table has the width of its only head."""
SWEPT_BATCH = 8
"""CS336's assignment 2 (2025), section 1.2: the batch where one implementation is swept."""
FP32_BYTES = 4.0
WRITTEN_OUT_BYTES = 12.0
"""A row of a softmax written out keeps its sum in fp32 and the place of its maximum as int64."""


def kept_bytes(
    batch: Number, length: Number, width: Number, *, row_bytes: Number = 0.0, widened: bool = False
) -> Number:
    """What eager fp32 attention keeps for its backward: B·S²·4 + 4·B·S·d·4, softmax's output and q, k, v, output.

    ``row_bytes``: of each row of the scores beside them; ``widened``: two more of B·S·d·4, where torch.compile built
    its graph anew for any length.
    """
    one = FP32_BYTES * batch * length * width
    return FP32_BYTES * batch * length * length + (6.0 if widened else 4.0) * one + row_bytes * batch * length
