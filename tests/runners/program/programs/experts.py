"""Experts as grouped products, in the type that is asked for; whose rows end where is known or, with a word, drawn."""

import sys

import torch
from torch import nn

dtype = getattr(torch, sys.argv[1])
weights = nn.Parameter(torch.randn(4, 64, 32, device="cuda", dtype=dtype))
ends = torch.arange(16, 80, 16, device="cuda", dtype=torch.int32)
if "drawn" in sys.argv:
    ends = torch.randint(0, 64, (4,), device="cuda", dtype=torch.int32)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(3):
    tokens = torch.randn(64, 64, device="cuda", dtype=dtype)
    nn.functional.grouped_mm(tokens, weights, offs=ends).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
