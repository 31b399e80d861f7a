"""Experts spread over ranks, which ask how many rows travel: with collectives that write, or functional ones.

A third way, `loop`, keeps all experts and asks each for its rows.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

how = sys.argv[1]
TOKENS, WIDTH, EXPERTS, CHOSEN = 96, 64, 8, 2
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
ranks = 1 if how == "loop" else dist.get_world_size()
router = nn.Linear(WIDTH, EXPERTS).cuda()
experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(EXPERTS // ranks)).cuda()
optimizer = torch.optim.SGD([*router.parameters(), *experts.parameters()], lr=0.1)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, received, sent):
        ctx.sizes = sent, received
        made = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(made, rows, received, sent)
        return made

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient.contiguous(), *ctx.sizes), None, None


def apart(tokens, weights, chosen):
    order = torch.argsort(chosen.flatten(), stable=True)
    rows = tokens[order // CHOSEN]
    if how == "functional":
        counts = torch.histc(chosen.flatten(), bins=EXPERTS, min=0, max=EXPERTS)
        coming = functional.all_to_all_single(counts, None, None, dist.group.WORLD)
        coming = torch.ops._c10d_functional.wait_tensor(coming)
        sent = counts.view(ranks, -1).sum(1).to(torch.device("cpu"), non_blocking=True).tolist()
        received = coming.view(ranks, -1).sum(1).to("cpu").tolist()
        rows = functional.all_to_all_single_autograd(rows, received, sent, dist.group.WORLD)
    else:
        counts = torch.zeros(EXPERTS, dtype=torch.long, device="cuda")
        counts.scatter_add_(0, chosen.flatten(), torch.ones_like(chosen).flatten())
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts)
        sent, received = torch.stack([counts, coming]).view(2, ranks, -1).sum(2).tolist()
        rows = Exchange.apply(rows, received, sent)
    expert = torch.arange(EXPERTS // ranks, device="cuda").repeat(ranks).repeat_interleave(coming)
    by_expert = torch.argsort(expert, stable=True)
    parts = rows[by_expert].split(torch.bincount(expert, minlength=EXPERTS // ranks).tolist())
    done = torch.cat([one(part) for one, part in zip(experts, parts, strict=True)])
    back = torch.empty_like(done).index_copy(0, by_expert, done)
    if how == "functional":
        back = functional.all_to_all_single_autograd(back, sent, received, dist.group.WORLD)
    else:
        back = Exchange.apply(back, sent, received)
    result = torch.zeros_like(tokens)
    return result.index_add(0, order // CHOSEN, back * weights.flatten()[order].unsqueeze(1))


def loop(tokens, weights, chosen):
    result = torch.zeros_like(tokens)
    mask = nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
    for index in (mask.sum((1, 2)) > 0).nonzero().flatten().tolist():
        choice, token = torch.where(mask[index])
        result.index_add_(0, token, experts[index](tokens[token]) * weights[token, choice].unsqueeze(1))
    return result


for _ in range(3):
    tokens = torch.randn(TOKENS, WIDTH, device="cuda")
    weights, chosen = torch.topk(router(tokens).softmax(-1), CHOSEN)
    (loop if how == "loop" else apart)(tokens, weights, chosen).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
