"""What libraries do around a step: frozen parameters, a loss in a closure, flags, values read, memory given back."""

import contextlib

import torch
from safetensors.torch import load_file, save_file
from torch import nn

torch._dynamo.reset()
torch.compiler.reset()
torch.cuda.profiler.start()
torch.cuda.cudart().cudaProfilerStop()
assert torch.cuda.memory_stats()["allocation.all.current"] == 0
old = torch.cuda.FloatTensor(2, 3).fill_(0)
assert isinstance(old, torch.cuda.FloatTensor)
assert torch.zeros(2).type("torch.cuda.LongTensor").dtype == torch.int64
assert len(torch.cuda.default_generators) == torch.cuda.device_count()
pinned = torch.empty(8, pin_memory=True).to("cuda")

model = nn.Linear(64, 64).cuda()
another = type(model.weight)(model.weight.detach().clone(), requires_grad=False)
assert isinstance(another, nn.Parameter)
assert another.is_cuda
torch.save({"model": model.state_dict(), "step": 3}, "kept.pt")
again = torch.load("kept.pt", map_location="cpu")
assert again["step"] == 3
assert not again["model"]["weight"].is_cuda
model.load_state_dict(torch.load("kept.pt")["model"])
save_file(model.state_dict(), "kept.safetensors")
assert load_file("kept.safetensors", device="cuda")["weight"].is_cuda
spectral = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8).cuda())  # which asks whether tensors are close
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
