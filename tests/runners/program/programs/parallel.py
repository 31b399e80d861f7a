"""A small network under what is named: ddp, fsdp, flat (FSDP of flat parameters), tensor, loss (tensor, to its end)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

how = sys.argv[1]
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
assert dist.get_world_size() == int(os.environ["WORLD_SIZE"])
assert dist.get_backend() == "nccl"
network = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 16)).cuda()
if how == "ddp":  # a flag that every rank raises alike
    flag = torch.tensor([3], device="cuda")
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    assert flag.item() == 3
    dist.all_reduce(flag)
    assert flag.item() == 3 * dist.get_world_size()
if how == "tensor":
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
    parallelize_module(network, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel()})
if how == "loss":
    dist.new_group(pg_options=dist.ProcessGroupNCCL.Options(is_high_priority_stream=True))
    mesh = init_device_mesh("cuda", (8,))
    split = ColwiseParallel(use_local_output=False)
    parallelize_module(network, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": split})
    with loss_parallel():
        classes = torch.zeros(8, dtype=torch.int64, device="cuda")
        nn.functional.cross_entropy(network(torch.randn(8, 1024, device="cuda")), classes).backward()
if how == "fsdp":
    for layer in (network[0], network[2], network):
        fully_shard(layer)
if how == "flat":
    narrow = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    network = FullyShardedDataParallel(
        network, auto_wrap_policy=lambda module, recurse, **_: recurse or module in (network[0], network[2]),
        mixed_precision=narrow, device_id=torch.cuda.current_device(), use_orig_params="original" in sys.argv,
    )  # fmt: skip
model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True) if how == "ddp" else network
model = torch.compile(model) if "compile" in sys.argv else model
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.randn(8, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
