"""A program that steps once, with a device given as a number, as some tutorials do."""

import torch
from torch import nn

network = nn.Linear(8, 4).to(0)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
network(torch.randn(2, 8).to(0)).sum().backward()
optimizer.step()
print("done")
