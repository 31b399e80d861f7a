"""What tests of kernels of ops share: operands, the one kernel of an op, a chip to price it on."""

from __future__ import annotations

from estimator.cost.efficiency import efficiencies
from estimator.operations.aten import kernels_of
from estimator.scenario import catalog
from estimator.scenario.op_list import Operand, Signature

CHIP, E = catalog.chip("h200-sxm"), efficiencies("hopper")


def tensor(*shape, dtype="bfloat16", strides=None):
    return Operand(shape=shape, dtype=dtype, strides=strides)


def one(op, *inputs, out=None, **arguments):
    outputs = () if out is None else (out,)
    (found,) = kernels_of(Signature(op=op, inputs=inputs, outputs=outputs, arguments=arguments))
    return found
