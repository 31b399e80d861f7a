"""Chunks: over how many chunks of a pipeline the layers of a model spread, so that no stage lacks more than one."""

from __future__ import annotations

from estimator.problems import Problem, either, nearest


def spreads(layers: int, stages: int, chunks: int) -> bool:
    """Whether layers fill ``stages · chunks`` chunks of ⌈layers / (stages · chunks)⌉ each, with one short per stage.

    The embedding and the head take the place of a layer; with more short, stages would differ by whole chunks.
    """
    return stages * chunks <= layers and -layers % (stages * chunks) <= stages


def chunk_counts(layers: int, stages: int) -> list[int]:
    """List the numbers of chunks per rank over which the layers spread; one always."""
    return [1, *(chunks for chunks in range(2, layers // stages + 1) if spreads(layers, stages, chunks))]


def chunk_problems(schedule: str, stages: int, virtual_stages: int, layers: int) -> list[Problem]:
    """List why layers do not spread over the chunks of a schedule that runs several per rank."""
    folded = schedule == "zero-bubble-v"
    if stages == 1 or not (folded or (schedule == "interleaved" and virtual_stages > 1)):
        return []
    chunks = stages * (2 if folded else virtual_stages)
    if spreads(layers, stages, chunks // stages):
        return []
    product = f"2·pp = 2·{stages}" if folded else f"pp·virtual_stages = {stages}·{virtual_stages}"
    if chunks > layers:
        message = f"{product} = {chunks} chunks need more than {layers} layers"
    else:
        message = (
            f"{layers} layers in {product} = {chunks} chunks of {-(-layers // chunks)} fall {-layers % chunks} short, "
            f"and at most one for each of the {stages} stages is accepted"
        )
    if folded:
        remedy = f"Choose pp {_folded_stages(layers, stages)}, or set schedule to zero-bubble."
        return [Problem(field="plan.pp", message=message, remedy=remedy)]
    remedy = f"With pp = {stages} choose virtual_stages {either(chunk_counts(layers, stages))}."
    return [Problem(field="plan.virtual_stages", message=message, remedy=remedy)]


def _folded_stages(layers: int, stages: int) -> str:
    """The nearest numbers of stages with two chunks each."""
    legal = [1, *(number for number in range(2, layers // 2 + 1) if spreads(layers, number, 2))]
    return either(nearest(legal, stages))
