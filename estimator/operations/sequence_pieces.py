"""Sequence pieces: what is computed and copied where ranks hold pieces of a sequence, beside attention itself.

Under plain PyTorch as the runners have it: rings (runners/parallel/zigzag.py) and gathered keys
(runners/parallel/context.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from estimator.operations.elementwise import KernelCost, pair
from estimator.operations.op import Op, gemm, kernels
from estimator.operations.rank_sizes import FP32_BYTES, RankSizes
from estimator.operations.torch_kernels import MIXED_ALIKE
from estimator.scenario.arrays import maximum, where
from estimator.scenario.breakdown import Category
from estimator.scenario.units import Number

if TYPE_CHECKING:
    from estimator.operations.attention import CoreShape

EAGER_VIEWS = {"forward": 11.0, "backward": 6.25}
"""Ops that launch nothing around each of eager attention's products, two forward and four backward: expanded, turned,
flattened."""
GATHER_VIEWS = (14, 20)
"""The same around the gather of keys and values, forward and backward, by the lines of runners/parallel/context.py."""


def where_alone(ops: list[Op], cp: Number) -> list[Op]:
    """Of several plans' ops those of plans in which one rank has the whole sequence; none where no plan has."""
    if isinstance(cp, (int, float)):
        return []
    alone = where(cp > 1, 0.0, 1.0)
    return [replace(op, count=op.count * alone, saved_bytes=op.saved_bytes * alone) for op in ops]


def ring_by_kernel(d: RankSizes, layer: str, s: CoreShape) -> list[Op]:
    """A ring whose pieces have their scores in memory, as those in fp32 do: kernels of runners/parallel/zigzag.py.

    The own piece is a square under a mask, each further one half of it. Scores are made anew in backward, of which the
    program keeps q, k, v, the output, the sums, and the copy of the output that its projection takes. Kernels over the
    scores: scaled, copied and masked, less their largest, exp and sum, less their sums and exp; in backward scaled,
    copied and masked, less their sums, exp, the gradient less its inner product, by the weights, scaled; in 16 bits
    casts beside.
    """
    n, e, ring = d.widths, d.widths.compute, where(d.cp > 1, 1.0, 0.0)
    width, queries, keys = d.head_dim, s.queries, s.keys
    value_dim, out_width = (width, d.query_width) if d.model.latent else (float(d.model.value_dim), d.core_width)
    batch = s.batch * (1 + (s.pieces - 1) / 2)
    narrow = 1.0 if e < FP32_BYTES else 0.0

    def product(name: str, phase: str, columns: Number, inner: Number, saved: Number = 0.0) -> Op:
        found = gemm(name, layer, phase, m=queries, n=columns, k=inner, batch=batch, element_bytes=e, precision=n.peak,
                     category=Category.ATTENTION, saved_bytes=saved * ring, launches=s.pieces,
                     views=s.pieces * EAGER_VIEWS[phase])  # fmt: skip
        return replace(found, count=ring)

    own = d.tokens * (d.query_width + d.key_width + d.value_width)
    masked = s.batch / batch
    own_slow = 16 + 8 * masked

    def over(stream: float, launches: float, casts: float) -> KernelCost:
        casts = casts * narrow
        return KernelCost(stream=stream + 8 * masked, strided=2 + masked + casts, slow_bytes=own_slow + 6 * casts,
                          launches=(launches + casts) * s.pieces + 4, flops=5)  # fmt: skip

    forward, backward = over(32, 10, 2), over(36, 9, 4)
    scores = pair("softmax", layer, batch * queries * keys * ring, forward, backward, category=Category.ATTENTION)
    return [
        product("scores", "forward", keys, width, own * e),
        product(
            "values", "forward", value_dim, keys, d.tokens * ((out_width + d.core_width) * e + d.heads * FP32_BYTES)
        ),
        product("scores again", "backward", keys, width),
        product("values gradient: scores", "backward", keys, value_dim),
        product("values gradient: v", "backward", value_dim, keys),
        product("scores gradient: q", "backward", width, keys),
        product("scores gradient: k", "backward", width, keys),
        *(replace(op, count=ring) for op in scores),
    ]


