"""Starts from a file of tensors, read for the device by name and by a table, and for the host."""

import sys

import torch
from torch import nn

kept = torch.load(sys.argv[1], map_location="cuda")
moved = torch.load(sys.argv[1], map_location={"cpu": "cuda:0"}, weights_only=True)
assert kept["model"]["weight"].is_cuda
assert moved["model"]["weight"].device == torch.device("cuda", 0)
assert not torch.load(sys.argv[1])["model"]["weight"].is_cuda
model = nn.Linear(64, 64, bias=False).cuda()
model.load_state_dict(kept["model"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(8, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
