"""Host of plans: seconds of the same small models under every plan, precision and recompute, in turns on one host.

``torchrun --nproc-per-node N -m benchmarks.host_plans measure OUT.json [--limit-s S] [--plan NAME ...] ...``: models of
blocks too small to keep a device busy, so that a step lasts as long as its host; in turns, each step from idle devices,
beside the host's pace in that turn. A process alone needs no torchrun and has the plan ``alone``.

``python -m benchmarks.host_plans told FILE.json``: what Headroom predicts over what was measured, by plan.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.host_blocks import SEQ_LEN, small
from estimator.cost.efficiency import Efficiencies, efficiencies
from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training

FAMILIES = ("llama3.2-1b", "mpt-125m", "cs336-small", "gpt2")
LAYERS = 8
MICRO_BATCHES = 4
"""Of a pipeline."""
WARM, TIMED = 2, 3
"""Steps of a kind at each of its turns, untimed and timed: a loop of training finds in the caches what its last step
left there, the first step after others does not."""
PLANS: dict[str, dict[str, Any]] = {
    "alone": {},
    "ddp": {"axis": "dp"},
    "zero1": {"axis": "dp", "sharding": "zero1"},
    "zero2": {"axis": "dp", "sharding": "zero2"},
    "zero3": {"axis": "dp", "sharding": "zero3"},
    "fsdp": {"axis": "dp", "sharding": "fsdp"},
    "tp": {"axis": "tp"},
    "tp-sequence": {"axis": "tp", "sequence_parallel": True},
    "ulysses": {"axis": "cp", "cp_kind": "ulysses"},
    "pp-1f1b": {"axis": "pp"},
    "pp-interleaved": {"axis": "pp", "schedule": "interleaved", "virtual_stages": 2},
    "pp-zero-bubble": {"axis": "pp", "schedule": "zero-bubble"},
}
KINDS = {
    "plan": tuple(PLANS),
    "model": FAMILIES,
    "precision": ("bf16", "bf16-amp"),
    "attention": ("sdpa",),
    "recompute": ("none", "full"),
}
"""What a kind is, and which there are of each where none are asked for."""


def scenario_of(row: dict[str, Any]) -> Scenario:
    """The scenario of a kind on so many ranks."""
    asked = dict(PLANS[row["plan"]])
    ranks = row["ranks"] if "axis" in asked else 1
    degrees = {asked.pop("axis"): ranks} if "axis" in asked else {}
    plan = Plan(micro_batch=2, recompute=row["recompute"], **degrees, **asked)
    batch = 2 * plan.dp * (MICRO_BATCHES if plan.pp > 1 else 1)
    model = small(catalog.model(row["model"]), row["layers"])
    training = Training(seq_len=SEQ_LEN, global_batch=batch, precision=row["precision"], attention=row["attention"])
    chip = catalog.chip("h200-sxm")
    link, network = catalog.link(chip.link), catalog.link(chip.network)
    cluster = Cluster(chip=chip, chips_per_node=ranks, nodes=1, link=link, network=network)
    return Scenario(model=model, cluster=cluster, plan=plan, training=training)


def measure(out: Path, device: str, limit_s: float, kinds: dict[str, Sequence[str]]) -> None:
    """Time every kind in turns; the first rank writes a row of each, in the host's paces."""
    import torch
    import torch.distributed as dist

    from runners.host_pace import backward_pace_s, host_pace_s
    from runners.ranks import Ranks, gather, join
    from runners.timed_step import timed_step
    from runners.train_step import prepare

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ranks = join(device)
    own = Ranks(device=ranks.device)
    wait = dist.barrier if ranks.world_size > 1 else lambda: None
    order = [name for name in kinds if name != "plan"]  # plans last, so that those of one model follow one another
    rows = [
        dict(zip((*order, "plan"), kind, strict=True), layers=LAYERS, ranks=ranks.world_size)
        for kind in itertools.product(*(kinds[name] for name in (*order, "plan")))
    ]
    trainers = [prepare(scenario_of(row), ranks if "axis" in PLANS[row["plan"]] else own, 0) for row in rows]
    turns: list[list[list[float]]] = [[] for _ in rows]
    gc.collect()
    gc.freeze()
    end_s, on = time.monotonic() + limit_s, True
    while on:
        for mine, trainer in zip(turns, trainers, strict=True):
            for _ in range(WARM):
                timed_step(trainer)
            paces_s = [host_pace_s(), backward_pace_s(ranks.device)]
            samples = []
            for _ in range(TIMED):
                wait()
                samples.append(timed_step(trainer))
            middle = [statistics.median(one.get(name, 0.0) for one in samples) for name in TIMES]
            mine.append([*paces_s, *middle])
        on = max(one[0] for one in gather(ranks, [float(time.monotonic() < end_s)])) > 0.0
    for row, mine in zip(rows, turns, strict=True):
        every = gather(ranks, [value for turn in mine for value in turn])
        width = len(mine[0])
        row["paces"] = paced([[one[i : i + width] for one in every] for i in range(0, len(every[0]), width)])
    if ranks.rank == 0:
        paces_s = [statistics.fmean(turn[at] for mine in turns for turn in mine) for at in range(len(PACES))]
        about = {"turns": len(turns[0]), **dict(zip(PACES, paces_s, strict=True))}
        out.write_text(json.dumps(about | {"rows": rows}) + "\n", encoding="utf-8")
    wait()


