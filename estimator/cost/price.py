"""Price: seconds of every op on one chip, and which roof binds it."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.attention import FLASH_WIDTH, WIDTH, attention_s
from estimator.cost.efficiency import Efficiencies
from estimator.cost.gemm import gemm_s, grouped_s
from estimator.operations.aten.optimizer import CHUNKS
from estimator.operations.op import WALKER_THREADS, WHOLE, Op
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import Chip, peak_flops_per_s
from estimator.scenario.units import Number


@dataclass(kw_only=True, slots=True)
class Priced:
    """An op with the device time of one execution, its executed FLOPs, and the time that each roof alone allows.

    ``units_s``: of the seconds, those in which units bind the op that draw much, and neither memory nor a load.
    """

    op: Op
    seconds: Number
    executed_flops: Number
    compute_s: Number
    memory_s: Number
    launch_s: Number
    units_s: Number = 0.0

    @property
    def bound(self) -> str:
        """The roof that binds; for plain numbers."""
        if self.launch_s > self.memory_s and self.launch_s > self.compute_s:
            return "launch"
        return "memory" if self.memory_s > self.compute_s else "compute"


def price(op: Op, chip: Chip, efficiencies: Efficiencies) -> Priced:
    """Give the device time of one execution of ``op``; host time is priced apart (host.py)."""
    if op.kind == "transfer":
        return _transfer(op, chip, efficiencies)
    if efficiencies.lower_bound:
        return _roofs(op, chip)
    if op.kind == "gemm":
        return _gemm(op, chip, efficiencies)
    if op.kind == "attention":
        return _attention(op, chip, efficiencies)
    return _kernels(op, chip, efficiencies)


UNALIGNED = {1: "gemm_unaligned_frac", 2: "gemm_pairs_frac", 4: "gemm_fours_frac"}
"""The efficiency of products by the elements that are fetched at once, where those are few."""


def reachable_flops_per_s(
    chip: Chip,
    precision: str,
    efficiencies: Efficiencies,
    *,
    fetched: int = WHOLE,
    outer: bool = False,
    turned: bool = False,
) -> float:
    """Matrix rate that large products reach: a named share of the dense peak of the unit that runs ``precision``.

    ``outer``: a weight's gradient Gᵀ·X, both of whose operands lie across; ``turned``: an input's, G·W, of which one
    does. Operands of 4 bytes are not transposed on their way to the matrix unit.
    """
    peak = peak_flops_per_s(chip, precision)
    if precision == "fp32":
        return peak * efficiencies.gemm_vector_frac * (efficiencies.gemm_vector_outer_factor if outer else 1.0)
    share = efficiencies.gemm_tf32_frac if precision == "tf32" else efficiencies.gemm_matrix_frac
    if precision == "tf32" and outer:
        share *= efficiencies.gemm_tf32_outer_frac
    elif precision == "tf32" and turned:
        share *= efficiencies.gemm_tf32_input_frac
    if fetched not in UNALIGNED:
        return peak * share
    # What is fetched element by element runs as slowly in tf32 as in 16 bits.
    widest = max(chip.bf16_flops_per_s, chip.fp16_flops_per_s) or peak
    return min(peak * share, widest * float(getattr(efficiencies, UNALIGNED[fetched])))


def _roofs(op: Op, chip: Chip) -> Priced:
    """max(FLOPs / peak, bytes / bandwidth): no tiles and waves, no narrow heads, no launches (Williams 2009).

    Products and attention run at the peak of their precision, masked tiles are skipped; kernels move their bytes.
    """
    executed = op.flops * op.visible_frac if op.kind == "attention" else op.flops
    compute: Number = 0.0
    if op.kind != "kernels":
        compute = executed / peak_flops_per_s(chip, op.precision)
    memory = op.bytes / chip.memory_bytes_per_s
    return Priced(
        op=op,
        seconds=maximum(compute, memory),
        executed_flops=executed,
        compute_s=compute,
        memory_s=memory,
        launch_s=0.0,
    )


PRODUCTS = {"tf32": ("gemm_tf32_start_s", "gemm_tf32_tiles"), "fp32": ("gemm_vector_start_s", "gemm_vector_tiles")}
"""Start and tiles of products by precision, where they are not those of 16 bits and less."""


SPLIT_DEPTHS = {"fp32": "gemm_vector_split_depth", "tf32": "gemm_tf32_split_depth"}
"""The least depth of a part of a product that is split, by precision, where it is not that of 16 bits and less."""


GROUPED = ("bf16", "fp16")
"""Precisions, under autocast too, whose grouped products are one kernel of torch's own tiles; others go by all rows."""


