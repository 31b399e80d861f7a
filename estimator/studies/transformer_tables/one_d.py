"""Rows of 1D tensor parallelism with a sequence split: as printed, and with each defect of the reference corrected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from estimator.studies.transformer_tables import rows as formulas
from estimator.studies.transformer_tables.inputs import Inputs
from estimator.studies.transformer_tables.rows import Exchange, Row, Words

LATER = 11
FIXES: dict[int, str] = {
    1: "the call passes depth and {m1, m2} to functions that take neither (TypeError)",
    2: "volumes are of the whole tensor V; a ring of m ranks receives V·(m − 1)/m",
    3: "600 GB/s counts both directions of the link; what a rank receives has half",
    4: "the MLP lacks the layer norm before it, attention has one too many after it",
    5: "the code shown drops out b·l·f/m elements after fc2, and both dropouts are dpr1",
    6: "backward's all-gather of dY stands at the dropout; fc2 and v_proj need it",
    7: "the tables leave out what a reduce-scatter adds up, and the code counts v_proj's forward one in backward",
    8: "fc1 and qkv keep the gathered input; sequence parallelism keeps 1/m and gathers again",
    9: "2D, 2.5D and 3D are not filled in",
    10: "layers without an exchange have no group: no topology and no time",
    LATER: "the next revision reads and writes activation gradients, and norms keep mean and deviation",
}
ALL_FIXES = frozenset(FIXES)
"""What is wrong with the reference, 1 to 10, and what its next revision changed, 11. 1, 5, 9 and 10 are of the code
shown beside the tables and do not touch the printed figures."""


def mlp_rows(i: Inputs, words: Words, fixes: frozenset[int]) -> list[Row]:
    """Return the rows of the MLP with these defects corrected."""
    t, m, width = i.tokens, i.m, i.f / i.m
    send = _sender(i, fixes)
    adds = t * i.e * (m - 1) / m if 7 in fixes else 0.0
    fc1 = formulas.linear("fc1", words, tokens=t, inputs=i.e, outputs=width, bias=True)
    fc1 = replace(fc1, flops_bwd=fc1.flops_bwd + adds, backward=send("reducescatter"))
    fc2 = formulas.linear("fc2", words, tokens=t, inputs=width, outputs=i.e, bias=True)
    fc2 = replace(fc2, flops_fwd=fc2.flops_fwd + adds, forward=send("reducescatter"))
    dpr2 = formulas.dropout("dpr2", words, t / m * i.e)
    fc2, dpr2 = _with_gather(fc2, dpr2, send, fixes)
    rows = [
        _gathered_again(fc1, i, send, fixes),
        formulas.activation(words, t * width),
        formulas.dropout("dpr1", words, t * width),
        fc2,
        dpr2,
    ]
    return [_norm("layer_norm_2", i, words, send), *rows] if 4 in fixes else rows


def attention_rows(i: Inputs, words: Words, fixes: frozenset[int]) -> list[Row]:
    """Return the rows of self-attention with these defects corrected."""
    t, m, q = i.tokens, i.m, i.e // i.h
    send = _sender(i, fixes)
    adds = t * i.e * (m - 1) / m if 7 in fixes else 0.0
    core = {"b": i.b, "l": i.l, "h": i.h / m}
    qkv = formulas.linear("qkv_proj", words, tokens=t, inputs=i.e, outputs=3 * i.e / m, bias=False)
    qkv = replace(qkv, flops_bwd=qkv.flops_bwd + adds, backward=send("reducescatter"))
    out = formulas.linear("v_proj", words, tokens=t, inputs=i.e / m, outputs=i.e, bias=True)
    out = replace(out, flops_fwd=out.flops_fwd + adds, forward=send("reducescatter"))
    out, dropped = _with_gather(out, formulas.dropout("dropout", words, t / m * i.e), send, fixes)
    rows = [
        _norm("layer_norm_1", i, words, send),
        _gathered_again(qkv, i, send, fixes),
        formulas.logits(words, q=q, **core),
        formulas.softmax(words, **core),
        formulas.dropout("dropout_softmax", words, i.tokens * i.l * i.h / m),
        formulas.attend(words, q=q, **core),
        out,
        dropped,
    ]
    return rows if 4 in fixes else [*rows, _norm("layer_norm_2", i, words, send)]


Sender = Callable[[str], tuple[Exchange, ...]]


def _sender(i: Inputs, fixes: frozenset[int]) -> Sender:
    """Return what writes an exchange of the (b, l, e) tensor over all m ranks."""
    bytes = i.tokens * i.e * i.element_bytes * ((i.m - 1) / i.m if 2 in fixes else 1.0)

    def send(type: str) -> tuple[Exchange, ...]:
        return (Exchange(type=type, bytes=bytes, size=i.m, span=i.m, steps=i.m - 1),) if i.m > 1 else ()

    return send


def _norm(layer: str, i: Inputs, words: Words, send: Sender) -> Row:
    row = formulas.layer_norm(layer, words, tokens=i.tokens / i.m, width=i.e)
    return replace(row, forward=send("allgather"))


def _with_gather(row: Row, dropped: Row, send: Sender, fixes: frozenset[int]) -> tuple[Row, Row]:
    """Give backward's all-gather of dY to the linear that needs it, or to the dropout after it as printed."""
    if 6 in fixes:
        return replace(row, backward=send("allgather")), dropped
    return row, replace(dropped, backward=send("allgather"))


def _gathered_again(row: Row, i: Inputs, send: Sender, fixes: frozenset[int]) -> Row:
    """Keep only a rank's tokens of a linear's input and gather the others once more in backward."""
    if 8 not in fixes:
        return row
    kept = row.buffer_bytes / i.m
    return replace(row, buffer_bytes=kept, reread_bytes=row.buffer_bytes, backward=(*row.backward, *send("allgather")))
