"""A checkpointed block, fp16 with a scaler, clipping, and values that the program reads."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

device = torch.device("cuda")
assert torch.cuda.is_available()
assert torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory

blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(2)).to(device)
head = nn.Linear(64, 8, device=device)
optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
before = torch.cuda.memory_allocated()
assert before == 4 * sum(p.numel() for p in [*blocks.parameters(), *head.parameters()])
for _ in range(9):
    x = torch.randn(16, 64, device="cuda")
    assert x.is_cuda
    assert x.device == torch.device("cuda:0")
    assert str(x.dtype) == "torch.float32"
    with torch.autocast("cuda", dtype=torch.float16):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        loss = head(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(blocks.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    assert loss.item() == 1.0
    assert f"{loss:.1f}" == "1.0"
    assert not torch.isnan(loss)
    assert torch.isfinite(loss).all()
