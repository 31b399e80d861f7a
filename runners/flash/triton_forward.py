"""Forward of FlashAttention-2 in Triton for every GPU that Triton knows: any length, head dimensions up to 256.

Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (arXiv 2307.08691), algorithm 1.
Scores are kept in base 2, s = q·kᵀ·scale·log2(e) and p = 2^(s − lse), because 2^x is the device's own instruction.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load(base, start, rows, length, stride, dim, DIM: tl.constexpr, WHOLE: tl.constexpr):
    """Load rows [start, start + rows) of a matrix with ``length`` rows; what lies outside reads as zero."""
    row = start + tl.arange(0, rows)
    column = tl.arange(0, DIM)
    pointers = base + row.to(tl.int64)[:, None] * stride + column[None, :]
    if WHOLE:
        return tl.load(pointers)
    return tl.load(pointers, mask=(row[:, None] < length) & (column[None, :] < dim), other=0.0)


@triton.jit
def put(base, values, start, rows, length, stride, dim, DIM: tl.constexpr):
    row = start + tl.arange(0, rows)
    column = tl.arange(0, DIM)
    pointers = base + row.to(tl.int64)[:, None] * stride + column[None, :]
    tl.store(pointers, values.to(base.dtype.element_ty), mask=(row[:, None] < length) & (column[None, :] < dim))


@triton.jit
def visible(queries, keys, key_length, CAUSAL: tl.constexpr):
    """Which scores count: keys that exist, and where causal none behind its query."""
    seen = keys < key_length
    if CAUSAL:
        seen = seen & (queries >= keys)
    return seen


@triton.jit
def _attend(
    q, sums, lse_max, out, key, value, first, last, queries, key_length, scale,
    key_stride, value_stride, dim,
    BLOCK_K: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Add the key blocks of [first, last) to the running output, its row sums and row maxima."""
    for start in range(first, last, BLOCK_K):
        k = load(key, start, BLOCK_K, key_length, key_stride, dim, DIM, WHOLE)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        if MASK:
            keys = start + tl.arange(0, BLOCK_K)
            scores = tl.where(visible(queries[:, None], keys[None, :], key_length, CAUSAL), scores, float("-inf"))
        largest = tl.maximum(lse_max, tl.max(scores, 1) * scale)
        weights = tl.math.exp2(scores * scale - largest[:, None])
        shrink = tl.math.exp2(lse_max - largest)
        sums = sums * shrink + tl.sum(weights, 1)
        v = load(value, start, BLOCK_K, key_length, value_stride, dim, DIM, WHOLE)
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
        lse_max = largest
    return sums, lse_max, out


@triton.jit
def flash_forward(
    query, key, value, out, lse, scale,
    qb, qh, qs, kb, kh, ks, vb, vh, vs, ob, oh, os,
    heads, groups, query_length, key_length, dim,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of queries: out = softmax(q·kᵀ·scale)·v, and lse, the logarithm of its denominator, in base 2."""
    blocks = tl.cdiv(query_length, BLOCK_Q)
    block = tl.program_id(0) % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the longest first, so that no long one is left alone at the end
    item, head = tl.program_id(0) // blocks // heads, tl.program_id(0) // blocks % heads
    query += item.to(tl.int64) * qb + head.to(tl.int64) * qh
    key += item.to(tl.int64) * kb + (head // groups).to(tl.int64) * kh
    value += item.to(tl.int64) * vb + (head // groups).to(tl.int64) * vh
    out += item.to(tl.int64) * ob + head.to(tl.int64) * oh
    lse += (item * heads + head).to(tl.int64) * query_length

    start = block * BLOCK_Q
    queries = start + tl.arange(0, BLOCK_Q)
    q = load(query, start, BLOCK_Q, query_length, qs, dim, DIM, WHOLE)
    sums = tl.zeros([BLOCK_Q], tl.float32)
    # finite, so that a row that sees nothing yet does not compute inf - inf
    largest = tl.full([BLOCK_Q], -1.0e30, tl.float32)
    result = tl.zeros([BLOCK_Q, DIM], tl.float32)
    end = key_length
    if CAUSAL:
        end = tl.minimum(key_length, start + BLOCK_Q)
        unmasked = tl.minimum(start, key_length) // BLOCK_K * BLOCK_K
    else:
        unmasked = key_length // BLOCK_K * BLOCK_K
    sums, largest, result = _attend(
        q, sums, largest, result, key, value, 0, unmasked, queries, key_length, scale,
        ks, vs, dim, BLOCK_K, DIM, CAUSAL, False, WHOLE, PRECISION,
    )  # fmt: skip
    if CAUSAL or not WHOLE:
        sums, largest, result = _attend(
            q, sums, largest, result, key, value, unmasked, end, queries, key_length, scale,
            ks, vs, dim, BLOCK_K, DIM, CAUSAL, True, WHOLE, PRECISION,
        )  # fmt: skip
    tl.store(lse + queries, largest + tl.math.log2(sums), mask=queries < query_length)
    put(out, result / sums[:, None], start, BLOCK_Q, query_length, os, dim, DIM)
