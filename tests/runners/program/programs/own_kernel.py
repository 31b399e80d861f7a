"""A layer whose product with itself is a Triton kernel of the program's own, tuned as such kernels are."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["count"])
@triton.jit
def squared(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    tl.store(out + at, value * value, mask=at < count)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        squared[lambda chosen: (triton.cdiv(x.numel(), chosen["BLOCK"]),)](x, out, x.numel())
        return out

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


halved = torch.cuda._compile_kernel("extern C ...", "halved", compute_capability="90")
network = nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
for _ in range(3):
    found = Squared.apply(network(torch.randn(8, 64, device="cuda")))
    halved(grid=(1, 1, 1), block=(64, 1, 1), args=[found.detach()])
    found.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