def _gemm(op: Op, chip: Chip, efficiencies: Efficiencies) -> Priced:
    many = op.category == Category.ATTENTION
    rate = reachable_flops_per_s(
        chip, op.precision, efficiencies, fetched=op.fetched, outer=op.outer and not many, turned=op.turned and not many
    )
    memory = chip.memory_bytes_per_s * efficiencies.memory_frac
    results = efficiencies.gemm_result_bytes_per_unit_cycle * chip.compute_units * chip.clock_hz or memory
    start, tiles = PRODUCTS.get(op.precision, ("gemm_start_s", "gemm_matrix_tiles"))
    if op.grouped and op.precision.startswith(GROUPED) and chip.kind != "cpu":
        seconds = grouped_s(
            groups=op.batch,
            m=op.m,
            n=op.n,
            k=op.k,
            parts_rows=not op.outer,
            bytes=op.bytes,
            waited_bytes=waited_bytes(op, efficiencies),
            flops_per_s=rate,
            compute_units=chip.compute_units,
            memory_bytes_per_s=memory,
            start_s=getattr(efficiencies, start),
            tile_s=efficiencies.gemm_grouped_tile_s,
            switch_s=efficiencies.gemm_grouped_switch_s,
            overlap_power=efficiencies.gemm_batched_overlap_power,
        )
    else:
        times: Number = op.batch if op.apart else 1.0
        seconds = times * gemm_s(
            batch=op.batch / times,
            m=op.m,
            n=op.n,
            k=op.k,
            bytes=op.bytes / times,
            waited_s=waited_bytes(op, efficiencies) / times / results,
            flops_per_s=rate,
            compute_units=chip.compute_units,
            memory_bytes_per_s=memory,
            start_s=getattr(efficiencies, start),
            tiles=getattr(efficiencies, tiles),
            split_factor=efficiencies.gemm_split_factor,
            split_depth=getattr(efficiencies, SPLIT_DEPTHS.get(op.precision, "gemm_split_depth")),
            fill_depth=efficiencies.gemm_vector_fill_depth if op.precision == "fp32" else efficiencies.gemm_fill_depth,
            overlap_power=efficiencies.gemm_batched_overlap_power if many else efficiencies.gemm_overlap_power,
        )
    moved_s = op.bytes / memory
    return Priced(
        op=op,
        seconds=seconds,
        executed_flops=op.flops,
        compute_s=op.flops / rate,
        memory_s=moved_s,
        launch_s=0.0,
        units_s=where(seconds > (moved_s + getattr(efficiencies, start)) * SAME, seconds, 0.0) if _follows(op) else 0.0,
    )


SAME = 1.0 + 1e-9
"""Beyond it a product takes longer than memory alone says."""


def waited_bytes(op: Op, efficiencies: Efficiencies) -> Number:
    """Bytes of a product that its units wait for: its result and, of its operands, ``gemm_operands_frac``.

    Vector units (fp32) fetch their operands themselves, and wait for all of them.
    """
    if op.precision == "fp32":
        return op.bytes
    return op.bytes - op.operand_bytes * (1.0 - efficiencies.gemm_operands_frac)


VECTOR = ("fp32", "tf32")
"""Precisions whose fused attention multiplies on vector units."""


def _follows(op: Op) -> bool:
    """Whether its time falls with the clock where units bind it: products with weights and fused attention of 16 bits.

    Products of scores, apart, wait for memory: in a loop at three quarters of the clock they took no longer than their
    bytes (tests/reference/h100_power.json). Vector units draw less than a chip may.
    """
    if op.kind == "attention":
        return op.precision not in VECTOR
    return op.kind == "gemm" and op.category == Category.MATMUL and op.precision != "fp32"


