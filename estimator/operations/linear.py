"""Linear layers: one product forward, two backward, and the copies that autocast or narrow operands put around them."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations.op import WHOLE, Op, gemm, kernels, parted
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.model import expert_layers
from estimator.scenario.units import Number

READ_AGAIN = {"fp4": (2.0, 3.0)}
"""How often a weight is read to be quantised, and an input or a gradient, where not once for copy and transpose. Of fp4
all are read before for the largest of the whole tensor, and what is no weight again for the transpose, which a Hadamard
transform mixes (NVFP4Quantizer in transformer_engine/pytorch/csrc/quantizer.cpp; arXiv 2509.25149, section 4)."""


PRODUCT_VIEWS, GRADIENT_VIEWS, LOOP_GRADIENT_VIEWS = 3.0, 3.5, 1.0
"""Ops around a linear's product that launch nothing: weight turned, rows flattened and back; as many around each of its
two gradients, with autograd's own. An expert of a loop multiplies rows that are flat (runners/model/experts.py)."""
BIAS_VIEWS = 1.0
"""The gradient of a bias in its shape."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a linear's products do beside multiplying.

    ``result_bytes``, ``gradient_bytes``: written and read for an element of the result and of the input's gradient;
    ``quantised``: what others have made narrow, input or gradient.
    """

    result_bytes: float
    gradient_bytes: float
    quantised: str = ""


def linear(
    d: RankSizes,
    name: str,
    layer: str,
    *,
    inputs: Number,
    outputs: Number,
    projections: int = 1,
    bias: bool = False,
    saves_input: bool = True,
    input_copies: int = 1,
    kept: Number | None = None,
    rows: Number | None = None,
    batch: Number = 1.0,
    launches: Number = 1.0,
    experts: bool = False,
    whole: bool = False,
    quantised: bool = True,
    shares_input: bool = False,
    fetched: int = WHOLE,
    beside: Beside | None = None,
) -> list[Op]:
    """Return the ops of ``projections`` linears of the same input, ``outputs`` wide together.

    Forward: (N × in)·(in × out). Backward: gradient of the input and of the weight. The input is kept once, or
    ``input_copies`` times where autocast casts it anew for each projection; ``kept`` elements of it, where a rank keeps
    only its share and gathers again in backward. Quantised, every linear keeps its own narrow copy, unless it
    ``shares_input`` with the linear before it. ``rows`` default to the rank's tokens; ``batch`` weights (of
    ``experts``) multiply ``rows`` each, ``launches`` kernels at a time. On a grid ``inputs`` and ``outputs`` are the
    rank's share, and panels are multiplied one after another (see RankSizes), unless every rank holds the ``whole``
    weight.
    ``beside``: what products do beside multiplying, where kernels of their own do not.
    """
    n = d.widths
    rows = d.tokens if rows is None else rows
    kept = batch * rows * inputs if kept is None else kept
    steps, gather = (1.0, 1.0) if whole else (d.steps, d.row_gather)
    quantised = quantised and n.quantised
    e = n.linear if quantised else n.compute
    if quantised:
        # Whoever kept the input else, backward multiplies with the linear's own transposed copy.
        kept_bytes = 0.0 if shares_input else kept * e
    else:
        kept_bytes = kept * e * (input_copies if n.autocast else 1) if saves_input else 0.0
    each, count, m = outputs / projections, projections * steps, rows * gather
    precision = n.linear_peak if quantised else n.peak
    apart = experts and d.training.multiplies_apart
    loop = experts and not d.groups_experts
    forward_views, gradient_views = (0.0, LOOP_GRADIENT_VIEWS) if loop else (PRODUCT_VIEWS, GRADIENT_VIEWS)
    alike = launches * expert_layers(d.model) * projections if loop else 0.0
    grouped = experts and d.training.multiplies_grouped

    def product(
        name: str,
        phase: str,
        m: Number,
        n: Number,
        k: Number,
        result: float,
        saved: Number = 0.0,
        weight: bool = False,
    ) -> Op:
        return gemm(name, layer, phase, m=m, n=n, k=k, element_bytes=e, precision=precision, batch=batch,
                    output_bytes=result, count=count, saved_bytes=saved, launches=launches,
                    views=launches * (forward_views if phase == "forward" else gradient_views), alike=alike,
                    fetched=fetched, weight=weight, apart=apart, grouped=grouped)  # fmt: skip

    accumulator = 2 * n.gradient if d.training.traits.adds_in_products else n.compute
    moved = beside or Beside(result_bytes=n.compute, gradient_bytes=n.compute)
    ops = [
        product(name, "forward", m, each, inputs, moved.result_bytes, kept_bytes / count),
        product(f"{name} input gradient", "backward", m, inputs, each, moved.gradient_bytes),
        product(f"{name} weight gradient", "backward", inputs, each, m, accumulator, weight=True),
    ]
    elements = batch * rows * inputs
    width = n.residual if n.autocast else n.compute
    if projections > 1 and not d.fused_projections:
        ops.append(
            kernels(f"{name} gradient sum", layer, "backward", elements=elements,
                    stream=3 * width * (projections - 1), chained=parted(((width, projections - 1),), launches),
                    launches=(projections - 1) * launches, flops_per_element=projections - 1)
        )  # fmt: skip
    if bias and not d.fused:
        ops.append(
            kernels(f"{name} bias gradient", layer, "backward", elements=batch * rows * outputs, stream=n.compute,
                    column=n.compute, launches=projections * launches, views=BIAS_VIEWS * projections * launches,
                    flops_per_element=1, weight=True)
        )  # fmt: skip
    if n.autocast or quantised:
        weight = batch * inputs * outputs / gather
        if n.autocast:
            ops += _casts(name, layer, elements, weight, projections * launches, input_copies, launches)
            if bias and not d.fused:
                ops += _bias_casts(name, layer, batch * outputs, projections * launches)
        else:
            found = _quantisations(
                d,
                name,
                layer,
                elements,
                batch * rows * outputs,
                weight,
                not shares_input,
                launches,
                batch if apart else 1.0,
            )
            ops += [op for op in found if beside is None or op.name != f"{name} {beside.quantised} quantisation"]
    return ops


