"""What a program may read of whole numbers, and what it may not: writes it to a file, then trains a step."""

import gc
import json
import sys
from pathlib import Path

import torch
from torch import nn

sent = torch.tensor([3, 1, 2]).cuda()
view = sent[1:]
later = sent.clone()
sent.add_(1)  # which its view shows, and its copy does not
said = {"sent": sent.tolist(), "view": view.tolist(), "later": later.tolist(), "total": sent.sum().item()}
drawn = torch.randint(0, 9, (3,), device="cuda")
view.copy_(drawn[1:])
said["overwritten"] = sent.tolist()  # not known any more: placeholders
chosen = torch.rand(12, 8, device="cuda").topk(2).indices
said["counts"] = torch.bincount(chosen.flatten(), minlength=8).tolist()
said["twice"] = (chosen[:, 0] == chosen[:, 1]).sum().item()
said["first three of a sort"] = torch.rand(8, 8, device="cuda").argsort(-1)[:, :3].flatten().bincount().tolist()
said["drawn"] = torch.bincount(drawn, minlength=2).tolist()
padded = torch.tensor([[5, 6, 0], [7, 0, 0]]).cuda()
said["rows"] = list(torch.ones(2, 3, 4, device="cuda")[padded != 0].shape)
mask = torch.ones(16, 1024, device="cuda")  # of floats, as OPT's is
said["masked"] = (mask.cumsum(1)[:, -1] != 1024).any().item()
said["kept"] = mask.bool().sum().item()
said["host"] = (padded != 0).nonzero().cpu().tolist()
fine = torch.isfinite(torch.rand(70000, device="cuda").amax())
said["infinite"] = fine.logical_and(fine).logical_not().byte().item()
said["listed"] = torch.tensor([[later[0], 5], [sent.new_tensor([4])[0], 6]], device="cuda").tolist()
same = torch.rand(3, 4, device="cuda")
said["equal"] = [torch.equal(same, same + 1), torch.equal(same, same[:2]), torch.equal(padded, padded + 1)]
said["close"] = [torch.allclose(same, same + 1), torch.allclose(padded, padded + 1)]
with torch.inference_mode():
    said["inference"] = [torch.tensor([[7]], device="cuda").tolist(), sent[1:].view(1, 2).shape == (1, 2)]


def numbers_of_places():
    return sum(type(one) is torch.Tensor and one.shape == (37, 41) for one in gc.get_objects())


rows, columns = torch.arange(37, device="cuda")[:, None], torch.arange(41, device="cuda")
said["masks of now"] = (rows - columns <= 5).sum().item(), numbers_of_places()
Path(sys.argv[1]).write_text(json.dumps(said))
network = nn.Linear(4, 4).cuda()
rows = nn.Embedding(100, 4, sparse=True).cuda()
optimizer = torch.optim.SGD([*network.parameters(), *rows.parameters()], lr=0.1)
for _ in range(3):
    network(rows(torch.tensor([3, 5], device="cuda"))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
