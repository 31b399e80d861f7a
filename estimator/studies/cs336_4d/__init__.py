"""4D parallelism of a 220 billion parameter stack of feed-forward blocks: memory, sharding, and bounds of a mesh.

The reference is assignment 2 of Stanford's CS336 (2025), its section on 4D parallelism: (a) memory of the states,
(b) FSDP degree that fits, (c) batch from which a mesh is bound by compute, (d) how to make that batch smaller.
"""

from __future__ import annotations

import math
from dataclasses import replace

from estimator.studies.cs336_4d.gaps import bar_name, gaps
from estimator.studies.cs336_4d.inputs import Inputs
from estimator.studies.cs336_4d.mesh import (
    best_split,
    closed_form_fsdp,
    closed_form_tokens,
    least_batch,
    pass_times,
    splits,
)
from estimator.studies.cs336_4d.notes import NOTES
from estimator.studies.cs336_4d.sharding import device_bytes, held_bytes, least_ranks, most_tokens, resident_bytes
from estimator.studies.study import Figure, Result, Series, Value, printed, printed_figures

TITLE = "4D parallelism of a 220 billion parameter feed-forward stack"
SUMMARY = (
    "Memory of the states, FSDP degree against tokens per device, compute-bound batch, and the best split of chips."
)

GB = 1e-9
TABLE_TOKENS = (0, 1024, 2048, 4096, 8192)
WORDS = {True: "axes overlapped", False: "axes not overlapped"}
IMPOSSIBLE = "impossible"


def run(inputs: Inputs) -> Result:
    """Answer (a) to (d) for these inputs."""
    shown = printed_figures("cs336-4d") if inputs == Inputs() else {}
    figures = [
        *_states(inputs),
        *_degrees(inputs),
        *_bounds(inputs),
        *_splits(inputs),
        *_levers(inputs),
        *_stages(inputs),
    ]
    return Result(
        study="cs336-4d",
        inputs=inputs,
        figures=tuple(_with_printed(figure, shown) for figure in figures),
        series=(*_degree_curve(inputs), *_split_curves(inputs)),
        notes=tuple(sorted((*NOTES, *gaps(inputs)), key=lambda note: note[:3])),
    )


def _states(i: Inputs) -> list[Figure]:
    group = "(a) memory"
    linear, count = i.d * i.f, i.parameters
    parts = [count * each * GB for each in (i.master_bytes, i.gradient_bytes, i.optimizer_bytes)]
    copy = count * 2 * GB
    return [
        _figure(group, "parameters of a linear", linear),
        _figure(group, "parameters of a block", 2 * linear),
        _figure(group, "parameters", count),
        _figure(group, "master weights", parts[0], "GB", 2),
        _figure(group, "accumulated gradients", parts[1], "GB", 2),
        _figure(group, "optimizer state", parts[2], "GB", 2),
        _figure(group, "states, sum of rounded parts", sum(round(part, 2) for part in parts), "GB", 2),
        _figure(group, "states", i.state_bytes * GB, "GB", 2),
        _figure(group, "chips that hold the states", i.state_bytes / i.gpu_bytes, "", 2),
        _figure(group, "whole chips that hold the states", math.ceil(i.state_bytes / i.gpu_bytes)),
        _figure(group, "weights in 16 bits", copy, "GB", 2),
        _figure(group, "gradients in 16 bits", copy, "GB", 2),
        _figure(group, "weights and gradients in 16 bits", 2 * copy, "GB", 2),
        _figure(group, "activations kept for backward, one token", i.token_bytes, "B"),
        _figure(group, "activations kept for backward, tokens of a device", i.token_bytes * i.tokens_per_device * GB,
                "GB", 2),
    ]  # fmt: skip


def _degrees(i: Inputs) -> list[Figure]:
    group = "(b) FSDP degree"
    found = [
        _figure(group, f"smallest degree, {tokens} tokens per device", _ranks(least_ranks(i, tokens)))
        for tokens in sorted({*TABLE_TOKENS, i.tokens_per_device})
    ]
    chosen = least_ranks(i, i.tokens_per_device)
    if chosen is not None:
        used = float(device_bytes(i, chosen, i.tokens_per_device)) * GB
        found.append(_figure(group, "memory of a device at that degree, tokens of a device", used, "GB", 2))
    most = most_tokens(i)
    found.append(_figure(group, "tokens per device from which no degree fits", "none" if most is None else most))
    with_copy = i.state_bytes + 2 * i.parameters
    found.append(
        _figure(group, "smallest degree, 0 tokens, a 16-bit weight copy sharded too",
                _ranks(least_ranks(i, 0, with_copy)))
    )  # fmt: skip
    return found


def _bounds(i: Inputs) -> list[Figure]:
    group = "(c) compute-bound batch"
    found = [
        _figure(group, "α = C/W", i.intensity, "FLOP/B", 1),
        _figure(group, "F that tensor parallelism needs, Y·α/M_Y", i.Y * i.intensity / i.M_Y, "", 0),
        _figure(group, "F", i.f),
    ]
    for overlapped, words in WORDS.items():
        batch = least_batch(i, i.X, i.Y, overlapped=overlapped)
        found += [
            _figure(group, f"tokens of an FSDP shard, {words}", _finite(batch / i.X), "", 1),
            _figure(group, f"tokens of a chip, {words}", _finite(batch / (i.X * i.Y)), "", 1),
            _figure(group, f"overall batch, {words}", _finite(batch), "tokens", 0),
        ]
    batch = least_batch(i, i.X, i.Y, overlapped=True)
    if math.isfinite(batch):
        times = pass_times(i, batch, i.X, i.Y)
        for name, value in (("compute", times.compute_s), ("FSDP gathers", times.fsdp_s), ("TP exchanges", times.tp_s)):
            found.append(_figure(group, f"{name} of a block at that batch, axes overlapped", value * 1e3, "ms", 3))
    return found


