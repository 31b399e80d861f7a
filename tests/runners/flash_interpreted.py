"""Run the portable kernels in Triton's interpreter, on a CPU, and print their errors as JSON; a process of its own.

Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import json

import torch

from runners.flash import triton_launch
from runners.flash.tiles import Tile
from tests.runners.flash_reference import errors, random_inputs

DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
CASES = [
    (precision, heads, key_heads, length, keys, dim, causal, batch)
    for precision in DTYPES
    for heads, key_heads, length, keys, dim, causal, batch in (
        (2, 2, 64, 64, 16, True, 1),
        (1, 1, 64, 64, 64, False, 1),
        (4, 2, 50, 50, 24, True, 2),
        (4, 1, 33, 70, 16, False, 1),
        (1, 1, 70, 33, 40, False, 2),
        (1, 1, 1, 1, 16, True, 2),
    )
]
TILE = Tile(block_q=16, block_k=32, warps=4, stages=1)


class Kernels:
    """The kernels with tiles small enough for several of them in a small matrix."""

    @staticmethod
    def forward(*arguments):
        return triton_launch.forward(*arguments, TILE)

    @staticmethod
    def backward(*arguments):
        return triton_launch.backward(*arguments, TILE)


def main() -> None:
    for case in CASES:
        precision, heads, key_heads, length, keys, dim, causal, batch = case
        inputs = random_inputs(batch, heads, key_heads, length, keys, dim, DTYPES[precision])
        print(json.dumps({"case": case, "errors": errors(Kernels, inputs, causal)}), flush=True)


if __name__ == "__main__":
    main()
