"""Timeline: one step drawn over time: host, compute and communication of a rank, or every pipeline stage, and memory.

The closed forms give the numbers; this lays them out. What runs in which order is the framework's (forward, backward,
once per micro-batch, then what data ranks still exchange, then the optimizer); stages follow the event simulation
(estimator.schedule.simulation), stretched to the step that the closed forms give. The end is the step time, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from estimator.communication.message import PricedMessage
from estimator.cost.device_time import Work
from estimator.cost.efficiency import Calibrated
from estimator.estimate.assemble import Assembled, assembled, parts_in_line, parts_of
from estimator.estimate.report import stage_memories
from estimator.scenario.breakdown import ACCUMULATION, SHOWN_PASSES, WEIGHT_GRADIENTS, Category, Phase
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_problems
from estimator.scenario.timeline import COMMUNICATION, COMPUTE, HOST, LEFT_OUT, Timeline
from estimator.schedule.micro_batch import Pass, StageTimes
from estimator.schedule.simulation.simulate import SimulatedWork, simulate
from estimator.schedule.step import memory_of_stage, stage_passes

MOST_BLOCKS = 1600
"""More than a page can draw in a moment, or an eye tell apart."""
MOST_STAGES = 8
MOST_SIMULATED = 20_000
BUCKETS = 24
"""Exchanges behind backward are drawn in so many pieces at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One piece of work in one lane."""

    lane: int
    kind: str
    name: str
    phase: str
    start_s: float
    end_s: float


def timeline(scenario: Scenario, calibration: Calibrated | None = None) -> Timeline:
    """Lay out one step; raise InputProblems where the scenario is impossible."""
    problems = scenario_problems(scenario)
    if problems:
        raise InputProblems(problems)
    found = assembled(scenario, calibration)
    parts = parts_in_line(parts_of(found.rank, found.setting.training, found.e), found.lines)
    passes = stage_passes(found.setting, parts, found.e)
    if len(passes) == 1:
        return _of_rank(found, passes[0])
    return _of_stages(found, passes)


def _written(found: Assembled, lanes: Sequence[str], blocks: Sequence[Block], memory: Sequence[tuple[float, float]],
             folded: str) -> Timeline:  # fmt: skip
    kept = sorted((one for one in blocks if one.end_s > one.start_s), key=lambda one: (one.lane, one.start_s))
    return Timeline(
        lanes=tuple(lanes),
        lane=tuple(one.lane for one in kept),
        kind=tuple(one.kind for one in kept),
        name=tuple(one.name for one in kept),
        phase=tuple(one.phase for one in kept),
        start_s=tuple(one.start_s for one in kept),
        end_s=tuple(one.end_s for one in kept),
        total_s=float(found.timing.seconds),
        memory=tuple(memory),
        capacity_bytes=found.scenario.cluster.rank_chip.memory_bytes,
        folded=folded,
    )


# --- one stage: every op of every layer, as far as that can be drawn


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One part of the network in one direction: its ops by category in the order they run, and its messages."""

    name: str
    ops: tuple[tuple[str, str, float], ...]
    messages: tuple[tuple[str, float, float], ...]

    @property
    def seconds(self) -> float:
        """Compute, and what shows of the messages."""
        return sum(seconds for _, _, seconds in self.ops) + sum(shown for _, _, shown in self.messages)