def _splits(i: Inputs) -> list[Figure]:
    group = f"(d) best split of {i.chips} chips"
    found = []
    for overlapped, words in WORDS.items():
        split = best_split(i, overlapped=overlapped)
        batch = least_batch(i, *split, overlapped=overlapped) if split else math.inf
        tokens = closed_form_tokens(i, overlapped=overlapped)
        found += [
            _figure(group, f"X, {words}", split[0] if split else IMPOSSIBLE),
            _figure(group, f"Y, {words}", split[1] if split else IMPOSSIBLE),
            _figure(group, f"overall batch, {words}", _finite(batch), "tokens", 0),
            _figure(group, f"tokens of a chip, {words}", _finite(batch / i.chips), "", 1),
            _figure(group, f"closed form, tokens of a chip, {words}", tokens, "", 1),
            _figure(group, f"closed form, X = √(B·M_X·N/(F·M_Y)), {words}",
                    closed_form_fsdp(i, tokens * i.chips), "", 2),
        ]  # fmt: skip
    found.append(_figure(group, "widest tensor parallelism, F·M_Y/α", i.f * i.M_Y / i.intensity, "", 1))
    return found


def _levers(i: Inputs) -> list[Figure]:
    group = "(d) levers, tokens of an FSDP shard"

    def shard(one: Inputs, *, overlapped: bool = True) -> Value:
        return _finite(least_batch(one, one.X, one.Y, overlapped=overlapped) / one.X)

    faster = replace(i, chip_flops_per_s=2 * i.chip_flops_per_s)
    return [
        _figure(group, "as it is", shard(i), "", 1),
        _figure(group, "exchanges of both axes one after the other", shard(i, overlapped=False), "", 1),
        _figure(group, "weights sent in half the bytes", shard(replace(i, sent_bytes=i.sent_bytes / 2)), "", 1),
        _figure(group, "compute twice as fast", shard(faster), "", 1),
        _figure(group, "one more mesh axis for FSDP", shard(replace(i, M_X=min(i.M_X + 1, 16))), "", 1),
    ]


def _stages(i: Inputs) -> list[Figure]:
    group = "(d) lever, pipeline stages in X's place"
    batch = least_batch(i, max(i.X / i.pipeline, 1), i.Y, overlapped=True)
    over = f"{i.pipeline} stages, {i.micro_batches} micro-batches"
    return [
        _figure(group, f"overall batch, {over}, weights gathered once", _finite(batch), "tokens", 0),
        _figure(group, f"overall batch, {over}, weights gathered for each",
                _finite(batch * i.micro_batches), "tokens", 0),
        _figure(group, "gathered weights of a stage on a chip", resident_bytes(i) * GB, "GB", 2),
        _figure(group, "those and a chip's share of the states", (resident_bytes(i) + held_bytes(i)) * GB, "GB", 2),
        _figure(group, f"idle share of a step, {over}",
                100 * (i.pipeline - 1) / (i.micro_batches + i.pipeline - 1), "%", 1),
    ]  # fmt: skip


def _degree_curve(i: Inputs) -> tuple[Series, ...]:
    most = most_tokens(i) or 16 * max(i.tokens_per_device, 1024)
    tokens = sorted({round(most * step / 120) for step in range(121)} | {i.tokens_per_device})
    degrees = [least_ranks(i, one) for one in tokens]
    return (
        Series(group="(b) smallest FSDP degree", name="smallest degree", x_label="tokens per device",
               y_label="FSDP degree", x=tuple(tokens), y=tuple(degrees), kind="line", y_log=True),
    )  # fmt: skip


def _split_curves(i: Inputs) -> tuple[Series, ...]:
    found = []
    for overlapped, words in WORDS.items():
        batches = [least_batch(i, *split, overlapped=overlapped) / i.chips for split in splits(i.chips)]
        found.append(
            Series(group=f"(d) tokens of a chip from which {i.chips} chips are bound by compute", name=words,
                   x_label="FSDP × tensor parallel degree", y_label="tokens of a chip", kind="bar",
                   x=tuple(bar_name(i, split) for split in splits(i.chips)),
                   y=tuple(batch if math.isfinite(batch) else None for batch in batches))
        )  # fmt: skip
    return tuple(found)


def _figure(group: str, name: str, value: Value, unit: str = "", decimals: int | None = None) -> Figure:
    return Figure(group=group, name=name, value=value, unit=unit, decimals=None if isinstance(value, str) else decimals)


def _with_printed(figure: Figure, shown: dict[tuple[str, str], str]) -> Figure:
    text = shown.get((figure.group, figure.name))
    if text is None:
        return figure
    number, decimals = printed(text)
    return replace(figure, printed=number, decimals=decimals)


def _finite(value: float) -> Value:
    return value if math.isfinite(value) else IMPOSSIBLE


def _ranks(value: int | None) -> Value:
    return IMPOSSIBLE if value is None else value