def _attention(op: Op, chip: Chip, efficiencies: Efficiencies) -> Priced:
    e, vector = efficiencies, op.precision in VECTOR
    backward = op.phase == "backward" and not op.recomputed
    peak = chip.fp32_flops_per_s if vector else peak_flops_per_s(chip, op.precision)
    rate = peak * (e.attention_vector_frac if vector else getattr(e, op.efficiency))
    for name in () if vector else op.slowed_by:
        rate *= getattr(e, name)
    flash = op.efficiency == FLASH_FRAC and not vector
    half_widths = e.attention_half_width, e.attention_backward_half_width
    backward_frac, tail_blocks = e.attention_backward_frac, e.attention_tail_blocks
    row_cycles = e.attention_row_cycles, e.attention_backward_row_cycles
    if vector:
        half_widths = e.attention_vector_half_width, e.attention_vector_backward_half_width
        backward_frac, tail_blocks = e.attention_vector_backward_frac, e.attention_vector_tail_blocks
        row_cycles = e.attention_vector_row_cycles, e.attention_vector_backward_row_cycles
    if flash:
        half_widths = e.attention_flash_half_width, e.attention_flash_backward_half_width
        backward_frac = e.attention_flash_backward_frac
    rate *= backward_frac if backward else 1.0
    tile = min(VECTOR_TILE if vector else op.tile, e.attention_tile)
    tiled = e.attention_tile > 1.0
    half_lengths = e.attention_half_length, e.attention_backward_half_length
    memory = chip.memory_bytes_per_s * e.memory_frac
    seconds = attention_s(
        batch=op.batch,
        queries=op.m,
        keys=op.n,
        head_dim=float(op.k),
        flops=op.flops * op.padded,
        visible_frac=_computed_frac(op, chip),
        padded_rows=not backward,
        tile=tile,
        bytes=op.bytes,
        flops_per_s=rate,
        memory_bytes_per_s=memory,
        units_hz=chip.compute_units * chip.clock_hz,
        compute_units=chip.compute_units,
        half_length=e.attention_vector_half_length if vector else half_lengths[backward],
        half_width=half_widths[backward],
        row_cycles=row_cycles[backward] if tiled else 0.0,
        tail_blocks=tail_blocks if tiled else 0.0,
        built_for=FLASH_WIDTH if op.efficiency == FLASH_FRAC or (vector and not backward) else WIDTH,
        width_power=e.attention_flash_width_power if flash else 1.0,
    )
    start = e.attention_start_s
    if tiled and backward and not vector:
        # One kernel as long as a product's, and small ones before and behind it
        start = (start + 2.0 * e.kernel_tail_s) / 3.0
        seconds = seconds + op.side_bytes / memory
    seconds = seconds + start * op.launches
    return Priced(
        op=op,
        seconds=seconds,
        executed_flops=op.flops * op.visible_frac,
        compute_s=op.flops * op.padded * op.visible_frac / rate,
        memory_s=op.bytes / memory,
        launch_s=0.0,
        units_s=seconds if _follows(op) else 0.0,
    )


FLASH_FRAC = "attention_flash_frac"
"""What an op names whose kernel is FlashAttention-2's."""

VECTOR_TILE = 64.0
"""Queries that a block of fp32 attention takes (fmha_cutlassF_f32_aligned_64x64)."""

UNIT_THREADS = 2048
"""Threads of an SM."""


CPU_KEYS = 512.0
"""Keys that torch's attention on a CPU takes at a time (kvSplitSize in FlashAttentionKernel.cpp of ATen/native/cpu):
only blocks of which no query sees any are skipped."""


def _computed_frac(op: Op, chip: Chip) -> Number:
    """Share of the scores that are computed: on a CPU those of half a block of keys more than are seen."""
    if chip.kind != "cpu":
        return op.visible_frac
    return minimum(op.visible_frac + 0.5 * CPU_KEYS / op.n, 1.0)


