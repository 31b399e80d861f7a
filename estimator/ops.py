"""Op: what one rank computes, reads, keeps and launches, before anything is priced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.units import Number

KINDS = ("gemm", "attention", "kernels")


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One logical operation of one phase, executed ``count`` times per micro-batch on one rank.

    ``gemm``: ``batch`` products (m × k)·(k × n). ``attention``: ``batch`` heads of m queries, n keys, k wide, fused.
    ``kernels``: memory-bound kernels: ``stream_bytes`` move in contiguous, vectorised kernels; ``strided_elements``
    pass through kernels limited by elements, not bytes (broadcasts, upcasts, strided copies); ``mixed_elements``
    through the slower ones whose operands differ in type. All sizes are per execution.
    ``efficiency`` names the efficiency that the rate takes where kind and precision leave a choice.
    """

    name: str
    layer: str
    phase: str
    category: str
    kind: str
    count: Number = 1.0
    batch: Number = 1.0
    m: Number = 0.0
    n: Number = 0.0
    k: Number = 0.0
    flops: Number = 0.0
    bytes: Number = 0.0
    stream_bytes: Number = 0.0
    strided_elements: Number = 0.0
    mixed_elements: Number = 0.0
    launches: Number = 1.0
    saved_bytes: Number = 0.0
    precision: str = ""
    aligned: bool = True
    recomputed: bool = False
    efficiency: str = ""


def gemm(
    name: str,
    layer: str,
    phase: str,
    *,
    m: Number,
    n: Number,
    k: Number,
    element_bytes: float,
    precision: str,
    batch: Number = 1.0,
    output_bytes: float | None = None,
    count: Number = 1.0,
    saved_bytes: Number = 0.0,
    launches: Number = 1.0,
    aligned: bool = True,
    category: str = "matmul",
) -> Op:
    """Describe ``batch`` matrix products: 2·batch·m·n·k FLOPs; each operand read and the result written once."""
    result = element_bytes if output_bytes is None else output_bytes
    return Op(
        name=name,
        layer=layer,
        phase=phase,
        category=category,
        kind="gemm",
        count=count,
        batch=batch,
        m=m,
        n=n,
        k=k,
        flops=2.0 * batch * m * n * k,
        bytes=batch * ((m * k + k * n) * element_bytes + m * n * result),
        launches=launches,
        saved_bytes=saved_bytes,
        precision=precision,
        aligned=aligned,
    )


def kernels(
    name: str,
    layer: str,
    phase: str,
    *,
    elements: Number,
    stream: float = 0.0,
    strided: float = 0.0,
    mixed: float = 0.0,
    slow_bytes: float = 0.0,
    launches: Number = 1.0,
    saved_bytes: Number = 0.0,
    count: Number = 1.0,
    flops_per_element: float = 0.0,
    category: str = "elementwise",
) -> Op:
    """Describe memory-bound kernels over ``elements``: bytes per element streamed, passes per element that are slow.

    ``slow_bytes`` is the traffic per element of the slow passes, for the roofline; their time follows elements.
    """
    return Op(
        name=name,
        layer=layer,
        phase=phase,
        category=category,
        kind="kernels",
        count=count,
        flops=flops_per_element * elements,
        bytes=(stream + slow_bytes) * elements,
        stream_bytes=stream * elements,
        strided_elements=strided * elements,
        mixed_elements=mixed * elements,
        launches=launches,
        saved_bytes=saved_bytes,
    )


def again(op: Op) -> Op:
    """Return a forward op as it runs once more in backward under recomputation; it keeps nothing."""
    return replace(op, phase="backward", recomputed=True, saved_bytes=0.0)
