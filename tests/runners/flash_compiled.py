"""Compile Hopper's kernels for compute capability 9.0, which needs no GPU; print their shared memory as JSON."""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout, bfloat16, float32

from runners.flash import hopper_backward, hopper_forward
from runners.flash.hopper_launch import BLOCK, REGISTERS, STAGES


def descriptor(element, shape):
    if len(shape) == 1:
        layout = NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    else:
        layout = NVMMASharedLayout.get_default_for(shape, element)
    return f"tensordesc<{element.name}{list(shape)},{layout!r}>"


def whole_numbers(*names):
    return dict.fromkeys(names, "i32")


def places(*tensors):
    return whole_numbers(*(f"{name}_{what}" for name in tensors for what in ("batch", "head", "columns")))


def signature_of_forward(dim):
    query, key = descriptor(bfloat16, [64, dim]), descriptor(bfloat16, [BLOCK, dim])
    return (
        {"query": query, "key": key, "value": key, "out": query, "lse": "*fp32", "scale": "fp32"}
        | places("q", "k", "v", "o")
        | whole_numbers("query_length", "key_length", "heads", "groups", "head_count", "heads_at_once")
    )


def signature_of_backward(dim):
    rows = 64 if dim == 128 else 128
    query, key, line = (
        descriptor(bfloat16, [rows, dim]),
        descriptor(bfloat16, [BLOCK, dim]),
        descriptor(float32, [rows]),
    )
    return (
        {"query": query, "dout": query, "key": key, "value": key, "lse": line, "delta": line}
        | {
            "summed": descriptor(float32, [rows, dim]),
            "dkey": key,
            "dvalue": key,
            "scale": "fp32",
            "gradient_scale": "fp32",
        }
        | places("q", "g", "k", "v", "dk", "dv")
        | whole_numbers("query_length", "key_length", "heads", "groups", "key_head_count", "heads_at_once")
    )


def compiled(kernel, signature, constants, warps):
    signature = signature | dict.fromkeys(constants, "constexpr")
    source = GluonASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": warps, "maxnreg": REGISTERS}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def main() -> None:
    for dim in (64, 128):
        constants = {"CAUSAL": True, "STAGES": STAGES}
        found = {
            "forward": compiled(
                hopper_forward.flash_forward_hopper, signature_of_forward(dim), constants | {"TAKE_TURNS": dim == 64}, 4
            ),
            "backward": compiled(hopper_backward.flash_backward_hopper, signature_of_backward(dim), constants, 8),
        }
        for name, kernel in found.items():
            products = kernel.asm["ptx"].count("wgmma.mma_async")
            row = {"kernel": name, "dim": dim, "shared_bytes": kernel.metadata.shared, "products": products}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
