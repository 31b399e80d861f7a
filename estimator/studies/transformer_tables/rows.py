"""Rows of the analytical transformer tables: what one layer computes, reads, keeps and sends on one rank.

The helper formulas of the reference (Subramanian et al. 2024, arXiv 2410.00273, and its public program): exact FLOP
counts, an addition and a multiplication one each. ``later`` takes the program's next revision, in which activation
gradients are read and written, and layer norm keeps mean and deviation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Bytes of an element and of an element of a dropout mask."""

    element_bytes: float = 2.0
    mask_bytes: float = 1.0
    later: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One collective of a row: bytes that a rank receives from ``size`` ranks, and the chips that these span."""

    type: str
    bytes: float
    size: int
    span: int
    steps: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One layer on one rank. ``reread_bytes``: what backward reads of the input where that is not what was kept."""

    layer: str
    matrix: bool = False
    flops_fwd: float
    flops_bwd: float
    in_bytes: float
    other_bytes: float = 0.0
    out_bytes: float
    buffer_bytes: float
    weights_bytes: float = 0.0
    gradient_bytes: float
    reread_bytes: float | None = None
    forward: tuple[Exchange, ...] = ()
    backward: tuple[Exchange, ...] = ()

    @property
    def total_fwd_bytes(self) -> float:
        """Forward memory traffic: in + other + out + weights."""
        return self.in_bytes + self.other_bytes + self.out_bytes + self.weights_bytes

    @property
    def total_bwd_bytes(self) -> float:
        """Backward memory traffic: gradients of weights and activations, weights, and what forward kept.

        A matrix layer reads its weights once more for the gradient of its input; layer norm does not.
        """
        weights = (2 if self.matrix else 1) * self.weights_bytes
        return weights + self.gradient_bytes + (self.buffer_bytes if self.reread_bytes is None else self.reread_bytes)


def linear(layer: str, words: Words, *, tokens: float, inputs: float, outputs: float, bias: bool) -> Row:
    """Y = X·W [+ bias]: forward t·o·(2i − 1) FLOPs, backward t·i·(2o − 1) + i·o·(2t − 1), and t·o each for a bias."""
    s = words.element_bytes
    adds = tokens * outputs if bias else 0.0
    return Row(
        layer=layer,
        matrix=True,
        flops_fwd=tokens * outputs * (2 * inputs - 1) + adds,
        flops_bwd=tokens * inputs * (2 * outputs - 1) + inputs * outputs * (2 * tokens - 1) + adds,
        in_bytes=tokens * inputs * s,
        out_bytes=tokens * outputs * s,
        buffer_bytes=tokens * inputs * s,
        weights_bytes=(inputs * outputs + (outputs if bias else 0)) * s,
        gradient_bytes=(tokens * inputs + tokens * outputs) * s,
    )


def logits(words: Words, *, b: float, l: float, q: float, h: float) -> Row:  # noqa: E741 (the reference's letters)
    """A = Q·Kᵀ: b·h·l²·(2q − 1) FLOPs."""
    vectors, scores = b * h * l * q, b * h * l * l
    s = words.element_bytes
    return Row(
        layer="logits",
        matrix=True,
        flops_fwd=scores * (2 * q - 1),
        flops_bwd=2 * vectors * (2 * l - 1),
        in_bytes=vectors * s,
        other_bytes=vectors * s,
        out_bytes=scores * s,
        buffer_bytes=2 * vectors * s,
        gradient_bytes=(2 * vectors + scores) * s,
    )


def softmax(words: Words, *, b: float, l: float, h: float) -> Row:  # noqa: E741
    """Exponentials, sums and divisions of b·h·l² scores."""
    scores = b * h * l * l
    s = words.element_bytes
    sums = b * h * l * (l - 1)
    return Row(
        layer="softmax",
        flops_fwd=2 * scores + sums,
        flops_bwd=3 * scores + sums,
        in_bytes=scores * s,
        out_bytes=scores * s,
        buffer_bytes=scores * s,
        gradient_bytes=2 * scores * s,
    )


def attend(words: Words, *, b: float, l: float, q: float, h: float) -> Row:  # noqa: E741
    """Y = A·V: b·h·l·q·(2l − 1) FLOPs."""
    vectors, scores = b * h * l * q, b * h * l * l
    s = words.element_bytes
    return Row(
        layer="attend",
        matrix=True,
        flops_fwd=vectors * (2 * l - 1),
        flops_bwd=scores * (2 * q - 1) + vectors * (2 * l - 1),
        in_bytes=scores * s,
        other_bytes=vectors * s,
        out_bytes=vectors * s,
        buffer_bytes=(scores + vectors) * s,
        gradient_bytes=((2 if words.later else 1) * vectors + scores) * s,
    )


def dropout(layer: str, words: Words, elements: float) -> Row:
    """Elements times a mask that is kept."""
    s, k = words.element_bytes, words.mask_bytes
    return Row(
        layer=layer,
        flops_fwd=elements,
        flops_bwd=elements,
        in_bytes=elements * s,
        other_bytes=elements * k,
        out_bytes=elements * s,
        buffer_bytes=elements * k,
        gradient_bytes=(2 if words.later else 1) * elements * s,
    )


def activation(words: Words, elements: float) -> Row:
    """A non-linearity, one FLOP for each element; its input is kept."""
    s = words.element_bytes
    return Row(
        layer="act",
        flops_fwd=elements,
        flops_bwd=elements,
        in_bytes=elements * s,
        out_bytes=elements * s,
        buffer_bytes=elements * s,
        gradient_bytes=(2 if words.later else 1) * elements * s,
    )


def layer_norm(layer: str, words: Words, *, tokens: float, width: float) -> Row:
    """9 FLOPs for each element forward, 9 and 4·t·(e − 1) in all backward; a scale and a shift of e each."""
    s, elements = words.element_bytes, tokens * width
    return Row(
        layer=layer,
        flops_fwd=9 * elements,
        flops_bwd=9 * elements + 4 * tokens * (width - 1),
        in_bytes=elements * s,
        other_bytes=2 * tokens * s if words.later else 0.0,
        out_bytes=elements * s,
        buffer_bytes=elements * s,
        weights_bytes=2 * width * s,
        gradient_bytes=2 * elements * s,
    )
