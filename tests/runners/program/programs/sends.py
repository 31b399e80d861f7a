"""A step that sends batches from pageable and from pinned memory, waiting for them or not, and fetches two."""

import torch
from torch.utils.data import DataLoader

WIDE, SMALL = 1 << 15, 8
model = torch.nn.Linear(SMALL, SMALL).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pinned = torch.ones(WIDE, 1).pin_memory()
assert pinned.is_pinned()
assert not torch.ones(WIDE).is_pinned()
made = torch.empty(WIDE, 2, pin_memory=True)
for loaded in DataLoader(torch.ones(64, WIDE), batch_size=4, pin_memory=True):
    torch.ones(WIDE).to("cuda", non_blocking=True)
    torch.ones(SMALL).to("cuda", non_blocking=True)
    torch.ones(SMALL, 2).to("cuda")
    pinned.to("cuda", non_blocking=True)
    made[:].cuda(non_blocking=True)
    loaded.to("cuda", non_blocking=True)
    pinned[1:].to("cuda")
    made[1:].to("cuda", torch.bfloat16, non_blocking=True)
    back = torch.ones(3, WIDE, device="cuda").to("cpu", non_blocking=True)
    assert back.is_pinned()
    torch.empty(5, WIDE).copy_(torch.ones(5, WIDE, device="cuda"), non_blocking=True)
    model(torch.ones(SMALL, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
