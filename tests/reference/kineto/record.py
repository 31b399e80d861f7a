"""How the traces beside this file were recorded: torch 2.11.0+cu130 on two NVIDIA H200, rank 0 of

OUT=. torchrun --nproc-per-node 2 record.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH = 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.ffn = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, 4, 64).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(mixed)
        return x + self.ffn(x)


def record(rank, name, compiled, memory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(1000, WIDTH), Block(), Block(), nn.Linear(WIDTH, 1000, bias=False)).cuda()
    run = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    run = torch.compile(run) if compiled else run
    optimizer = torch.optim.AdamW(model.parameters(), fused=False)
    tokens = torch.randint(1000, (4, 512), device="cuda")

    def ready(profiler):
        if rank == 0:
            profiler.export_chrome_trace(f"{os.environ['OUT']}/{name}.json.gz")

    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=5, warmup=1, active=3, repeat=1),
        on_trace_ready=ready,
        record_shapes=True,
        profile_memory=memory,
    ) as profiler:
        for _ in range(9):
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(run(tokens).flatten(0, 1).float(), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            profiler.step()


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    record(local_rank, "h200_ddp_amp", compiled=False, memory=True)
    record(local_rank, "h200_ddp_compile", compiled=True, memory=False)
    dist.destroy_process_group()
