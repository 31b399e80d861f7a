"""LSTM language model: embedding, a stack of recurrent layers, an optional projection, a softmax over the vocabulary.

One cell multiplies [x, h] (B × 2D) by the weights of all gates (2D × G·D). What is recorded here is work, not time:
products C[a, c] = A[a, b]·B[b, c], and pointwise FLOPs and bytes as the June 2019 revision of DeepFlow counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.codec import spec
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class Lstm:
    """Sizes of the model and of one batch; the defaults are the reference's."""

    batch: int = spec(512, minimum=1, maximum=10**7, help="sequences in the batch")
    vocab: int = spec(800_000, minimum=1, maximum=10**8, help="words")
    layers: int = spec(2, minimum=1, maximum=10**4, help="recurrent layers")
    hidden: int = spec(19_968, minimum=1, maximum=10**6, help="width of a layer")
    projection: int = spec(2_048, minimum=1, maximum=10**6, help="width of the projection before the softmax")
    sequence: int = spec(20, minimum=1, maximum=10**5, help="time steps")
    gates: int = spec(4, minimum=1, maximum=16, help="gates of a cell")
    element_bytes: int = spec(4, minimum=1, maximum=8, help="bytes of one number")


@dataclass(frozen=True, kw_only=True)
class Product:
    """One matrix product (a × b)·(b × c)."""

    name: str
    a: Number
    b: Number
    c: Number


@dataclass(frozen=True, kw_only=True)
class Pointwise:
    """Work of every element apart from products: FLOPs, bytes of memory, kernels."""

    name: str
    flops: Number
    bytes: Number
    launches: int


def forward_product(m: Lstm, part: str, width: int) -> Product:
    """Forward product of ``hidden``, ``softmax`` or ``projection``: activations times weights.

    ``width`` is what comes into the softmax: the hidden layer's, or the projection's.
    """
    rows = m.batch * m.sequence
    shapes = {
        "hidden": (m.batch, 2 * m.hidden, m.gates * m.hidden),
        "softmax": (rows, width, m.vocab),
        "projection": (rows, m.hidden, m.projection),
    }
    a, b, c = shapes[part]
    return Product(name={"hidden": "Cf", "softmax": "softmax_f", "projection": "projection"}[part], a=a, b=b, c=c)


def cell_forward(m: Lstm) -> Pointwise:
    """One cell, one time step: bias, G + 1 nonlinearities per G gates, pointwise multiply and add."""
    elements = m.batch * m.hidden * m.gates
    return Pointwise(
        name="Hidden",
        flops=elements * (1 + 5 / 4 + 1),
        bytes=m.element_bytes * elements * (3 * 2 + 2 * 5 / 4),
        launches=15,
    )


def cell_backward(m: Lstm, *, corrected: bool = False) -> Pointwise:
    """One cell backward, and the weights' accumulation over time steps.

    The reference counts the work of one gate, and the accumulation's traffic in elements; ``corrected`` counts all
    gates, and bytes.
    """
    accumulated = 2 * m.hidden * (m.gates * m.hidden)
    elements = m.batch * m.hidden * (m.gates if corrected else 1)
    return Pointwise(
        name="(gr) Hidden",
        flops=elements * (1 + 5 / 4 + 1) + accumulated,
        bytes=m.element_bytes * elements * (3 * 2 + 2 * 5 / 4)
        + accumulated * 3 * (m.element_bytes if corrected else 1),
        launches=15,
    )


def softmax_forward(m: Lstm) -> Pointwise:
    """Exponential, row sums and division of every position's logits."""
    rows = m.batch * m.sequence
    return Pointwise(
        name="Softmax", flops=rows * (3 * m.vocab - 1), bytes=m.element_bytes * rows * (7 * m.vocab), launches=4
    )


def softmax_backward(m: Lstm) -> Pointwise:
    """Gradient of the softmax: 5 FLOPs on 11 accesses for every logit."""
    rows = m.batch * m.sequence
    return Pointwise(
        name="(gr) Softmax", flops=rows * m.vocab * 5, bytes=m.element_bytes * rows * m.vocab * 11, launches=4
    )


def embedding_bytes(m: Lstm) -> Number:
    """Bytes of looking up every position's vector once: read and written, 2·p·B·D·S."""
    return 2 * m.batch * m.hidden * m.sequence * m.element_bytes


def weight_shape(m: Lstm, part: str, width: int) -> tuple[int, int]:
    """Rows and columns of the weights of ``hidden`` (one layer), ``projection`` or ``softmax``, without the bias."""
    return {
        "hidden": (2 * m.hidden, m.gates * m.hidden),
        "projection": (m.hidden, m.projection),
        "softmax": (width, m.vocab),
    }[part]


def clipping(name: str, elements: Number, element_bytes: Number) -> Pointwise:
    """Clipping by the global norm: square and sum, multiply and divide; three accesses of every gradient."""
    return Pointwise(name=f"{name} gradclip", flops=elements * 4, bytes=elements * 3 * element_bytes, launches=0)


def update(name: str, elements: Number, element_bytes: Number) -> Pointwise:
    """Application of the gradient: divide, scale by the learning rate, add; seven accesses of every weight."""
    return Pointwise(name=f"{name} applyGrad", flops=elements * 3, bytes=elements * 7 * element_bytes, launches=0)
