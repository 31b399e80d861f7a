"""Exchanges: host seconds of asking NCCL for a collective among the other ops of a step, by kind and ranks.

``torchrun --nproc-per-node N -m benchmarks.exchanges OUT.json [VISITS]`` on GPUs: between any two of them a small
transformer goes forward, so that neither caches nor branch predictors hold what a loop of nothing else would. Of 2, 4,
… N ranks, and in a group that exchanges nothing (one process, without torchrun), each beside the host's pace.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.host_pace import host_pace_s
from runners.model.by_name import TINY_MODEL
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import build
from runners.ranks import join, leave

CALLS, NUMBERS, LAYERS = 12, 2**16, 2


def kinds(group: Any, ranks: int, rank: int, device: str) -> dict[str, Callable[[], object]]:
    """A call of each kind, in place or into a buffer that is there, waited for in the stream."""
    whole, part = torch.ones(NUMBERS * ranks, device=device), torch.ones(NUMBERS, device=device)
    other = torch.empty_like(whole)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks

    def stages() -> None:
        sent = [dist.P2POp(dist.isend, part, right, group), dist.P2POp(dist.irecv, other[:NUMBERS], left, group)]
        for work in dist.batch_isend_irecv(sent):
            work.wait()

    found: dict[str, Callable[[], object]] = {
        "all-reduce": lambda: dist.all_reduce(whole, group=group, async_op=True).wait(),
        "all-gather": lambda: dist.all_gather_into_tensor(whole, part, group=group, async_op=True).wait(),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group, async_op=True).wait(),
        "all-to-all": lambda: dist.all_to_all_single(other, whole, group=group, async_op=True).wait(),
        "functional all-reduce": lambda: functional.wait_tensor(functional.all_reduce(whole, "sum", group)),
        "functional all-gather": lambda: functional.wait_tensor(functional.all_gather_tensor(part, 0, group)),
        "functional reduce-scatter": lambda: functional.wait_tensor(
            functional.reduce_scatter_tensor(whole, "sum", 0, group)
        ),
        "sends": stages,
    }
    return found


def main() -> int:
    """Time every kind in turns, so often as asked, and write a row for each and every visit."""
    out, visits = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4
    ranks = join("cuda")
    fake = ranks.world_size == 1
    if fake:
        from torch.testing._internal.distributed import fake_pg

        warnings.filterwarnings("ignore")
        dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=0, world_size=2)
    training, plan = Training(seq_len=16, global_batch=1, precision="bf16-amp"), Plan()
    model = replace(TINY_MODEL, layers=LAYERS)
    module = build(model, training, plan, ranks.device)
    tokens, targets = batch(model, training, plan, ranks.device)
    rows: list[dict[str, Any]] = []
    sizes = [2] if fake else [size for size in (2, 4, 8) if size <= ranks.world_size]
    groups = {size: dist.group.WORLD if fake else dist.new_group(list(range(size))) for size in sizes}
    for visit in range(visits):
        for size, group in groups.items():
            if ranks.rank >= size:
                continue
            for kind, call in kinds(group, size, ranks.rank, ranks.device).items():
                if fake and kind == "sends":
                    continue
                seconds, paces = [], [host_pace_s()]
                for turn in range(CALLS):
                    with autocast(training, ranks.device):
                        loss_of(module, tokens, targets)
                    begin_s = time.perf_counter()
                    call()
                    seconds.append(time.perf_counter() - begin_s)
                    if turn % 4 == 3:
                        torch.cuda.synchronize()
                        paces.append(host_pace_s())
                kept = seconds[2:] if visit else seconds[4:]
                rows.append({
                    "kind": kind, "ranks": 1 if fake else size, "visit": visit, "median_s": statistics.median(kept),
                    "mean_s": statistics.fmean(kept), "host_pace_s": statistics.fmean(paces),
                })  # fmt: skip
        if not fake:
            dist.barrier()
    if ranks.rank == 0:
        out.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
        for size in sizes:
            for kind in {row["kind"]: None for row in rows}:
                of = [row for row in rows if row["kind"] == kind and row["ranks"] == (1 if fake else size)]
                if of:
                    each = statistics.median(row["median_s"] / row["host_pace_s"] for row in of)
                    took = statistics.median(row["median_s"] for row in of)
                    who = "nobody" if fake else f"{size} ranks"
                    print(f"{kind:26s} {who}: {took * 1e6:6.1f} us, {each:5.1f} ops of a host tensor")
    leave(ranks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
