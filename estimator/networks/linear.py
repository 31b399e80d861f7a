"""Linear layers: one product forward, two backward, and the casts that autocast puts around them."""

from __future__ import annotations

from estimator.networks.dims import Dims
from estimator.ops import Op, gemm, kernels
from estimator.units import Number


def linear(
    d: Dims,
    name: str,
    layer: str,
    *,
    inputs: Number,
    outputs: Number,
    projections: int = 1,
    bias: bool = False,
    saves_input: bool = True,
    input_copies: int = 1,
    kept_tokens: Number | None = None,
    aligned: bool = True,
) -> list[Op]:
    """Return the ops of ``projections`` linears of the same input, ``outputs`` wide together.

    Forward: (N × in)·(in × out). Backward: gradient of the input and of the weight. The input is kept once, or
    ``input_copies`` times where autocast casts it anew for each projection. ``kept_tokens``: under sequence parallelism
    a rank keeps only its share and gathers again in backward.
    """
    n, rows = d.numbers, d.tokens
    e = n.compute
    each = outputs / projections
    kept = (
        (rows if kept_tokens is None else kept_tokens) * inputs * e * (input_copies if n.autocast else 1)
        if saves_input
        else 0.0
    )
    ops = [
        gemm(
            name,
            layer,
            "forward",
            count=projections,
            m=rows,
            n=each,
            k=inputs,
            element_bytes=e,
            precision=n.peak,
            saved_bytes=kept / projections,
            aligned=aligned,
        ),
        gemm(
            f"{name} input gradient",
            layer,
            "backward",
            count=projections,
            m=rows,
            n=inputs,
            k=each,
            element_bytes=e,
            precision=n.peak,
            aligned=aligned,
        ),
        gemm(
            f"{name} weight gradient",
            layer,
            "backward",
            count=projections,
            m=inputs,
            n=each,
            k=rows,
            element_bytes=e,
            output_bytes=n.gradient if d.training.framework == "megatron" else e,
            precision=n.peak,
            aligned=aligned,
        ),
    ]
    if projections > 1 and not d.fused_projections:
        ops.append(
            kernels(
                f"{name} gradient sum",
                layer,
                "backward",
                elements=rows * inputs,
                stream=3 * (n.residual if n.autocast else e) * (projections - 1),
                launches=projections - 1,
                flops_per_element=projections - 1,
            )
        )
    if bias and not d.fused:
        ops.append(
            kernels(
                f"{name} bias gradient",
                layer,
                "backward",
                elements=rows * outputs,
                stream=e,
                launches=projections * 1.0,
                flops_per_element=1,
            )
        )
    if n.autocast:
        ops += _casts(
            name, layer, rows=rows, inputs=inputs, outputs=outputs, projections=projections, copies=input_copies
        )
    return ops


def _casts(
    name: str, layer: str, *, rows: Number, inputs: Number, outputs: Number, projections: int, copies: int
) -> list[Op]:
    """Autocast: the input fp32 → 16 bit for each projection, the weight once; back again in backward."""
    weight = inputs * outputs
    ops = [
        kernels(
            f"{name} weight cast",
            layer,
            "forward",
            elements=weight,
            stream=6,
            launches=projections * 1.0,
            saved_bytes=2 * weight,
        ),
        kernels(
            f"{name} weight gradient cast",
            layer,
            "backward",
            elements=weight,
            strided=1,
            slow_bytes=6,
            launches=projections * 1.0,
        ),
    ]
    if copies:
        elements = rows * inputs * copies
        ops += [
            kernels(f"{name} input cast", layer, "forward", elements=elements, stream=6, launches=copies * 1.0),
            kernels(
                f"{name} input gradient cast",
                layer,
                "backward",
                elements=elements,
                strided=1,
                slow_bytes=6,
                launches=copies * 1.0,
            ),
        ]
    return ops
