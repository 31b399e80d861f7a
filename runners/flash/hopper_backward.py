"""Backward of FlashAttention on Hopper's own units (compute capability 9.0), in Gluon.

One warp feeds tiles, two warp groups hold dK and dV of one block of keys in registers (arXiv 2407.08608, appendix B).
dQ is added up in fp32 memory by the tensor memory accelerator, in the order in which blocks finish: its last bits
differ from run to run.
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

from runners.flash.gluon_names import async_add, async_load, async_store, barrier
from runners.flash.hopper_forward import place


@gluon.jit
def _feed_backward(
    query, dout, key, value, lse, delta, q_tiles, g_tiles, k_tile, v_tile, lse_tiles, delta_tiles,
    kv_full, q_full, q_empty, g_full, g_empty, lse_row, query_length, first, count, groups, first_head,
    key_row, key_column, value_row, value_column, query_row, q_head, q_columns, dout_row, g_head, g_columns,
):  # fmt: skip
    """The feeding warp: one block of keys and values, then the queries that see it, head after head."""
    STAGES: gl.constexpr = q_tiles.type.shape[0]
    BLOCK_Q: gl.constexpr = query.block_type.shape[0]
    mbarrier.expect(kv_full, key.block_type.nbytes + value.block_type.nbytes)
    async_load(key, [key_row, key_column], kv_full, k_tile)
    async_load(value, [value_row, value_column], kv_full, v_tile)
    for turn in range(groups * count):
        stage = turn % STAGES
        phase = turn // STAGES & 1
        head = first_head + turn // count
        start = (first + turn % count) * BLOCK_Q
        row = lse_row + turn // count * query_length + start
        mbarrier.wait(q_empty.index(stage), phase ^ 1)
        mbarrier.expect(q_full.index(stage), query.block_type.nbytes + lse.block_type.nbytes)
        q_at = [query_row + head * q_head + start, head * q_columns]
        async_load(query, q_at, q_full.index(stage), q_tiles.index(stage))
        async_load(lse, [row], q_full.index(stage), lse_tiles.index(stage))
        mbarrier.wait(g_empty.index(stage), phase ^ 1)
        mbarrier.expect(g_full.index(stage), dout.block_type.nbytes + delta.block_type.nbytes)
        g_at = [dout_row + head * g_head + start, head * g_columns]
        async_load(dout, g_at, g_full.index(stage), g_tiles.index(stage))
        async_load(delta, [row], g_full.index(stage), delta_tiles.index(stage))


@gluon.jit
def _differentiate(
    summed, dkey, dvalue, q_tiles, g_tiles, k_tile, v_tile, lse_tiles, delta_tiles, ds_tile, dq_tile,
    kv_full, q_full, q_empty, g_full, g_empty, lse_row, query_length, first, count, groups,
    dkey_row, dkey_column, dvalue_row, dvalue_column, start, scale, gradient_scale, CAUSAL: gl.constexpr,
):  # fmt: skip
    """Two warp groups: dK and dV of one block of keys in registers, dQ added up in memory tile by tile.

    Exponentials are worked out while dP is multiplied, dS while dV is, and dQ is written while dK is.
    """
    STAGES: gl.constexpr = q_tiles.type.shape[0]
    BLOCK_Q: gl.constexpr = q_tiles.type.shape[1]
    DIM: gl.constexpr = q_tiles.type.shape[2]
    BLOCK_K: gl.constexpr = k_tile.type.shape[0]
    WARPS: gl.constexpr = gl.num_warps()
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BLOCK_Q, 16])
    key_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, DIM, 16])
    operand_layout: gl.constexpr = gl.DotOperandLayout(0, key_layout, 2)
    ROWS: gl.constexpr = BLOCK_Q // 16 if BLOCK_Q // 16 < WARPS else WARPS
    query_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [ROWS, WARPS // ROWS], [16, DIM * ROWS // WARPS, 16])
    column_layout: gl.constexpr = gl.SliceLayout(0, score_layout)
    dtype: gl.constexpr = q_tiles.dtype

    no_scores = gl.zeros([BLOCK_K, BLOCK_Q], gl.float32, score_layout)
    no_dq = gl.zeros([BLOCK_Q, DIM], gl.float32, query_layout)
    dk = gl.zeros([BLOCK_K, DIM], gl.float32, key_layout)
    dv = gl.zeros([BLOCK_K, DIM], gl.float32, key_layout)
    turns = groups * count
    mbarrier.wait(kv_full, 0)
    for turn in range(turns):
        stage = turn % STAGES
        phase = turn // STAGES & 1
        block = first + turn % count
        q = q_tiles.index(stage)
        g = g_tiles.index(stage)
        mbarrier.wait(q_full.index(stage), phase)
        pending = warpgroup_mma(k_tile, q.permute((1, 0)), no_scores, use_acc=False, is_async=True)
        mbarrier.wait(g_full.index(stage), phase)
        pending_dp = warpgroup_mma(v_tile, g.permute((1, 0)), no_scores, use_acc=False, is_async=True)
        scores = warpgroup_mma_wait(1, (pending,))
        logarithm = lse_tiles.index(stage).load(column_layout)
        weights = gl.exp2(scores * scale - logarithm[None, :])
        if CAUSAL:  # noqa: SIM102  (this is decided when compiling, the next when running)
            if block * BLOCK_Q < start + BLOCK_K:
                keys = start + gl.arange(0, BLOCK_K, gl.SliceLayout(1, score_layout))
                queries = block * BLOCK_Q + gl.arange(0, BLOCK_Q, column_layout)
                weights = gl.where(queries[None, :] >= keys[:, None], weights, 0.0)
        operand = gl.convert_layout(weights.to(dtype), operand_layout)
        pending_dv = warpgroup_mma(operand, g, dv, is_async=True)
        dp = warpgroup_mma_wait(1, (pending_dp,))
        row_delta = delta_tiles.index(stage).load(column_layout)
        dscores = (weights * (dp - row_delta[None, :])).to(dtype)
        ds_tile.store(dscores)
        fence_async_shared()
        barrier()
        pending_dq = warpgroup_mma(ds_tile.permute((1, 0)), k_tile, no_dq, use_acc=False, is_async=True)
        pending_dk = warpgroup_mma(gl.convert_layout(dscores, operand_layout), q, dk, is_async=True)
        dv, dq = warpgroup_mma_wait(1, (pending_dv, pending_dq))
        mbarrier.arrive(g_empty.index(stage), count=1)
        tma.store_wait(0)
        barrier()
        dq_tile.store(dq)
        fence_async_shared()
        barrier()
        row = lse_row + turn // count * query_length + block * BLOCK_Q
        async_add(summed, [row, 0], dq_tile)
        # nothing may run on across the end of the loop: ptxas would make every product wait for its predecessor
        dk = warpgroup_mma_wait(0, (pending_dk,))
        mbarrier.arrive(q_empty.index(stage), count=1)
    v_tile.store(dv.to(dtype))
    k_tile.store((dk * gradient_scale).to(dtype))
    fence_async_shared()
    barrier()
    async_store(dvalue, [dvalue_row, dvalue_column], v_tile)
    async_store(dkey, [dkey_row, dkey_column], k_tile)
    tma.store_wait(0)


@gluon.jit
def flash_backward_hopper(
    query, dout, key, value, lse, delta, summed, dkey, dvalue, scale, gradient_scale,
    q_batch, q_head, q_columns, g_batch, g_head, g_columns, k_batch, k_head, k_columns, v_batch, v_head, v_columns,
    dk_batch, dk_head, dk_columns, dv_batch, dv_head, dv_columns,
    query_length, key_length, heads, groups, key_head_count, heads_at_once, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """One block of 128 keys of one head: dK, dV, and its share of dQ; arguments as in the forward."""
    BLOCK_Q: gl.constexpr = query.block_type.shape[0]
    BLOCK_K: gl.constexpr = key.block_type.shape[0]
    DIM: gl.constexpr = key.block_type.shape[1]
    k_tile = gl.allocate_shared_memory(key.dtype, [BLOCK_K, DIM], key.layout)
    v_tile = gl.allocate_shared_memory(value.dtype, [BLOCK_K, DIM], value.layout)
    q_tiles = gl.allocate_shared_memory(query.dtype, [STAGES, BLOCK_Q, DIM], query.layout)
    g_tiles = gl.allocate_shared_memory(dout.dtype, [STAGES, BLOCK_Q, DIM], dout.layout)
    lse_tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_Q], lse.layout)
    delta_tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_Q], delta.layout)
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_K, BLOCK_Q], query.dtype)
    ds_tile = gl.allocate_shared_memory(query.dtype, [BLOCK_K, BLOCK_Q], ds_layout)
    dq_tile = gl.allocate_shared_memory(gl.float32, [BLOCK_Q, DIM], summed.layout)
    kv_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    g_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    g_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(kv_full, count=1)
    for index in gl.static_range(STAGES):
        mbarrier.init(q_full.index(index), count=1)
        mbarrier.init(q_empty.index(index), count=1)
        mbarrier.init(g_full.index(index), count=1)
        mbarrier.init(g_empty.index(index), count=1)

    block, key_head = place(gl.program_id(0), key_length // BLOCK_K, heads_at_once, key_head_count, False)
    start = block * BLOCK_K
    key_heads = heads // groups
    item, head = key_head // key_heads, key_head % key_heads
    lse_row = key_head * groups * query_length
    first = 0
    if CAUSAL:
        first = start // BLOCK_Q
    count = query_length // BLOCK_Q - first
    gl.warp_specialize(
        [
            (
                _differentiate,
                (
                    summed, dkey, dvalue, q_tiles, g_tiles, k_tile, v_tile, lse_tiles, delta_tiles, ds_tile, dq_tile,
                    kv_full, q_full, q_empty, g_full, g_empty, lse_row, query_length, first, count, groups,
                    item * dk_batch + head * dk_head + start, head * dk_columns,
                    item * dv_batch + head * dv_head + start, head * dv_columns, start, scale, gradient_scale, CAUSAL,
                ),
            ),
            (
                _feed_backward,
                (
                    query, dout, key, value, lse, delta, q_tiles, g_tiles, k_tile, v_tile, lse_tiles, delta_tiles,
                    kv_full, q_full, q_empty, g_full, g_empty, lse_row, query_length, first, count, groups,
                    head * groups,
                    item * k_batch + head * k_head + start, head * k_columns,
                    item * v_batch + head * v_head + start, head * v_columns,
                    item * q_batch, q_head, q_columns, item * g_batch, g_head, g_columns,
                ),
            ),
        ],
        [1],
        [24],
    )  # fmt: skip
