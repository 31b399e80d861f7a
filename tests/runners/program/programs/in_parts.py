"""An optimizer of this rank's part of copies, as DeepSpeed's ZeRO has; another of what nothing trains."""

import sys

import torch
from torch import nn


class Bucketed(nn.Module):
    """A wrapper that calls its buckets as modules call what they hold beside parameters, as Megatron's does."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.buffers = []

    def forward(self, batch):
        return self.module(batch)


model = Bucketed(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8)).to("cuda", torch.bfloat16))
stale = torch.optim.SGD([nn.Parameter(torch.zeros(64, 64, device="cuda"))], lr=0.1)
sizes = [parameter.numel() for parameter in model.parameters()]
part = nn.Parameter(torch.zeros(sum(sizes) // 2, device="cuda"))
own = model.parameters() if "whole" in sys.argv else [part]
optimizer = torch.optim.AdamW(own, lr=1e-3)
rank = torch.cuda.current_device()  # a number, as Megatron names the device of what its ranks agree on
told = torch.tensor([1.0], device=rank)
assert told.is_cuda and told.new_tensor([1], device=rank).is_cuda  # noqa: PT018
batch = torch.randn(16, 64, device="cuda", dtype=torch.bfloat16)
for _ in range(3):
    model(batch).float().mean().backward()
    if "whole" not in sys.argv:
        flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        part.grad = flat[: part.numel()].float()
        model.zero_grad()
    optimizer.step()
    stale.step()
    optimizer.zero_grad()
