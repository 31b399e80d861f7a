"""How many rows a recorded step works on: those that its losses are taken over, and what they are."""

from __future__ import annotations

import math
from collections.abc import Iterable

from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import OpList

_LOSSES = ("::nll_loss_forward", "::nll_loss2d_forward")


def loss_rows(found: OpList, phases: Iterable[str]) -> int:
    """Rows that the losses of a step are taken over on this rank, 0 where none is known; ``phases``: one a call.

    Of samples each counts once, however many losses a forward pass takes over it and over parts of it.
    """
    tokens = rows_are(found) == "tokens"
    rows, of_pass = 0, 0
    for call, phase in zip(found.calls, phases, strict=True):
        if phase != Phase.FORWARD:
            rows, of_pass = rows + of_pass, 0
        elif call.kind == "kernel" and not call.recomputed:
            s = found.of(call)
            if s.op.endswith(_LOSSES) and s.inputs and s.inputs[0].shape:
                shape = s.inputs[0].shape
                of_pass = of_pass + shape[0] * math.prod(shape[2:]) if tokens else max(of_pass, shape[0])
    return rows + of_pass


def rows_are(found: OpList) -> str:
    """What those rows are: tokens of a model that looks them up in a table, else samples."""
    ran = {found.of(call).op.partition(".")[0] for call in found.calls if call.phase == Phase.FORWARD}
    return "tokens" if "aten::embedding" in ran else "samples"