PACES = ("pace_s", "backward_pace_s")
TIMES = ("step", *WORK_PHASES, Phase.BUBBLE)


def paced(turns: Sequence[Sequence[Sequence[float]]]) -> dict[str, float]:
    """Seconds of a kind's step and phases over the host's pace in the same turn: the mean over ranks, in the median."""
    found = {}
    for at, name in enumerate(TIMES, start=len(PACES)):
        pace = 1 if name == Phase.BACKWARD else 0
        over = [statistics.fmean(one[at] / one[pace] for one in turn) for turn in turns]
        found[name] = round(statistics.median(over), 1)
    return found


def compared(path: Path, e: Efficiencies) -> Iterator[tuple[dict[str, Any], dict[str, float], dict[str, float]]]:
    """Each row with what it took and what is predicted, both in the host's paces."""
    e = replace(e, host_spread=0.0)  # ranks of one host, whose paces are known
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        made = estimate(scenario_of(row), e)
        found = {"step": made.step_time_s}
        for phase in WORK_PHASES:
            found[phase] = made.phases_s.get(phase, 0.0) + made.host_wait_by_phase_s.get(phase, 0.0)
        yield row, row["paces"], {name: value / PACE_S for name, value in found.items()}


PACE_S = 4.1e-6
"""The pace of a host of Hopper's constants: host_forward_s over 5.46, as 28 hosts' probes have it (3.0 to 6.6 µs)."""


def told(path: Path) -> None:
    """Print predicted over measured by plan and each other part of a kind."""
    rows = list(compared(path, efficiencies("hopper")))
    groups: dict[tuple[str, ...], list[tuple[dict[str, float], dict[str, float]]]] = defaultdict(list)
    for row, measured, predicted in rows:
        groups[row["plan"], "all"].append((measured, predicted))
        for name in KINDS:
            if name != "plan":
                groups[row["plan"], str(row[name])].append((measured, predicted))
    for names, several in sorted(groups.items()):
        cells = (
            f"{sum(each[p] for _, each in several) / sum(each[p] for each, _ in several):7.2f}"
            for p in ("step", *WORK_PHASES)
        )
        print(" ".join(one.ljust(14) for one in names), *cells)


def main() -> int:
    """Measure, or say what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "told"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit-s", type=float, default=180.0)
    for name, every in KINDS.items():
        parser.add_argument(f"--{name}", nargs="+", default=list(every))
    given = parser.parse_args()
    if given.what == "told":
        told(given.path)
    else:
        measure(given.path, given.device, given.limit_s, {name: getattr(given, name) for name in KINDS})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
