"""What libraries do around a step: frozen parameters, a loss in a closure, flags, values read, memory given back."""

import contextlib

import torch
from torch import nn

model = nn.Linear(64, 64).cuda()
model.bias.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wrapped = nn.DataParallel(model, device_ids=[0])


def closure():
    loss = wrapped(torch.randn(8, 64)).square().mean()
    loss.backward()
    return loss


with contextlib.ExitStack() as down:
    down.callback(model.cpu)
    while True:
        stop = torch.tensor(False).to("cuda", non_blocking=True)
        assert not stop.item()
        assert torch.tensor(3, device="cuda").item() == 3
        assert torch.randn(1100, 1100, device="cuda").cpu().numpy().shape == (1100, 1100)
        optimizer.step(closure)
        optimizer.zero_grad()
