"""Forward of FlashAttention on Hopper's own units (compute capability 9.0), in Triton's explicit dialect Gluon.

The mathematics is FlashAttention-2's; the schedule is that of Shah et al., "FlashAttention-3" (arXiv 2407.08608),
section 3: one warp feeds tiles through the tensor memory accelerator, and two warp groups multiply them
asynchronously, each working on the exponentials of one tile while the tensor cores multiply the next.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from runners.flash.gluon_names import async_load, async_store, barrier


@gluon.jit
def place(program, block_count, heads_at_once, head_count, LONGEST_FIRST: gl.constexpr):
    """A program's block and head: blocks of few heads at a time, so that their keys stay in the L2 cache."""
    group = program // (heads_at_once * block_count)
    members = gl.minimum(heads_at_once, head_count - group * heads_at_once)
    inside = program - group * heads_at_once * block_count
    block = inside // members
    head = group * heads_at_once + inside % members
    if LONGEST_FIRST:
        block = block_count - 1 - block
    return block, head


@gluon.jit
def _blocks_of_keys(start, key_length, BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr, CAUSAL: gl.constexpr):
    """How many blocks of keys the block of queries at ``start`` sees."""
    length = key_length
    if CAUSAL:
        length = start + BLOCK_Q
    return length // BLOCK_K