def _of_rank(found: Assembled, one: Pass) -> Timeline:
    timing, setting = found.timing, found.setting
    m = int(setting.micro_batches)
    runs = {phase: list(_runs(found, phase)) for phase in (Phase.FORWARD, Phase.BACKWARD)}
    drawn = m * sum(len(run.ops) + len(run.messages) for some in runs.values() for run in some)
    folded = ""
    if drawn > MOST_BLOCKS:
        runs = {phase: [_merged(run) for run in some] for phase, some in runs.items()}
        folded = "each layer by category"
    if m * sum(len(run.ops) + len(run.messages) for some in runs.values() for run in some) > MOST_BLOCKS:
        runs = {phase: [_together(some, phase)] for phase, some in runs.items()}
        folded = "each micro-batch by category"
    now = float(timing.wait_start_s)
    blocks = [Block(lane=0, kind=Category.HOST, name="the host begins the step", phase=Phase.FORWARD, start_s=0.0,
                    end_s=now)]  # fmt: skip
    every = setting.plan.sharding in ("zero2", "zero3", "fsdp")
    windows: dict[str, list[tuple[float, float]]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
    lengths = {
        Phase.FORWARD: float(one.times.forward_s),
        Phase.BACKWARD: float(one.times.input_s + one.times.weight_s),
    }
    busy = {Phase.FORWARD: float(one.part.host_forward_s), Phase.BACKWARD: float(one.part.host_backward_s)}
    for index in range(m):
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            length = lengths[phase]
            blocks += _pass_blocks(runs[phase], phase, now, length)
            name = f"dispatch of {phase}" + (f", micro-batch {index + 1}" if m > 1 else "")
            blocks.append(Block(lane=0, kind=Category.HOST, name=name, phase=phase, start_s=now,
                                end_s=now + min(busy[phase], length)))  # fmt: skip
            windows[phase].append((now, now + length))
            now += length
            if phase == Phase.BACKWARD and index and float(timing.accumulation_s):
                each = float(timing.accumulation_s) / (m - 1)
                blocks.append(Block(lane=1, kind=Category.ELEMENTWISE, name="gradient accumulation", phase=phase,
                                    start_s=now, end_s=now + each))  # fmt: skip
                now += each
            lines = [line for line in timing.data if line.message.phase == phase]
            if every or index == m - 1:
                times = m if every else 1
                blocks += _after(lines, now, times)
                now += _shown_s(lines) / times
    for phase, some in windows.items():
        blocks += _beside([line for line in timing.data if line.message.phase == phase], some if every else some[-1:],
                          phase)  # fmt: skip
    backward_end = now
    blocks += _at_the_end(found, now, 0, 1)
    memory = list(_memory_of_rank(found, windows, backward_end))
    return _written(found, (HOST, COMPUTE, COMMUNICATION), blocks, memory, folded)


def _runs(found: Assembled, phase: str) -> Iterator[Run]:
    """The parts of the network in the order in which ``phase`` meets them."""
    rank, lines, kind = found.rank, found.lines, found.setting.kinds[0]
    parts: list[tuple[str, Work, Sequence[PricedMessage]]] = [("embedding", rank.embedding, lines.embedding)]
    number = 0
    for block, work, own, times in zip(rank.ops.blocks, rank.blocks, lines.blocks, kind.blocks, strict=True):
        for _ in range(round(float(times))):
            number += 1
            parts.append((f"{block.name} {number}", work, own))
    parts.append(("head", rank.head, lines.head))
    for name, work, sends in parts if phase == Phase.FORWARD else reversed(parts):
        ops = [one for one in work.priced if one.op.phase == phase]
        yield Run(
            name=name,
            ops=tuple((one.op.category, one.op.name, float(one.seconds * one.op.count)) for one in ops),
            messages=tuple(
                (line.message.name, float(line.seconds), float(line.exposed_s))
                for line in sends
                if line.message.phase == phase and float(line.seconds) > 0
            ),
        )


def _merged(run: Run) -> Run:
    by: dict[str, float] = {}
    for category, _, seconds in run.ops:
        by[category] = by.get(category, 0.0) + seconds
    sent, shown = sum(one[1] for one in run.messages), sum(one[2] for one in run.messages)
    messages = (("messages in line", sent, shown),) if run.messages else ()
    return Run(name=run.name, ops=tuple((name, name, seconds) for name, seconds in by.items()), messages=messages)


def _together(runs: Sequence[Run], phase: str) -> Run:
    ops = tuple(one for run in runs for one in run.ops)
    messages = tuple(one for run in runs for one in run.messages)
    return _merged(Run(name=f"{phase} of all layers", ops=ops, messages=messages))


def _pass_blocks(runs: Sequence[Run], phase: str, start_s: float, length_s: float) -> Iterator[Block]:
    """One direction of one micro-batch: waits for the host lie between the parts, in proportion to them."""
    whole = sum(run.seconds for run in runs)
    wait = max(length_s - whole, 0.0)
    now = start_s
    for run in runs:
        first = now
        for category, name, seconds in run.ops:
            yield Block(
                lane=1, kind=category, name=f"{run.name}: {name}", phase=phase, start_s=now, end_s=now + seconds
            )
            now += seconds
        for name, seconds, shown in run.messages:
            begin = max(now + shown - seconds, first)
            yield Block(lane=2, kind=Category.COMMUNICATION, name=f"{run.name}: {name}", phase=phase, start_s=begin,
                        end_s=now + shown)  # fmt: skip
            now += shown
        now += wait * (run.seconds / whole if whole > 0 else 1.0 / len(runs))


def _beside(lines: Sequence[PricedMessage], windows: Sequence[tuple[float, float]], phase: str) -> Iterator[Block]:
    """What compute hides of the data ranks' exchanges, in even pieces up to the end of each window."""
    hidden = sum(float(line.seconds - line.exposed_s) for line in lines)
    length = sum(end - start for start, end in windows)
    if hidden <= 0 or length <= 0:
        return
    name = ", ".join(dict.fromkeys(line.message.name for line in lines))
    count = sum(float(line.message.count) for line in lines)
    pieces = max(1, min(BUCKETS, round(count / len(windows))))
    share = min(hidden / length, 1.0)
    for start, end in windows:
        step = (end - start) / pieces
        for index in range(pieces):
            at = start + (index + 1) * step
            yield Block(
                lane=2, kind=Category.COMMUNICATION, name=name, phase=phase, start_s=at - share * step, end_s=at
            )


def _shown_s(lines: Sequence[PricedMessage]) -> float:
    return sum(float(line.exposed_s + line.copies_exposed_s) for line in lines)


def _after(lines: Sequence[PricedMessage], now: float, times: int) -> Iterator[Block]:
    """What shows of the data ranks' exchanges, one of ``times`` equal parts."""
    for line in lines:
        shown = float(line.exposed_s + line.copies_exposed_s) / times
        yield Block(lane=2, kind=Category.COMMUNICATION, name=f"{line.message.name}, exposed", phase=line.message.phase,
                    start_s=now, end_s=now + shown)  # fmt: skip
        now += shown


def _at_the_end(found: Assembled, now: float, host: int, compute: int) -> Iterator[Block]:
    timing = found.timing
    wait, own = float(timing.wait_optimizer_s), float(timing.optimizer_s)
    yield Block(lane=host, kind=Category.HOST, name="the host begins the optimizer", phase=Phase.OPTIMIZER, start_s=now,
                end_s=now + wait)  # fmt: skip
    yield Block(lane=compute, kind=Category.OPTIMIZER, name="optimizer", phase=Phase.OPTIMIZER, start_s=now + wait,
                end_s=now + wait + own)  # fmt: skip


# --- several stages


def _of_stages(found: Assembled, passes: Sequence[Pass]) -> Timeline:
    timing, setting, plan = found.timing, found.setting, found.scenario.plan
    stages, m = int(setting.stages), int(setting.micro_batches)
    chunks = int(setting.virtual_stages)
    shown_m = max(min(m, MOST_SIMULATED // (2 * stages * chunks)), min(m, stages))
    first, middle, last = (_plain(one.times) for one in passes)
    times = [first, *[middle] * (stages - 2), last]
    schedule = plan.schedule if shown_m % stages == 0 or plan.schedule != "interleaved" else "1f1b"
    simulated = simulate(schedule, times, micro_batches=shown_m, virtual_stages=plan.virtual_stages,
                         send_s=float(timing.send_each_s))  # fmt: skip
    once = sum(float(s) for s in (timing.data_s, timing.tied_s, timing.accumulation_s, timing.optimizer_s,
                                  timing.wait_optimizer_s))  # fmt: skip
    end = float(timing.seconds) - once
    stretch = end / simulated.total_s
    lanes = stages_shown(stages)
    words = []
    if shown_m < m:
        words.append(f"{shown_m} of {m} micro-batches, each drawn longer than it is")
    if len(lanes) < stages:
        words.append(f"{len(lanes)} of {stages} stages")
    blocks: list[Block] = []
    for at, stage in enumerate(lanes):
        own = [one for one in simulated.events if one.rank == stage]
        blocks += _stage_blocks(own, at, stretch, end, MOST_BLOCKS // len(lanes))
    if any(one.kind == LEFT_OUT for one in blocks):
        words.append("middle in one piece")
    now = end
    sent = float(timing.data_s) + float(timing.tied_s)
    for at in range(len(lanes)):
        blocks.append(Block(lane=at, kind=Category.COMMUNICATION, name="gradients between data ranks, exposed",
                            phase=Phase.BACKWARD, start_s=now, end_s=now + sent))  # fmt: skip
        add = now + sent + float(timing.accumulation_s)
        name = "gradient accumulation of all micro-batches"
        blocks.append(Block(lane=at, kind=ACCUMULATION, name=name, phase=Phase.BACKWARD,
                            start_s=now + sent, end_s=add))  # fmt: skip
        blocks += _at_the_end(found, add, at, at)
    fullest = max(stage_memories(setting, found.e), key=lambda one: one.peak_bytes)
    events = [one for one in simulated.events if one.rank == fullest.stage]
    memory = _held(events, fullest.by_kind, fullest.peak_bytes, stretch, chunks, float(timing.seconds))
    return _written(found, [f"stage {stage + 1}" for stage in lanes], blocks, memory, "; ".join(words))


def _plain(times: StageTimes) -> StageTimes:
    return StageTimes(
        forward_s=float(times.forward_s), input_s=float(times.input_s), weight_s=float(times.weight_s)
    )  # fmt: skip


def stages_shown(stages: int) -> list[int]:
    """Return the stages of a pipeline that are drawn: all of few, else the first, the last and some between them."""
    if stages <= MOST_STAGES:
        return list(range(stages))
    return sorted({round(index * (stages - 1) / (MOST_STAGES - 1)) for index in range(MOST_STAGES)})


NAMES = {"F": Phase.FORWARD, "B": Phase.BACKWARD, "W": WEIGHT_GRADIENTS}


def _stage_blocks(events: Sequence[SimulatedWork], lane: int, stretch: float, end: float, most: int) -> Iterator[Block]:
    """Work of one stage, and the bubble between; the middle in one piece where there is more than can be drawn."""
    ordered = sorted(events, key=lambda one: one.start_s)
    skipped = range(0)
    if 2 * len(ordered) > most:
        skipped = range(most // 4, len(ordered) - most // 4)
    now = 0.0
    for index, one in enumerate(ordered):
        start, stop = one.start_s * stretch, one.end_s * stretch
        if start - now > 1e-9 * end and index not in skipped:
            yield Block(lane=lane, kind=Category.BUBBLE, name="waits for another stage", phase=Phase.BUBBLE,
                        start_s=now, end_s=start)  # fmt: skip
        if index not in skipped:
            kind = NAMES[one.kind]
            yield Block(lane=lane, kind=kind, name=f"micro-batch {one.micro_batch + 1}: {SHOWN_PASSES[kind].label}",
                        phase=Phase.BACKWARD if kind == WEIGHT_GRADIENTS else kind, start_s=start,
                        end_s=stop)  # fmt: skip
        elif index == skipped[0]:
            yield Block(lane=lane, kind=LEFT_OUT, name=f"{len(skipped)} passes, forward and backward",
                        phase=Phase.BACKWARD, start_s=start, end_s=ordered[skipped[-1]].end_s * stretch)  # fmt: skip
        now = stop
    yield Block(lane=lane, kind=Category.BUBBLE, name="waits for the other stages", phase=Phase.BUBBLE, start_s=now,
                end_s=end)  # fmt: skip


# --- memory


def _memory_of_rank(
    found: Assembled, windows: dict[str, list[tuple[float, float]]], backward_end: float
) -> Iterator[tuple[float, float]]:
    """Bytes through the moments that may be the peak (estimator.memory.memory), straight between them."""
    setting = found.setting
    held = memory_of_stage(setting, setting.kinds[0], 1.0, found.e.workspace_bytes)
    states = sum(float(value) for value in held.states.values())
    at = {name: states + sum(float(value) for value in kinds.values()) for name, kinds in held.moments.items()}
    kept, between = (
        float(held.moments[moment].get("gradients", 0.0)) for moment in ("optimizer step", "loss backward")
    )
    layers = max(float(setting.kinds[0].layers), 1.0)
    for index, ((start, end), (_, done)) in enumerate(
        zip(windows[Phase.FORWARD], windows[Phase.BACKWARD], strict=True)
    ):
        yield start, states + (between if index else 0.0)
        each = (done - end) / (layers + 1)
        yield from _where_held(at, end, "end of forward")
        yield end, at["loss backward"]
        yield from _where_held(at, end + 0.25 * each, "head backward")
        yield from _where_held(at, end + 0.3 * each, "head's gradient")
        # Of few blocks one is the last, the next to last, the second and the first at once.
        numbers = {"last": 1, "next to last": 2, "second": max(layers - 1, 2), "first": layers + 1}
        yield from sorted(
            (end + (number - before) * each, at[moment])
            for which, number in numbers.items()
            for half, before in (("FFN", 0.5), ("attention", 0.0))
            if (moment := f"{which} block's {half} backward") in at
        )
        yield from _where_held(at, done, "embedding backward")
        yield from _where_held(at, done, "root's scatter")
    yield from _where_held(at, backward_end, "exchange")
    yield backward_end, states + kept
    total = float(found.timing.seconds)
    before = total - float(found.timing.optimizer_s)
    yield before, states + kept
    yield (before + total) / 2, at["optimizer step"]
    yield total, states + kept


def _where_held(at: Mapping[str, float], at_s: float, moment: str) -> Iterator[tuple[float, float]]:
    """A moment that not every plan has."""
    if moment in at:
        yield at_s, at[moment]


def _held(
    events: Sequence[SimulatedWork], by_kind: dict[str, float], peak: float, stretch: float, chunks: int, total: float
) -> list[tuple[float, float]]:
    """Activations of the micro-batches that a stage holds, over its states; the most of them is the peak."""
    states = sum(by_kind.get(kind, 0.0) for kind in ("parameters", "gradients", "optimizer", "framework"))
    split = any(one.kind == "W" for one in events)
    changes = sorted(
        [(one.start_s, one.end_s, 1.0) for one in events if one.kind == "F"]
        + [(one.start_s, one.end_s, -1.0) for one in events if one.kind == ("W" if split else "B")]
    )
    count, levels = 0.0, [(0.0, 0.0)]
    for start, end, change in changes:
        levels += [(start * stretch, count), (end * stretch, count + change / chunks)]
        count += change / chunks
    most = max(level for _, level in levels) or 1.0
    points = [(at, states + (peak - states) * level / most) for at, level in levels]
    return [*points, (total, states)]
