"""Many plans in one group of ranks, for ``run_in_fork``.

Torch is imported once, then each rank is a fork of the process, which is what makes this quick. Each compares what a
plan's step changes in its parameters with what the whole module in one process changes, rank by rank.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import tempfile
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef

from estimator.scenario.scenario import Scenario, scenario_from_json
from runners.model.training import batch, loss_of
from runners.model.transformer import Share, Transformer, build
from runners.parallel.mesh import mesh_of
from runners.ranks import Ranks
from runners.train_step import Trainer, one_step, prepare
from tests.runners.parallel.plans import document

RATE = 1024.0
"""Learning rate, so large that what a step changes is not lost in the digits of what it changes."""


def main(arguments: list[str]) -> int:
    """RANKS OUT NAME…"""
    ranks, out, names = int(arguments[0]), Path(arguments[1]), arguments[2:]
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    import runners.parallel.plan  # noqa: F401 before the fork, so that it is imported once

    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        processes = [
            fork.Process(target=_rank, args=(rank, ranks, f"file://{folder}/store", out, names))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return 0


def _rank(rank: int, world: int, store: str, out: Path, names: list[str]) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "GLOO_SOCKET_IFNAME": "lo"}
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    ranks = Ranks(rank=rank, world_size=world, device="cpu")
    found = {}
    for name in names:
        try:
            found[name] = compared(scenario_from_json(document(name)), ranks)
        except Exception:
            found[name] = {"error": traceback.format_exc()}
            (out / f"{rank}.json").write_text(json.dumps(found))
            os._exit(1)
    (out / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    os._exit(0)


def compared(scenario: Scenario, ranks: Ranks) -> dict:
    """Largest difference of any parameter's change, over the largest change of that parameter; and both losses."""
    trainer = prepare(scenario, ranks, 0)
    for group in trainer.optimizer.param_groups:
        group["lr"] = RATE
    before = {name: full(p).clone() for name, p in named(trainer)}
    made = watched(trainer)
    one_step(trainer, lambda phase: None)
    kept = held(made, trainer)
    reference, loss = changed(scenario)
    worst = {}
    for name, parameter in named(trainer):
        change = full(parameter) - before[name]
        expected = expected_of(reference, name, scenario, ranks)
        if expected.shape != change.shape:
            raise ValueError(f"{name}: {tuple(change.shape)} is not {tuple(expected.shape)}")
        scale = expected.abs().max().clamp(min=1e-8)
        worst[name] = float((change / RATE - expected).abs().max() / scale)
    name = max(worst, key=worst.get)
    own = None if trainer.loss is None else float(trainer.loss)
    return {"parameter": name, "difference": worst[name], "count": len(worst), "loss": own, "expected_loss": loss,
            "kept": kept}  # fmt: skip


def watched(trainer: Trainer) -> list[tuple[str, StorageWeakRef]]:
    """Every tensor that a module returns from now on, forward and where it runs again, by the module's name."""
    made: list[tuple[str, StorageWeakRef]] = []

    def note(name, outputs):
        for one in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            if isinstance(one, torch.Tensor) and not isinstance(one, DTensor):
                made.append((name, StorageWeakRef(one.untyped_storage())))

    for name, module in trainer.module.named_modules():
        module.register_forward_hook(lambda module, inputs, outputs, name=name: note(name, outputs))
    return made


def held(made: list[tuple[str, StorageWeakRef]], trainer: Trainer) -> list[str]:
    """Modules whose outputs are still there after a step, but for the loss and what is a parameter."""
    gc.collect()
    own = [*trainer.module.parameters(), *trainer.module.buffers(), *([] if trainer.loss is None else [trainer.loss])]
    kept = {full(tensor).untyped_storage()._cdata for tensor in own}
    return sorted({name for name, one in made if not one.expired() and one.cdata not in kept})


def named(trainer: Trainer) -> list:
    parts = [part for part in trainer.module.modules() if isinstance(part, Transformer)]
    return [(f"{i}/{name}", p) for i, part in enumerate(parts) for name, p in part.named_parameters()]


def full(parameter: torch.Tensor) -> torch.Tensor:
    tensor = parameter.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def changed(scenario: Scenario) -> tuple[dict, float]:
    """What SGD changes, over its rate,  in the whole module over the global batch: minus its gradients."""
    model, training, plan = scenario.model, scenario.training, scenario.plan
    torch.manual_seed(0)
    module = build(model, training, plan, "cpu", Share(blocks=range(model.layers)))
    losses = []
    for dp in range(plan.dp):
        torch.manual_seed(1 + dp)
        for _ in range(scenario.micro_batches):
            losses.append(loss_of(module, *batch(model, training, plan, "cpu")))
    loss = torch.stack(losses).mean()
    torch.autograd.backward(loss)
    return {name: -p.grad for name, p in module.named_parameters()}, float(loss)


def expected_of(reference: dict, name: str, scenario: Scenario, ranks: Ranks) -> torch.Tensor:
    plan, model = scenario.plan, scenario.model
    mesh = mesh_of(plan, ranks)
    name = name.partition("/")[2]
    if name == "head.weight" and model.tied_embedding:
        return reference["embedding.weight"]
    each = model.experts // plan.ep if model.experts else 0
    words = name.split(".")
    if "routed" in words and words[-2] in ("up", "down"):  # one after another
        return reference[".".join([*words[:-1], str(int(words[-1]) + mesh.experts.rank * each)])]
    if "routed" in words and words[-1] in ("up", "down"):  # grouped
        first = mesh.experts.rank * each
        return torch.stack([reference[f"{name}.{first + i}"] for i in range(each)])
    value = reference[name]
    if ".qkv.0." in name and model.position != "rope" and plan.tp > 1:
        parts = [part.chunk(plan.tp) for part in value.split([model.query_width, model.kv_width, model.kv_width])]
        value = torch.cat([part[rank] for rank in range(plan.tp) for part in parts])
    return value
