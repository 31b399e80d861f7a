"""Profiles made of a few ops, and what is proposed of them."""

from __future__ import annotations

from typing import Any

from estimator.scenario.op_list import Call, Operand, OpList, Signature
from estimator.scenario.proposal.proposal import Proposal, proposal


def kernel(name: str, *shapes: tuple[int, ...], **arguments: Any) -> Signature:
    return Signature(op=name, inputs=tuple(Operand(shape=one, dtype="bfloat16") for one in shapes), arguments=arguments)


def made(*signatures: Signature, **changes: Any) -> Proposal:
    phases = ("forward",) * len(signatures)
    ops = OpList(
        source="profile",
        program="made",
        signatures=signatures,
        calls=tuple(Call(kind="kernel", signature=at, phase=phase) for at, phase in enumerate(phases)),
        **changes,
    )
    return proposal(ops)


Q = (2, 8, 16, 64)
TABLE = Signature(
    op="aten::embedding",
    inputs=(Operand(shape=(100, 512), dtype="bfloat16"), Operand(shape=(2, 16), dtype="int64")),
)


def of_widths(*products: tuple[int, int], **changes: Any) -> Proposal:
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    return made(TABLE, attention, *[kernel("aten::mm", (32, a), (a, b)) for a, b in products], **changes)


NETWORK = ((512, 2048), (2048, 512), (512, 100))