def gathered_copies(d: RankSizes, layer: str) -> list[Op]:
    """What plain PyTorch copies around gathered keys and values, as it stands in runners/parallel/context.py.

    Keys and values are joined (once more for the gather in backward, where none runs again) and laid out by tokens;
    of what is gathered half is flipped, and all put into order. But for eager attention queries are in two chunks, each
    of which sees as many keys as come before its end: outputs are joined, and in backward slices of keys and values are
    cleared, filled and added up, those of queries joined. The gradients of keys and values are joined, put back into
    order, flipped and added.
    """
    e, pieces = d.widths.compute, where(d.cp > 1, 1.0, 0.0)
    own = d.tokens * (d.key_width + d.value_width)
    whole, outputs, queries = d.cp * own, d.tokens * d.core_width, d.tokens * d.query_width
    halves = 0.0 if d.training.attention == "eager" else 1.0
    anew = 1.0 if d.recompute == "none" else 0.0
    seen = 1.0 + 0.5 / d.cp
    forward = (2 + anew) * own + 1.5 * whole + halves * outputs
    slices = halves * (queries + (seen + 1.0) * whole)
    back, cleared = 3.5 * whole + slices + anew * (own + 1.5 * whole), (2 + 2 * halves) * whole
    return [
        kernels("gathered copies", layer, "forward", elements=forward * pieces, strided=1, slow_bytes=2 * e,
                launches=(4 + anew + halves) * pieces, views=GATHER_VIEWS[0] * pieces),
        kernels("gathered copies gradient", layer, "backward", elements=back * pieces, strided=1, slow_bytes=2 * e,
                stream=e * cleared / back, launches=(7 + 11 * halves + 3 * anew) * pieces,
                views=GATHER_VIEWS[1] * pieces),
    ]  # fmt: skip


def ring_sums(d: RankSizes, layer: str) -> list[Op]:
    """After each further piece the output so far (fp32) is rescaled and added to; in backward three gradients are.

    Fused, each is one kernel. Eager, counted in a step's trace (runners/parallel/zigzag.py): keys and values are
    repeated to all heads before they travel; outputs of 16 bits go to fp32, are multiplied by their weights, added and
    written to their place, the weights in seven launches more. In backward the output's gradient is laid out by heads,
    in two copies, three gradients go to fp32 and back, and those of keys and values, which travel, are cleared and
    added to the own ones at last. The slowest rank, all of whose pieces come from before its own, adds whole outputs.
    """
    e, more, once = d.widths.compute, d.cp - 1, where(d.cp > 1, 1.0, 0.0)
    queries, keys = d.tokens * d.query_width, d.tokens * (d.key_width + d.value_width)
    outputs = d.tokens * d.core_width
    turns = maximum(more, 1.0)
    if d.fused:
        gradients = queries + keys
        return [
            kernels("ring sums", layer, "forward", elements=outputs * more, stream=8 + e, launches=4.0 * more,
                    flops_per_element=3, category=Category.ATTENTION),
            kernels("ring sums gradient", layer, "backward", elements=gradients * more, stream=8 + e,
                    launches=3.0 * more, flops_per_element=1, category=Category.ATTENTION),
        ]  # fmt: skip
    # One kernel takes heads of one width, to which latent attention's values are padded.
    outputs = queries if d.model.latent else outputs
    repeated = queries + outputs - keys
    shared = where(repeated > 0, 0.5 if d.model.latent else 1.0, 0.0)
    keys = keys + repeated
    gradients = queries + keys
    narrow = 1.0 if e < FP32_BYTES else 0.0  # what is in fp32 is cast by nothing
    wide, added = FP32_BYTES + e, (MIXED_ALIKE if narrow else 0.0)
    copied, home = keys * once * shared, queries * more + keys * once
    per_output, per_gradient = 1.0 / (outputs * turns), 1.0 / (gradients * turns)
    strided = outputs * narrow * (once + more) + 2 * outputs * more + copied
    slow_bytes = outputs * narrow * wide * (once + more) + 4 * FP32_BYTES * outputs * more + 2 * e * copied
    stream = 5 * FP32_BYTES * outputs * more + narrow * wide * outputs * once
    strided_back = once * (2 * outputs + narrow * gradients)
    slow_back = once * (4 * e * outputs + narrow * wide * gradients) + narrow * (2 * FP32_BYTES + e) * home
    # Whoever has whole queries in a turn has half of the keys that come, and the other way round.
    stream_back = (
        1.5 * e * keys * more
        + e * keys * once
        + narrow * wide * gradients * once
        + (1 - narrow) * 3 * FP32_BYTES * home
    )
    return [
        kernels("ring sums", layer, "forward", elements=outputs * more, strided=strided * per_output,
                slow_bytes=slow_bytes * per_output, stream=stream * per_output,
                launches=(11 + narrow) * more + 2 * once * (narrow + shared), flops_per_element=3,
                saved_bytes=repeated * e * once),
        kernels("ring sums gradient", layer, "backward", elements=gradients * more,
                strided=strided_back * per_gradient, mixed=added * home * per_gradient,
                slow_bytes=slow_back * per_gradient, stream=stream_back * per_gradient,
                launches=3.0 * more + (6 + 6 * narrow) * once, flops_per_element=1),
    ]  # fmt: skip