@gluon.jit
def _feed_forward(
    query, key, value, q_tiles, k_tiles, v_tiles, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    q_batch, q_head, q_columns, k_batch, k_head, k_columns, v_batch, v_head, v_columns,
    query_length, key_length, heads, groups, head_count, heads_at_once, CAUSAL: gl.constexpr,
):  # fmt: skip
    """The feeding warp: of each block its queries, then keys and values from the last block to the first."""
    STAGES: gl.constexpr = k_tiles.type.shape[0]
    BLOCK_K: gl.constexpr = key.block_type.shape[0]
    HALF: gl.constexpr = query.block_type.shape[0]
    count = query_length // (2 * HALF)
    fed = 0
    number = 0
    for program in range(gl.program_id(0), count * head_count, gl.num_programs(0)):
        block, head = place(program, count, heads_at_once, head_count, CAUSAL)
        item, head_of_item = head // heads, head % heads
        key_head = head_of_item // groups
        buffer = number % 2
        mbarrier.wait(q_empty.index(buffer), (number // 2 & 1) ^ 1)
        mbarrier.expect(q_full.index(buffer), 2 * query.block_type.nbytes)
        for part in gl.static_range(2):
            row = item * q_batch + head_of_item * q_head + block * 2 * HALF + part * HALF
            tile = q_tiles.index(buffer * 2 + part)
            async_load(query, [row, head_of_item * q_columns], q_full.index(buffer), tile)
        blocks = _blocks_of_keys(block * 2 * HALF, key_length, 2 * HALF, BLOCK_K, CAUSAL)
        for turn in range(blocks):
            stage = (fed + turn) % STAGES
            phase = (fed + turn) // STAGES & 1
            start = (blocks - 1 - turn) * BLOCK_K
            mbarrier.wait(k_empty.index(stage), phase ^ 1)
            mbarrier.expect(k_full.index(stage), key.block_type.nbytes)
            k_at = [item * k_batch + key_head * k_head + start, key_head * k_columns]
            async_load(key, k_at, k_full.index(stage), k_tiles.index(stage))
            mbarrier.wait(v_empty.index(stage), phase ^ 1)
            mbarrier.expect(v_full.index(stage), value.block_type.nbytes)
            v_at = [item * v_batch + key_head * v_head + start, key_head * v_columns]
            async_load(value, v_at, v_full.index(stage), v_tiles.index(stage))
        fed += blocks
        number += 1


@gluon.jit
def _attend(
    out, lse, q_tiles, k_tiles, v_tiles, q_full, q_empty, k_full, k_empty, v_full, v_empty, turns,
    o_batch, o_head, o_columns, query_length, key_length, heads, head_count, heads_at_once, scale,
    PART: gl.constexpr, CAUSAL: gl.constexpr, TAKE_TURNS: gl.constexpr,
):  # fmt: skip
    """One warp group: of each block half of the queries against all keys that they see."""
    STAGES: gl.constexpr = k_tiles.type.shape[0]
    BLOCK_K: gl.constexpr = k_tiles.type.shape[1]
    DIM: gl.constexpr = k_tiles.type.shape[2]
    HALF: gl.constexpr = q_tiles.type.shape[1]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIM, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, score_layout)
    out_row_layout: gl.constexpr = gl.SliceLayout(1, out_layout)

    zeros = gl.zeros([HALF, BLOCK_K], gl.float32, score_layout)
    count = query_length // (2 * HALF)
    seen = 0
    number = 0
    for program in range(gl.program_id(0), count * head_count, gl.num_programs(0)):
        block, head = place(program, count, heads_at_once, head_count, CAUSAL)
        start = block * 2 * HALF + PART * HALF
        blocks = _blocks_of_keys(block * 2 * HALF, key_length, 2 * HALF, BLOCK_K, CAUSAL)
        buffer = number % 2
        q = q_tiles.index(buffer * 2 + PART)
        result = gl.zeros([HALF, DIM], gl.float32, out_layout)
        mbarrier.wait(q_full.index(buffer), number // 2 & 1)
        stage = seen % STAGES
        mbarrier.wait(k_full.index(stage), seen // STAGES & 1)
        pending = warpgroup_mma(q, k_tiles.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
        scores = warpgroup_mma_wait(0, (pending,))
        mbarrier.arrive(k_empty.index(stage), count=1)
        if CAUSAL:
            # blocks of queries and keys are equally long, so only the last block of keys needs the mask
            rows = start + gl.arange(0, HALF, row_layout)
            columns = (blocks - 1) * BLOCK_K + gl.arange(0, BLOCK_K, gl.SliceLayout(0, score_layout))
            scores = gl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        largest = gl.max(scores, 1) * scale
        weights = gl.exp2(scores * scale - largest[:, None])
        sums = gl.sum(weights, 1)
        operand = gl.convert_layout(weights.to(q.dtype), weight_layout)
        for turn in range(1, blocks):
            before, before_phase = (seen + turn - 1) % STAGES, (seen + turn - 1) // STAGES & 1
            stage, phase = (seen + turn) % STAGES, (seen + turn) // STAGES & 1
            mbarrier.wait(k_full.index(stage), phase)
            if TAKE_TURNS:
                mbarrier.wait(turns.index(PART), (seen - number + turn - 1 & 1) ^ (1 - PART))
            pending = warpgroup_mma(q, k_tiles.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
            mbarrier.wait(v_full.index(before), before_phase)
            running = warpgroup_mma(operand, v_tiles.index(before), result, is_async=True)
            if TAKE_TURNS:
                mbarrier.arrive(turns.index(1 - PART), count=1)
            scores = warpgroup_mma_wait(1, (pending,))
            mbarrier.arrive(k_empty.index(stage), count=1)
            larger = gl.maximum(largest, gl.max(scores, 1) * scale)
            weights = gl.exp2(scores * scale - larger[:, None])
            shrink = gl.exp2(largest - larger)
            sums = sums * shrink + gl.sum(weights, 1)
            largest = larger
            result = warpgroup_mma_wait(0, (running,))
            mbarrier.arrive(v_empty.index(before), count=1)
            result = result * gl.convert_layout(shrink, out_row_layout)[:, None]
            operand = gl.convert_layout(weights.to(q.dtype), weight_layout)
        seen += blocks
        last, last_phase = (seen - 1) % STAGES, (seen - 1) // STAGES & 1
        mbarrier.wait(v_full.index(last), last_phase)
        running = warpgroup_mma(operand, v_tiles.index(last), result, is_async=True)
        rows = head * query_length + start + gl.arange(0, HALF, row_layout)
        gl.store(lse + rows, largest + gl.log2(sums))
        result = warpgroup_mma_wait(0, (running,))
        mbarrier.arrive(v_empty.index(last), count=1)
        result = result / gl.convert_layout(sums, out_row_layout)[:, None]
        q.store(result.to(q.dtype))
        fence_async_shared()
        barrier()
        row = head // heads * o_batch + head % heads * o_head + start
        async_store(out, [row, head % heads * o_columns], q)
        tma.store_wait(0)
        mbarrier.arrive(q_empty.index(buffer), count=1)
        number += 1


@gluon.jit
def flash_forward_hopper(
    query, key, value, out, lse, scale,
    q_batch, q_head, q_columns, k_batch, k_head, k_columns, v_batch, v_head, v_columns, o_batch, o_head, o_columns,
    query_length, key_length, heads, groups, head_count, heads_at_once,
    CAUSAL: gl.constexpr, STAGES: gl.constexpr, TAKE_TURNS: gl.constexpr,
):  # fmt: skip
    """Blocks of 128 queries of one head, as many as there are for each program.

    The tensors are tile descriptors of matrices; ``_batch`` and ``_head`` say how many rows further the next batch item
    and head begin, ``_columns`` how many columns further the next head does.
    """
    HALF: gl.constexpr = query.block_type.shape[0]
    BLOCK_K: gl.constexpr = key.block_type.shape[0]
    DIM: gl.constexpr = key.block_type.shape[1]
    q_tiles = gl.allocate_shared_memory(query.dtype, [4, HALF, DIM], query.layout)
    k_tiles = gl.allocate_shared_memory(key.dtype, [STAGES, BLOCK_K, DIM], key.layout)
    v_tiles = gl.allocate_shared_memory(value.dtype, [STAGES, BLOCK_K, DIM], value.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for index in gl.static_range(2):
        mbarrier.init(q_full.index(index), count=1)
        mbarrier.init(q_empty.index(index), count=2)
        mbarrier.init(turns.index(index), count=1)
    for index in gl.static_range(STAGES):
        mbarrier.init(k_full.index(index), count=1)
        mbarrier.init(k_empty.index(index), count=2)
        mbarrier.init(v_full.index(index), count=1)
        mbarrier.init(v_empty.index(index), count=2)

    gl.warp_specialize(
        [
            (
                _attend,
                (
                    out, lse, q_tiles, k_tiles, v_tiles, q_full, q_empty, k_full, k_empty, v_full, v_empty, turns,
                    o_batch, o_head, o_columns, query_length, key_length, heads, head_count, heads_at_once, scale,
                    0, CAUSAL, TAKE_TURNS,
                ),
            ),
            (
                _attend,
                (
                    out, lse, q_tiles, k_tiles, v_tiles, q_full, q_empty, k_full, k_empty, v_full, v_empty, turns,
                    o_batch, o_head, o_columns, query_length, key_length, heads, head_count, heads_at_once, scale,
                    1, CAUSAL, TAKE_TURNS,
                ),
            ),
            (
                _feed_forward,
                (
                    query, key, value, q_tiles, k_tiles, v_tiles, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                    q_batch, q_head, q_columns, k_batch, k_head, k_columns, v_batch, v_head, v_columns,
                    query_length, key_length, heads, groups, head_count, heads_at_once, CAUSAL,
                ),
            ),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
