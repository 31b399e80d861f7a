"""Backward of FlashAttention-2 in Triton for every GPU that Triton knows.

Dao (arXiv 2307.08691), algorithm 2, in two kernels, one for dK and dV and one for dQ, which each recompute p: nothing
is added atomically, so that every run gives the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from runners.flash.triton_forward import load, put, visible


@triton.jit
def flash_preprocess(
    out, dout, delta, ob, oh, os, gb, gh, gs, heads, query_length, dim, BLOCK_Q: tl.constexpr, DIM: tl.constexpr
):
    """delta = Σ out·dout by row: what the softmax's backward subtracts from dP (section 2.3.2)."""
    blocks = tl.cdiv(query_length, BLOCK_Q)
    block = tl.program_id(0) % blocks
    item, head = tl.program_id(0) // blocks // heads, tl.program_id(0) // blocks % heads
    out += item.to(tl.int64) * ob + head.to(tl.int64) * oh
    dout += item.to(tl.int64) * gb + head.to(tl.int64) * gh
    delta += (item * heads + head).to(tl.int64) * query_length
    start = block * BLOCK_Q
    rows = start + tl.arange(0, BLOCK_Q)
    o = load(out, start, BLOCK_Q, query_length, os, dim, DIM, False).to(tl.float32)
    g = load(dout, start, BLOCK_Q, query_length, gs, dim, DIM, False).to(tl.float32)
    tl.store(delta + rows, tl.sum(o * g, 1), mask=rows < query_length)


