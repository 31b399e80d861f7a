"""Attention: the linears around it, and its core from q, k, v to weighted values, fused or with the score matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.operations import elementwise, latent_attention
from estimator.operations.elementwise import KernelCost, pair
from estimator.operations.linear import linear
from estimator.operations.op import Op, gemm, kernels
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.sequence_pieces import EAGER_VIEWS, gathered_copies, ring_by_kernel, ring_sums, where_alone
from estimator.operations.torch_kernels import TURNED
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.aten_cost import CAUSAL_FRAC, attention_flops
from estimator.scenario.breakdown import Category
from estimator.scenario.training import MATH, SCORES_KEPT
from estimator.scenario.units import Number

EXCHANGE_VIEWS = (15, 21)
"""Ops that launch nothing around Ulysses' four all-to-alls, forward and backward: splits, permutations, empty results
(counted on the runners' blocks, two ranks with and without)."""

RATES = {"sdpa": "attention_frac", "flash": "attention_flash_frac", "flash1": "attention_flash1_frac"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreShape:
    """One rank's core: ``batch`` heads of ``queries`` against ``keys``, in ``pieces`` products one after another.

    ``elements`` of q, k, v and output on this rank; ``reads`` of them that kernels read or write.
    """

    batch: Number
    queries: Number
    keys: Number
    pieces: Number
    elements: Number
    reads: Number


def shape(d: RankSizes) -> CoreShape:
    """Lay the core out over context parallel ranks and over the rows of a grid.

    - ulysses (arXiv 2309.14509): all-to-alls leave heads / cp with whole sequences.
    - ring (arXiv 2310.01889): all heads, S/cp queries against cp pieces of S/cp keys in turn.
    - all-gather (arXiv 2407.21783, section 3.3.2): all heads, S/cp queries against all keys.

    Causal work is balanced over ranks (zigzag), so that each has 1/cp of the score square. Rows of a grid with fewer
    sequences than rows hold part of a sequence's queries each, and all of its keys.
    """
    queries_elements = d.query_width + d.core_width
    keys_elements = d.key_width + d.value_width
    sequences = maximum(d.sequences, 1.0)
    queries = d.seq_len * minimum(d.sequences, 1.0)
    keys, batch = d.seq_len, sequences * d.heads
    pieces_: Number = 1.0
    queries_read, keys_read = queries_elements, keys_elements
    if d.cp_kind == "ulysses":
        batch = batch / d.cp
        if not d.model.latent:
            # Where ranks outnumber key/value heads, each still needs one.
            keys_elements = keys_read = 2 * maximum(d.key_width, d.cp * d.head_dim)
    else:
        queries, keys_read = queries / d.cp, keys_read * d.cp
        if d.cp_kind == "ring":
            keys, pieces_, queries_read = keys / d.cp, d.cp, queries_read * d.cp
    return CoreShape(
        batch=batch,
        queries=queries,
        keys=keys,
        pieces=pieces_,
        elements=d.tokens * (queries_elements + keys_elements),
        reads=d.tokens * (queries_read + keys_read),
    )


def visible_frac(d: RankSizes, window: int) -> Number:
    """Share of the score square that a causal kernel computes: 1/2, or r − r²/2 for a window of r·S keys."""
    if not window:
        return CAUSAL_FRAC
    reach = minimum(window / d.seq_len, 1.0)
    return reach - 0.5 * reach * reach


FUSED_VIEWS = {"forward": 15.0, "backward": 14.0}
"""Ops around fused attention that launch nothing: heads apart and turned, the causal mask's, and back; forward as many
as choosing one of its kernels takes as long as, four (benchmarks/host_blocks.py: 60 µs, of 13 a view)."""
REPEATED_VIEWS = 6.0, 4.0
"""The same around repeating the heads of keys and values, forward and backward (dispatched, of Llama 3 and Qwen3)."""
NORM_VIEWS = 2.0, 8.0
"""The same around the norms of queries and keys together, forward and backward: in the shape of heads and back."""


def core(d: RankSizes, layer: str = "layer", window: int = 0) -> list[Op]:
    """Return forward and backward ops between the projections: fused attention, or eager with S² scores.

    Eager attention computes the whole square whatever the ``window``.
    """
    found = shape(d)
    alone = isinstance(d.cp, (int, float)) and d.cp == 1
    ops = _eager(d, layer, found) if d.training.attention in SCORES_KEPT else _fused(d, layer, found, window)
    if d.rings_by_kernel and not alone:
        ops = where_alone(ops, d.cp) + ring_by_kernel(d, layer, found)
    if d.model.latent and d.training.attention not in SCORES_KEPT and not d.fused and not d.widths.quantised:
        # Head by head, as q and k are joined, the output is copied for its projection, which keeps the copy.
        elements = d.tokens * d.core_width
        ops.append(kernels("head copies", layer, "forward", elements=elements, launches=0.0,
                           saved_bytes=elements * d.widths.compute))  # fmt: skip
    if d.training.attention in ("flash", "flash1") and d.training.traits.transposes_for_flash:
        # Four tensors are read and written; of fp8 the projection keeps a narrower copy of its own.
        copies = KernelCost(stream=8 * d.widths.compute, launches=4)
        kept = replace(copies, saved=0.0 if d.widths.quantised else d.widths.compute)
        ops += pair("layout copies", layer, d.tokens * d.core_width, kept, copies)
    pieces = 0.0 if alone else where(d.cp > 1, 1.0, 0.0)
    if not alone and d.cp_kind != "ring" and d.training.attention not in SCORES_KEPT and not d.widths.quantised:
        # Attention keeps its output, the projection what the exchange (Ulysses) or the join of two chunks makes of it.
        elements = d.tokens * d.core_width * pieces
        ops.append(kernels("output of pieces", layer, "forward", elements=elements, launches=0.0,
                           saved_bytes=elements * d.widths.compute))  # fmt: skip
    if d.cp_kind == "ring" and not alone:
        ops += ring_sums(d, layer)
    if d.cp_kind == "all-gather" and not alone and not d.fused:
        ops += gathered_copies(d, layer)
    if d.cp_kind == "ulysses" and not d.fused and not alone:
        # Around each all-to-all, heads are laid out by rank (at the pace of mixed types) and sequences joined.
        elements = d.tokens * (d.query_width + d.key_width + d.value_width + d.core_width) * pieces
        copies = KernelCost(mixed=1, strided=1, slow_bytes=4 * d.widths.compute, launches=8)
        ops += pair("sequence exchange copies", layer, elements, copies, copies, times=pieces, views=EXCHANGE_VIEWS)
    if d.widths.autocast and d.model.position == "rope":
        # Rotary tables are fp32, so q and k arrive in fp32 and are cast again; their gradients are cast back.
        elements = d.tokens * (d.query_width + d.key_width)
        query, key = d.query_width / (d.query_width + d.key_width), d.key_width / (d.query_width + d.key_width)
        forward = elementwise.shared(KernelCost(stream=6, chained=((4, 1),), launches=2), query, key)
        casts = forward, KernelCost(strided=1, slow_bytes=6, launches=2)
        ops += pair("q, k casts", layer, elements, *casts)
    return ops


def _fused(d: RankSizes, layer: str, s: CoreShape, window: int) -> list[Op]:
    """Fused attention (Dao 2023, arXiv 2307.08691): 2·S²·(Dk + Dv) per head forward, no S² memory.

    Backward multiplies five times, 2·S²·(3·Dk + 2·Dv): scores again, and the gradients of weights, v, q, k. FLOPs are
    counted over the full square, as torch's counter does; the kernel skips what causality or a window masks.
    """
    if _in_pieces(d):
        kept = where(d.cp > 1, 1.0, 0.0)
        pieces = _fused_by(d, layer, s, window, d.training.traits.pieces_attention, kept)
        whole = _fused_by(d, layer, s, window, d.training.attention, 1.0 - kept)
        return pieces if isinstance(d.cp, (int, float)) else [*pieces, *whole]
    return _fused_by(d, layer, s, window, d.training.attention, 1.0)


def _in_pieces(d: RankSizes) -> bool:
    """Whether ranks may hold pieces of a sequence, for which this framework has one implementation of attention."""
    other = d.training.attention == "sdpa" and d.training.traits.pieces_attention
    return bool(other) and d.cp_kind != "ulysses" and not (isinstance(d.cp, (int, float)) and d.cp == 1)


def _fused_by(d: RankSizes, layer: str, s: CoreShape, window: int, attention: str, share: Number) -> list[Op]:
    """Fused attention by one implementation; ``share`` is 0 where another one runs."""
    n, batch = d.widths, s.batch * s.pieces * share
    value_dim = d.model.value_dim
    statistics = 4.0 * s.batch * s.queries * share
    moved = s.reads * n.compute * share
    pieces_ = s.pieces * share
    seen = visible_frac(d, window)
    forward = Op(
        name="attention",
        layer=layer,
        phase="forward",
        category=Category.ATTENTION,
        kind="attention",
        batch=batch,
        m=s.queries,
        n=s.keys,
        k=d.head_dim,
        flops=attention_flops(batch, s.queries, s.keys, d.head_dim, value_dim, backward=False),
        bytes=moved + statistics * s.pieces,
        launches=pieces_,
        views=FUSED_VIEWS["forward"] * pieces_,
        saved_bytes=s.elements * n.compute * share + statistics,
        precision=n.peak,
        efficiency=RATES[attention],
        visible_frac=seen,
        padded=_padding(d, attention, backward=False),
    )
    backward = replace(
        forward,
        name="attention gradient",
        phase="backward",
        flops=attention_flops(batch, s.queries, s.keys, d.head_dim, value_dim, backward=True),
        bytes=2.5 * moved + statistics * s.pieces,
        # Δ, the gradients, and q's turned to 16 bits; where heads share keys, theirs are added up twice more.
        launches=(3.0 if d.model.kv == d.model.heads else 5.0) * pieces_,
        views=FUSED_VIEWS["backward"] * pieces_,
        saved_bytes=0.0,
        padded=_padding(d, attention, backward=True),
        side_bytes=side_bytes(
            batch * s.queries * d.head_dim, batch * s.keys * d.head_dim, d.model.kv / d.model.heads, n.compute
        ),
    )
    return [forward, backward]


SIDE_BYTES = 15.4
"""Moved per element of q by the kernels around backward's: output and its gradient read, q's gradient set to zero in
fp32, read and written in 16 bits are 14; at the rate of other kernels they take as long as 15.4 (H200, 128 shapes)."""


def side_bytes(queries: Number, keys: Number, shared: float, element_bytes: float) -> Number:
    """What moves beside a fused backward's own kernel: ``queries`` and ``keys`` elements of all heads.

    Gradients of k and v of heads that share them (``shared`` of the heads have their own) are read and added up.
    """
    return SIDE_BYTES * queries + where(shared < 1.0, 2 * element_bytes * (1.0 + shared), 0.0) * keys


def _padding(d: RankSizes, attention: str, *, backward: bool) -> float:
    if attention != "sdpa" or d.training.traits.lower_bound:
        return 1.0
    return padded(d.model.dim, d.model.value_dim, backward=backward)


def padded(dim: float, value_dim: float, *, backward: bool) -> float:
    """FLOPs that a fused kernel does over those that heads need, where keys and values differ in width.

    cuDNN's, the best that PyTorch has, are built for one width (sdpa_sm90_flash_bprop…64x64x192 for values of 128).
    """
    if dim == value_dim:
        return 1.0
    widest = max(dim, value_dim)
    most = attention_flops(1.0, 1.0, 1.0, widest, widest, backward=backward)
    return float(most / attention_flops(1.0, 1.0, 1.0, dim, value_dim, backward=backward))


def _eager(d: RankSizes, layer: str, s: CoreShape) -> list[Op]:
    """Scores, softmax and weighted values as separate kernels; the S² matrices live in memory."""
    n, e = d.widths, d.widths.compute
    batch, queries, keys = s.batch * s.pieces, s.queries, s.keys
    width, value_dim = d.head_dim, float(d.model.value_dim)

    def product(name: str, phase: str, columns: Number, inner: Number, saved: Number = 0.0) -> Op:
        return gemm(name, layer, phase, m=queries, n=columns, k=inner, batch=batch, element_bytes=e, precision=n.peak,
                    category=Category.ATTENTION, saved_bytes=saved, launches=s.pieces,
                    views=s.pieces * EAGER_VIEWS[phase])  # fmt: skip

    ops = [
        product("scores", "forward", keys, width, 2 * d.tokens * d.query_width * e),
        product("values", "forward", value_dim, keys, d.tokens * d.core_width * e),
        product("values gradient: scores", "backward", keys, value_dim),
        product("values gradient: v", "backward", value_dim, keys),
        product("scores gradient: q", "backward", width, keys),
        product("scores gradient: k", "backward", width, keys),
    ]
    ops += pair("softmax", layer, batch * queries * keys, *elementwise.softmax(d, keys), category=Category.ATTENTION)
    if d.training.attention == MATH:
        # Queries and keys of all heads are scaled, each by the root.
        scaled = KernelCost(stream=2 * e, chained=((e, 1),), launches=2, flops=1)
        ops += pair("query and key scales", layer, 2 * d.tokens * d.core_width, scaled, scaled)
    if d.model.clamped_scores and not d.fused:
        scaled = KernelCost(stream=2 * e, chained=((e, 1),), flops=1)
        ops += pair("query scale", layer, d.tokens * d.query_width, scaled, scaled)
    # The heads' merged output is what the projection keeps; under fp8 it keeps its own copy instead.
    merged = 0.0 if n.quantised else e
    if not d.fused:
        # q, k, v become contiguous per head (k and v repeated to all heads), and the result goes back.
        copies = KernelCost(strided=4, slow_bytes=8 * e, launches=4)
        shared = d.kv_width / d.core_width
        back = KernelCost(strided=2 + 2 * shared, slow_bytes=2 * e * (2 + 2 * shared), launches=4)
        if d.model.kv != d.model.heads:
            # The gradients of repeated heads are summed.
            back = replace(back, stream=2 * e * (1 + shared), chained=((e, 2),), launches=6)
        else:
            # Keys are turned for their product, and their gradient comes turned, through rotation and norm.
            through = 1 + 4 * (d.model.position == "rope") + 4 * d.model.qk_norm
            copies = replace(copies, strided=copies.strided + (TURNED - 1))
            back = replace(back, strided=back.strided + (TURNED - 1) * through)
        around = REPEATED_VIEWS if d.model.kv != d.model.heads else (0.0, 0.0)
        ops += pair("head copies", layer, d.tokens * d.core_width, replace(copies, saved=merged), back, views=around)
    else:
        ops += pair(
            "head copies", layer, d.tokens * d.core_width, KernelCost(launches=0, saved=merged), KernelCost(launches=0)
        )
    return ops


def attention_part(d: RankSizes, layer: str, window: int = 0) -> list[Op]:
    """Return the ops from a block's normed input to attention's output, without norm and residual."""
    model = d.model
    ops = latent_attention.projections(d, layer) if model.latent else _projections(d, layer)
    ops += core(d, layer, window)
    # The fused core's output is what the projection keeps; it is counted there.
    return ops + linear(
        d,
        "output projection",
        layer,
        inputs=d.core_width,
        outputs=d.hidden_width,
        bias=model.bias or model.output_bias,
        saves_input=False,
        input_copies=0,
    )


def _projections(d: RankSizes, layer: str) -> list[Op]:
    model, n = d.model, d.widths
    bias, e = model.bias or model.qkv_bias, n.residual if n.autocast else n.compute
    kept = d.kept_tokens * d.hidden
    pairs = d.query_width + d.key_width
    if d.fused_projections:
        width = pairs + d.value_width
        ops = linear(d, "qkv projection", layer, inputs=d.hidden_width, outputs=width, bias=bias, kept=kept)
        if not d.fused:
            ops.append(kernels("qkv gradients joined", layer, "backward", elements=d.tokens * width,
                               stream=2 * n.compute))  # fmt: skip
    else:
        ops = linear(d, "q projection", layer, inputs=d.hidden_width, outputs=d.query_width, bias=bias, kept=kept)
        ops += linear(
            d,
            "k, v projections",
            layer,
            inputs=d.hidden_width,
            outputs=d.key_width + d.value_width,
            projections=2,
            bias=bias,
            saves_input=n.autocast,
            input_copies=2,
            kept=kept,
            shares_input=True,
        )
        ops.append(
            kernels("qkv gradient sum", layer, "backward", elements=d.tokens * d.hidden_width, stream=3 * e,
                    chained=((e, 1),), flops_per_element=1)
        )  # fmt: skip
    if model.qk_norm:
        norms = elementwise.rms_norm(d, n.compute, d.head_dim)
        forward, backward = (elementwise.shared(one, d.query_width / pairs, d.key_width / pairs) for one in norms)
        forward, backward = (replace(one, launches=2 * one.launches) for one in (forward, backward))
        ops += pair("q, k norm", layer, d.tokens * pairs, forward, backward, views=NORM_VIEWS)
    if model.position == "rope":
        turned = (elementwise.shared(one, d.query_width / pairs, d.key_width / pairs) for one in elementwise.rope(d))
        forward, backward = turned
        ops += pair("rotary positions", layer, d.tokens * pairs, forward, backward, views=elementwise.ROPE_VIEWS)
    return ops