def _kernels(op: Op, chip: Chip, efficiencies: Efficiencies) -> Priced:
    units_hz = chip.compute_units * chip.clock_hz
    memory = chip.memory_bytes_per_s * efficiencies.memory_frac
    again = efficiencies.softmax_frac if op.category == Category.ATTENTION else efficiencies.norm_frac
    rate = getattr(efficiencies, op.efficiency or "strided_elements_per_unit_cycle")
    elements = op.strided_elements / (units_hz * rate) + op.mixed_elements / (
        units_hz * efficiencies.mixed_elements_per_unit_cycle
    )
    # What elements limit on fast memory, bytes do on slow.
    slow_s = (op.bytes - op.stream_bytes) / memory
    slow = maximum(elements, slow_s)
    units = where(elements > slow_s, elements, 0.0)
    columns = units_hz * efficiencies.column_bytes_per_unit_cycle
    seconds = (
        _streamed_s(op, chip, efficiencies, memory)
        + (op.reduced_bytes * (1.0 / again - 1.0) - _held_bytes(op, chip)) / memory
        + op.column_bytes * maximum(1.0 / columns - 1.0 / memory, 0.0)
        + minimum(op.column_bytes, 1.0) * efficiencies.column_start_s
        + slow
        + op.rows * efficiencies.norm_row_cycles / units_hz
    )
    resident = chip.compute_units * (UNIT_THREADS // WALKER_THREADS)
    walked = op.walked_elements / (WALKER_THREADS * minimum(op.walkers, resident)) * getattr(efficiencies, op.load)
    computed = op.gelus / (units_hz * efficiencies.gelu_elements_per_unit_cycle)
    # Walkers wait for loads, whatever the units could do meanwhile.
    units = where(computed > maximum(seconds, walked), computed, where(walked > seconds, 0.0, units))
    seconds = maximum(maximum(seconds, walked), computed)
    # A multi-tensor launch ends with unequal chunks; its tail is longer than that of one tensor's kernel.
    together = op.category == Category.OPTIMIZER and not (op.apart and chip.kind != "cpu")
    each = efficiencies.optimizer_tail_s if together else efficiencies.kernel_tail_s
    tail = op.launches * op.batch * each
    if op.chunk_bytes and chip.kind != "cpu":
        tail = _in_waves_s(op, chip, efficiencies, memory) - op.stream_bytes / memory
    return Priced(
        op=op,
        seconds=seconds + tail,
        executed_flops=op.flops,
        compute_s=0.0,
        memory_s=seconds,
        launch_s=tail,
        units_s=units,
    )


CHUNK_BLOCKS = 2
"""Blocks of a fused update that a unit holds at a time: on an H200 264 chunks take 131 µs (fp32) and 72 (bf16), eight
more 150 and 103 (python -m benchmarks.loops updates; tests/reference/h200_updates.json)."""


def _in_waves_s(op: Op, chip: Chip, e: Efficiencies, bytes_per_s: float) -> Number:
    """Seconds of launches whose blocks each do much, in waves of as many as fit.

    Of c chunks in waves of s: ⌊c/s⌋·(w + s·b/rate) + max(block, w + (c mod s)·b/rate), the last one taking no less than
    a block alone does. Launches have all the chunks they can, but for the last, and those that are full of tensors.
    """
    chunks = op.stream_bytes / op.chunk_bytes
    each_s = op.chunk_bytes / bytes_per_s
    slots = float(CHUNK_BLOCKS * chip.compute_units)

    def launch_s(taken: Number) -> Number:
        waves = taken // slots
        left = taken - waves * slots
        last_s = maximum(e.optimizer_chunk_s, e.optimizer_wave_s + left * each_s)
        return waves * (e.optimizer_wave_s + slots * each_s) + where(left > 0, last_s, 0.0)

    full = chunks // CHUNKS
    others = maximum(op.launches - full, 1.0)
    return full * launch_s(CHUNKS) + others * launch_s((chunks - full * CHUNKS) / others)


CACHE_WIDTH = 0.8
"""From the largest tensor that is found whole to the smallest that is not, over the one that is found by half: 0.28 and
0.64 of an H100's cache (chains of kernels, tests/reference/h100_cache_chains.json)."""


CACHE_POWER = 4.0
"""p of (memory^p + cache^p)^(1/p): a cache gives what it has while memory gives the rest."""


def _streamed_s(op: Op, chip: Chip, e: Efficiencies, memory: float) -> Number:
    """Seconds of contiguous bytes, some of them found in the last-level cache: ((missed / m)^p + (all / c)^p)^(1/p).

    All of them pass that cache, at its own rate c; where it has none of them, memory's m says it all.
    """
    found = _found_bytes(op, chip, e)
    if isinstance(found, (int, float)) and found == 0.0:
        return op.stream_bytes / memory
    cache = e.cache_bytes_per_unit_cycle * chip.compute_units * chip.clock_hz
    missed_s, passed_s = (op.stream_bytes - found) / memory, op.stream_bytes / cache
    both_s = (missed_s**CACHE_POWER + passed_s**CACHE_POWER) ** (1.0 / CACHE_POWER)
    return minimum(both_s, op.stream_bytes / memory)


def _found_bytes(op: Op, chip: Chip, efficiencies: Efficiencies) -> Number:
    """Bytes read from the last-level cache, as the kernel before each has just written them."""
    if not op.chained or not chip.l2_bytes:
        return 0.0
    kept = chip.l2_bytes * efficiencies.cache_kept_frac
    return sum(
        (size * readers * _found_frac(size, kept) for size, readers in op.chained),
        start=0.0,
    )


def _held_bytes(op: Op, chip: Chip) -> Number:
    """Bytes that an update of one tensor after another finds in a CPU's last-level cache, as it has just been there."""
    again, whole = op.held
    if chip.kind != "cpu" or not chip.l2_bytes:
        return 0.0
    return again * _found_frac(whole, chip.l2_bytes)


def _found_frac(size_bytes: Number, kept_bytes: float) -> Number:
    """Share of a tensor that is found, which falls evenly as it grows from 0.6 to 1.4 times what a cache keeps."""
    return minimum(maximum(0.5 + (1.0 - size_bytes / kept_bytes) / CACHE_WIDTH, 0.0), 1.0)


def _transfer(op: Op, chip: Chip, efficiencies: Efficiencies) -> Priced:
    """Bytes over the link to host memory; over the device's own where the chip has none or it is unknown.

    Pageable memory the host copies itself, into buffers of the driver: slower than any link.
    """
    rate: Number = chip.host_bytes_per_s * efficiencies.host_link_frac or chip.memory_bytes_per_s
    if op.efficiency == "host_pageable_bytes_per_s":
        rate = minimum(rate, efficiencies.host_pageable_bytes_per_s)
    seconds = op.bytes / rate
    return Priced(op=op, seconds=seconds, executed_flops=0.0, compute_s=0.0, memory_s=seconds, launch_s=0.0)