@triton.jit
def _to_keys(
    dk, dv, k, v, query, dout, lse, delta, first, last, keys, query_length, key_length, scale,
    qs, gs, dim,
    BLOCK_Q: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Add what the queries of [first, last) send to one block of keys and values."""
    for start in range(first, last, BLOCK_Q):
        queries = start + tl.arange(0, BLOCK_Q)
        q = load(query, start, BLOCK_Q, query_length, qs, dim, DIM, WHOLE)
        if WHOLE:
            logarithm, row_delta = tl.load(lse + queries), tl.load(delta + queries)
        else:
            # plus infinity: rows that do not exist get weight zero
            logarithm = tl.load(lse + queries, mask=queries < query_length, other=float("inf"))
            row_delta = tl.load(delta + queries, mask=queries < query_length, other=0.0)
        weights = tl.math.exp2(tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale - logarithm[None, :])
        if MASK:
            weights = tl.where(visible(queries[None, :], keys[:, None], key_length, CAUSAL), weights, 0.0)
        g = load(dout, start, BLOCK_Q, query_length, gs, dim, DIM, WHOLE)
        dv = tl.dot(weights.to(g.dtype), g, dv, input_precision=PRECISION)
        dscores = weights * (tl.dot(v, tl.trans(g), input_precision=PRECISION) - row_delta[None, :])
        dk = tl.dot(dscores.to(q.dtype), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def flash_backward_keys(
    query, key, value, dout, lse, delta, dkey, dvalue, scale, gradient_scale,
    qb, qh, qs, kb, kh, ks, vb, vh, vs, gb, gh, gs, dkb, dkh, dks, dvb, dvh, dvs,
    heads, groups, query_length, key_length, dim,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of keys: dV = Pᵀ·dO and dK = dSᵀ·Q·scale, over all query heads that share it."""
    blocks = tl.cdiv(key_length, BLOCK_K)
    key_heads = heads // groups
    block = tl.program_id(0) % blocks
    item, key_head = tl.program_id(0) // blocks // key_heads, tl.program_id(0) // blocks % key_heads
    key += item.to(tl.int64) * kb + key_head.to(tl.int64) * kh
    value += item.to(tl.int64) * vb + key_head.to(tl.int64) * vh
    dkey += item.to(tl.int64) * dkb + key_head.to(tl.int64) * dkh
    dvalue += item.to(tl.int64) * dvb + key_head.to(tl.int64) * dvh

    start = block * BLOCK_K
    keys = start + tl.arange(0, BLOCK_K)
    k = load(key, start, BLOCK_K, key_length, ks, dim, DIM, WHOLE)
    v = load(value, start, BLOCK_K, key_length, vs, dim, DIM, WHOLE)
    dk = tl.zeros([BLOCK_K, DIM], tl.float32)
    dv = tl.zeros([BLOCK_K, DIM], tl.float32)
    first = 0
    unmasked = 0
    if CAUSAL:
        first = start // BLOCK_Q * BLOCK_Q
        unmasked = tl.minimum(tl.cdiv(start + BLOCK_K, BLOCK_Q) * BLOCK_Q, query_length)
    for member in range(groups):
        head = key_head * groups + member
        q_head = query + item.to(tl.int64) * qb + head.to(tl.int64) * qh
        g_head = dout + item.to(tl.int64) * gb + head.to(tl.int64) * gh
        row = (item * heads + head).to(tl.int64) * query_length
        if CAUSAL:
            dk, dv = _to_keys(
                dk, dv, k, v, q_head, g_head, lse + row, delta + row, first, unmasked, keys, query_length, key_length,
                scale, qs, gs, dim, BLOCK_Q, DIM, CAUSAL, True, WHOLE, PRECISION,
            )  # fmt: skip
        dk, dv = _to_keys(
            dk, dv, k, v, q_head, g_head, lse + row, delta + row, unmasked, query_length, keys, query_length,
            key_length, scale, qs, gs, dim, BLOCK_Q, DIM, False, not WHOLE, WHOLE, PRECISION,
        )  # fmt: skip
    put(dkey, dk * gradient_scale, start, BLOCK_K, key_length, dks, dim, DIM)
    put(dvalue, dv, start, BLOCK_K, key_length, dvs, dim, DIM)


@triton.jit
def _to_queries(
    dq, q, g, logarithm, row_delta, key, value, first, last, queries, key_length, scale,
    ks, vs, dim,
    BLOCK_K: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Add what the keys of [first, last) send to one block of queries."""
    for start in range(first, last, BLOCK_K):
        k = load(key, start, BLOCK_K, key_length, ks, dim, DIM, WHOLE)
        v = load(value, start, BLOCK_K, key_length, vs, dim, DIM, WHOLE)
        weights = tl.math.exp2(tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale - logarithm[:, None])
        if MASK:
            keys = start + tl.arange(0, BLOCK_K)
            weights = tl.where(visible(queries[:, None], keys[None, :], key_length, CAUSAL), weights, 0.0)
        dscores = weights * (tl.dot(g, tl.trans(v), input_precision=PRECISION) - row_delta[:, None])
        dq = tl.dot(dscores.to(k.dtype), k, dq, input_precision=PRECISION)
    return dq


@triton.jit
def flash_backward_queries(
    query, key, value, dout, lse, delta, dquery, scale, gradient_scale,
    qb, qh, qs, kb, kh, ks, vb, vh, vs, gb, gh, gs, dqb, dqh, dqs,
    heads, groups, query_length, key_length, dim,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of queries: dQ = dS·K·scale."""
    blocks = tl.cdiv(query_length, BLOCK_Q)
    block = tl.program_id(0) % blocks
    if CAUSAL:
        block = blocks - 1 - block
    item, head = tl.program_id(0) // blocks // heads, tl.program_id(0) // blocks % heads
    query += item.to(tl.int64) * qb + head.to(tl.int64) * qh
    key += item.to(tl.int64) * kb + (head // groups).to(tl.int64) * kh
    value += item.to(tl.int64) * vb + (head // groups).to(tl.int64) * vh
    dout += item.to(tl.int64) * gb + head.to(tl.int64) * gh
    dquery += item.to(tl.int64) * dqb + head.to(tl.int64) * dqh
    row = (item * heads + head).to(tl.int64) * query_length

    start = block * BLOCK_Q
    queries = start + tl.arange(0, BLOCK_Q)
    q = load(query, start, BLOCK_Q, query_length, qs, dim, DIM, WHOLE)
    g = load(dout, start, BLOCK_Q, query_length, gs, dim, DIM, WHOLE)
    logarithm = tl.load(lse + row + queries, mask=queries < query_length, other=float("inf"))
    row_delta = tl.load(delta + row + queries, mask=queries < query_length, other=0.0)
    dq = tl.zeros([BLOCK_Q, DIM], tl.float32)
    end = key_length
    if CAUSAL:
        end = tl.minimum(key_length, start + BLOCK_Q)
        unmasked = tl.minimum(start, key_length) // BLOCK_K * BLOCK_K
    else:
        unmasked = key_length // BLOCK_K * BLOCK_K
    dq = _to_queries(
        dq, q, g, logarithm, row_delta, key, value, 0, unmasked, queries, key_length, scale,
        ks, vs, dim, BLOCK_K, DIM, CAUSAL, False, WHOLE, PRECISION,
    )  # fmt: skip
    if CAUSAL or not WHOLE:
        dq = _to_queries(
            dq, q, g, logarithm, row_delta, key, value, unmasked, end, queries, key_length, scale,
            ks, vs, dim, BLOCK_K, DIM, CAUSAL, True, WHOLE, PRECISION,
        )  # fmt: skip
    put(dquery, dq * gradient_scale, start, BLOCK_Q, query_length, dqs, dim, DIM)