def _casts(
    name: str, layer: str, elements: Number, weight: Number, tensors: Number, copies: int, launches: Number
) -> list[Op]:
    """Autocast: the input fp32 → 16 bit for each projection, the weight once; back again in backward."""
    ops = [
        kernels(f"{name} weight cast", layer, "forward", elements=weight, stream=6, launches=tensors,
                saved_bytes=2 * weight),
        kernels(f"{name} weight gradient cast", layer, "backward", elements=weight, strided=1, slow_bytes=6,
                launches=tensors, weight=True),
    ]  # fmt: skip
    if copies:
        elements, launches = elements * copies, copies * launches
        ops += [
            kernels(f"{name} input cast", layer, "forward", elements=elements, stream=6, launches=launches,
                    chained=parted(((4, 1),), launches)),
            kernels(f"{name} input gradient cast", layer, "backward", elements=elements, strided=1, slow_bytes=6,
                    launches=launches),
        ]  # fmt: skip
    return ops


def _bias_casts(name: str, layer: str, elements: Number, launches: Number) -> list[Op]:
    """Autocast: the bias fp32 → 16 bit, its gradient back."""
    return [
        kernels(f"{name} bias cast", layer, "forward", elements=elements, stream=6, launches=launches),
        kernels(f"{name} bias gradient cast", layer, "backward", elements=elements, strided=1, slow_bytes=6,
                launches=launches, weight=True),
    ]  # fmt: skip


def _quantisations(
    d: RankSizes, name: str, layer: str, inputs: Number, outputs: Number, weight: Number, own: bool, launches: Number,
    times: Number,
) -> list[Op]:  # fmt: skip
    """Read input, weight and the output's gradient (``READ_AGAIN``), write a narrow copy and its transpose of each.

    The transposes are what backward multiplies with. The weight is quantised once per micro-batch. Who multiplies
    experts apart quantises them so, too, so many ``times`` (multi_tensor_quantize of transformer_engine/pytorch/csrc/
    extensions/cast.cpp, but for delayed scales).
    """
    n = d.widths
    once, others = READ_AGAIN.get(n.linear_peak, (1.0, 1.0))
    tensors = [("weight", "forward", weight, once), ("input", "forward", inputs, others),
               ("gradient", "backward", outputs, others)]  # fmt: skip
    return [
        kernels(f"{name} {what} quantisation", layer, phase, elements=elements, stream=reads * n.compute + 2 * n.linear,
                launches=reads * launches, times=times)
        for what, phase, elements, reads in tensors
        if own or what != "input"
    ]  # fmt: skip
