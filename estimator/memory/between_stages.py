"""Between stages: what a rank of a pipeline holds of what stages hand to one another."""

from __future__ import annotations

from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.units import Number


def between_stages_bytes(
    size_bytes: Number,
    *,
    in_flight: Number,
    micro_batches: Number,
    chunks: Number,
    first: bool,
    last: bool,
    offloaded: bool = False,
) -> tuple[Number, Number]:
    """Bytes of outputs that wait for their backward, and of buffers for messages beyond what activations count.

    torch.distributed.pipelining makes buffers for the inputs and the output gradients of all micro-batches at once;
    inputs of micro-batches in flight are activations already, unless those are ``offloaded`` (the buffer stays where it
    is), and one output's gradient is among a block's temporaries. ``size_bytes``: of one message. ``first``, ``last``:
    whether the rank has that end of the pipeline.
    """
    inputs, gradients = chunks - first, chunks - last
    counted = (0.0 if offloaded else in_flight * inputs / chunks) + minimum(gradients, 1)
    waiting = maximum(micro_batches * (inputs + gradients) - counted, 0.0)
    return size_bytes * in_flight * gradients / chunks, size_bytes * waiting
