"""An optimizer that steps another, and an evaluation after the first step: neither makes a step longer."""

import torch
from torch import nn


class Outer(torch.optim.Optimizer):
    def __init__(self, parameters):
        self.inner = torch.optim.SGD(parameters, lr=0.1)
        super().__init__(self.inner.param_groups, {})

    def step(self, closure=None):
        return self.inner.step(closure)


class WithAverage(nn.Module):
    """A layer beside its average, which nothing trains."""

    def __init__(self):
        super().__init__()
        self.layer, self.average = nn.Linear(64, 8), nn.Linear(64, 8)
        self.evaluated = 0

    def forward(self, x):
        self.evaluated += not self.training
        return self.layer(x)


model = WithAverage().cuda()
optimizer = Outer(model.layer.parameters())
batch = torch.randn(32, 64, device="cuda")
model.eval()
with torch.no_grad():
    losses = [model(batch).mean().item() for _ in range(9)]
assert len(losses) == 9
assert model.evaluated == 3  # the others repeat them
with torch.no_grad():
    assert model(batch[:5]).shape == (5, 8)
    collected = []
    hook = model.layer.register_forward_hook(lambda *given: collected.append(given[-1]))
    for _ in range(5):
        model(batch)
    assert len(collected) == 5  # which the program would miss
    hook.remove()
model.train()
for step in range(6):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        model.eval()
        with torch.no_grad():
            for _ in range(7):
                model(batch)
        model.train()
