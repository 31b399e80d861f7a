"""The package's attention: one kernel forward and one op backward, on queries, keys and values apart or packed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from runners.program import values
from runners.program.flash_attn.launch import Launch, lacking, lain

ROUNDED_TO, WIDEST = 128, 256
"""What the lengths of returned probabilities are rounded up to, and the widest head (csrc/flash_attn/flash_api.cpp of
flash_attn 2.8)."""
UNKNOWN = "how long its sequences are is not known: taken to be all as long"
REMEDY = "Make cu_seqlens of whole numbers of the host, or import a profile, whose lengths are real."


@dataclass(frozen=True, kw_only=True)
class Form:
    """How attention is asked for; ``starts``: where sequences begin, of queries and keys, where they are packed.

    ``third``: of FlashAttention-3, which draws nothing and keeps no state of a generator, fills up no heads, and has
    one op for sequences apart and packed.
    """

    causal: bool
    dropout: float
    window: tuple[int, int]
    probabilities: bool
    starts: tuple[Any, Any] | None = None
    longest: tuple[Any, Any] = (0, 0)
    third: bool = False

    def op(self, direction: str) -> str:
        """What profiles call the op."""
        if self.third:
            return f"flash_attn_3::_flash_attn_{direction}"
        return f"flash_attn::_flash_attn_{'varlen_' if self.starts is not None else ''}{direction}"


def effective_length(square: float, tokens: int) -> int:
    """L of n = ⌈T² / Σ lq·lk⌉ sequences that have as many scores, n·L² = Σ lq·lk; L itself where all are as long."""
    count = max(math.ceil(tokens * tokens / max(square, 1.0)), 1)
    return max(math.ceil(math.sqrt(square / count) - 1e-9), 1)


def length_of(launch: Launch, form: Form, tokens: int) -> int:
    """How long packed sequences are, such that their scores are as many as those of the real ones."""
    assert form.starts is not None
    queries, keys = map(_lengths, form.starts)
    if queries and keys:
        return effective_length(math.fsum(q * k for q, k in zip(queries, keys, strict=True)), tokens)
    sequences = max(form.starts[0].numel() - 1, 1)
    longest = int(form.longest[0])
    if longest * sequences < tokens:  # which was read from the device, and is a placeholder
        longest = -(-tokens // sequences)
    launch.recording.doubt("flash_attn_varlen_func", UNKNOWN, REMEDY)
    return longest


def _lengths(starts: torch.Tensor) -> list[int]:
    found = values.of(starts)
    if found is None:
        return []
    with torch._C.DisableTorchFunction(), _disable_current_modes():  # what is known is asked of nobody
        given = found.real.tolist()
    return [after - before for before, after in itertools.pairwise(given)]


def _how(launch: Launch, form: Form, q: torch.Tensor, k: torch.Tensor) -> dict[str, Any]:
    """What decides the time, as profiles of the package say it: of two sides of a window their mean."""
    how: dict[str, Any] = {}
    keys = int(k.shape[-3])
    if form.starts is not None:
        how["max_seqlen"] = keys = length_of(launch, form, int(q.shape[0]))
    before, after = form.window
    causal = form.causal or after == 0
    if not causal and (before >= 0 or after >= 0):
        before = sum(keys if side < 0 else min(side, keys) for side in form.window) // 2
    if 0 <= before < keys - 1:
        how["window"] = before
    return {**how, "is_causal": causal, **({"dropout": form.dropout} if form.dropout else {})}


def _parts(given: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Queries, keys and values: of one tensor of all three, of queries beside both others, or as they are."""
    if len(given) == 3:
        return list(given)
    *alone, packed = given
    return [*alone, *(packed.select(-3, one) for one in range(3 - len(alone)))]


def forward(launch: Launch, form: Form, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
    """Launch the forward; return output, logarithms of the sums, probabilities and the state of the generator."""
    if q.dtype not in (torch.float16, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"FlashAttention takes fp16 and bf16 alone: it was given {q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[-1] > WIDEST or q.shape[-2] % k.shape[-2]:
        message = f"heads are at most {WIDEST} wide, those of queries a multiple of those of keys"
        raise ValueError(f"flash_attn: {message}: it was given {tuple(q.shape)} and {tuple(k.shape)}")
    with torch.enable_grad():  # which an autograd function turns off, and by which forward is told
        q, k, v = map(lain, (q, k, v))
        out = torch.empty_like(q)
        heads = int(q.shape[-2])
        of_rows = (heads, q.shape[0]) if form.starts is not None else (q.shape[0], heads, q.shape[1])
        sums = q.new_empty(of_rows, dtype=torch.float32)
        shape: tuple[int, ...] = (0,)
        if form.probabilities and form.dropout:
            lengths = form.longest if form.starts is not None else (q.shape[1], k.shape[1])
            batch = form.starts[0].numel() - 1 if form.starts is not None else q.shape[0]
            shape = (batch, heads, *(-(-int(one) // ROUNDED_TO) * ROUNDED_TO for one in lengths))
        chances = q.new_empty(shape)
        state = q.new_empty((2 * (not form.third),), dtype=torch.int64)
        launch(form.op("forward"), (q, k, v), (out, sums), **_how(launch, form, q, k))
    return [out, sums, chances, state]


def backward(
    launch: Launch, form: Form, gradient: torch.Tensor, saved: tuple[torch.Tensor, ...], into: list[torch.Tensor]
) -> None:
    """Launch the backward, which writes the gradients of queries, keys and values."""
    q, k, v, out, sums = map(lain, saved)
    launch(form.op("backward"), (lain(gradient), q, k, v, out, sums), into, **_how(launch, form, q, k))


class _Attention(torch.autograd.Function):
    """Keeps queries, keys, values, output, sums and the generator's state, as the package does."""

    @staticmethod
    def forward(ctx: Any, launch: Launch, form: Form, *given: torch.Tensor) -> Any:
        q, k, v = _parts(given)
        wide = q.shape[-1]
        if wide % 8:
            if form.third:
                raise ValueError(f"FlashAttention-3: heads are as wide as a multiple of 8: it was given {wide}")
            q, k, v = (functional.pad(one, [0, -wide % 8]) for one in (q, k, v))
        out, sums, chances, state = forward(launch, form, q, k, v)
        ctx.save_for_backward(q, k, v, out, sums, state, *(form.starts or ()))
        ctx.launch, ctx.form = launch, form
        ctx.shapes = [one.shape for one in given]
        out = out[..., :wide]
        if form.probabilities:
            return (out, sums) if form.third else (out, sums, chances)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        q, k, v, out, sums = ctx.saved_tensors[:5]
        wide = gradient.shape[-1]
        made = tuple(q.new_empty((*shape[:-1], q.shape[-1])) for shape in ctx.shapes)
        if wide % 8:
            gradient = functional.pad(gradient, [0, -wide % 8])
        backward(ctx.launch, ctx.form, gradient, (q, k, v, out, sums), _parts(made))
        return None, None, *(one[..., :wide] for one in made)


def functions(launch: Launch) -> dict[str, Any]:
    """The functions by their names, with the package's arguments."""

    def run(given: tuple[torch.Tensor, ...], starts: Any, longest: Any, how: tuple[Any, ...]) -> Any:
        dropout, causal, window, probabilities = how
        form = Form(
            causal=bool(causal), dropout=float(dropout), window=tuple(window), probabilities=bool(probabilities),
            starts=starts, longest=longest,
        )  # fmt: skip
        return _Attention.apply(launch, form, *given)  # type: ignore[no-untyped-call]

    def flash_attn_func(
        q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False,
        window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
        return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        return run((q, k, v), None, (0, 0), (dropout_p, causal, window_size, return_attn_probs))

    def flash_attn_kvpacked_func(
        q: Any, kv: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False,
        window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
        return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        return run((q, kv), None, (0, 0), (dropout_p, causal, window_size, return_attn_probs))

    def flash_attn_qkvpacked_func(
        qkv: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False,
        window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
        return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        return run((qkv,), None, (0, 0), (dropout_p, causal, window_size, return_attn_probs))

    def flash_attn_varlen_func(
        q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any,
        dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, window_size: Any = (-1, -1),
        softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
        block_table: Any = None,
    ) -> Any:  # fmt: skip
        if block_table is not None:
            raise lacking("flash_attn_varlen_func with block_table")
        longest = int(max_seqlen_q), int(max_seqlen_k)
        how = (dropout_p, causal, window_size, return_attn_probs)
        return run((q, k, v), (cu_seqlens_q, cu_seqlens_k), longest, how)

    def flash_attn_varlen_kvpacked_func(
        q: Any, kv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any,
        dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, window_size: Any = (-1, -1),
        softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        longest = int(max_seqlen_q), int(max_seqlen_k)
        how = (dropout_p, causal, window_size, return_attn_probs)
        return run((q, kv), (cu_seqlens_q, cu_seqlens_k), longest, how)

    def flash_attn_varlen_qkvpacked_func(
        qkv: Any, cu_seqlens: Any, max_seqlen: Any, dropout_p: float = 0.0, softmax_scale: Any = None,
        causal: bool = False, window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None,
        deterministic: bool = False, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        longest = int(max_seqlen)
        how = (dropout_p, causal, window_size, return_attn_probs)
        return run((qkv,), (cu_seqlens, cu_seqlens), (longest, longest), how)

    def flash_attn_with_kvcache(*_: Any, **__: Any) -> Any:
        raise lacking("flash_attn_with_kvcache")

    def _flash_attn_forward(
        q: Any, k: Any, v: Any, dropout_p: float, softmax_scale: Any, causal: bool, window_size_left: int = -1,
        window_size_right: int = -1, softcap: float = 0.0, alibi_slopes: Any = None, return_softmax: bool = False,
    ) -> Any:  # fmt: skip
        form = Form(
            causal=causal, dropout=dropout_p, window=(window_size_left, window_size_right),
            probabilities=return_softmax,
        )  # fmt: skip
        return tuple(forward(launch, form, q, k, v))

    def _flash_attn_backward(
        dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, dq: Any, dk: Any, dv: Any, dropout_p: float,
        softmax_scale: Any, causal: bool, window_size_left: int = -1, window_size_right: int = -1,
        softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, rng_state: Any = None,
    ) -> Any:  # fmt: skip
        window = (window_size_left, window_size_right)
        form = Form(causal=causal, dropout=dropout_p, window=window, probabilities=False)
        backward(launch, form, dout, (q, k, v, out, softmax_lse), [dq, dk, dv])
        return torch.empty_like(softmax_lse)

    def _flash_attn_varlen_forward(
        q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any,
        dropout_p: float, softmax_scale: Any, causal: bool, window_size_left: int = -1, window_size_right: int = -1,
        softcap: float = 0.0, alibi_slopes: Any = None, return_softmax: bool = False, block_table: Any = None,
    ) -> Any:  # fmt: skip
        if block_table is not None:
            raise lacking("_flash_attn_varlen_forward with block_table")
        form = Form(
            causal=causal, dropout=dropout_p, window=(window_size_left, window_size_right),
            probabilities=return_softmax, starts=(cu_seqlens_q, cu_seqlens_k),
            longest=(int(max_seqlen_q), int(max_seqlen_k)),
        )  # fmt: skip
        return tuple(forward(launch, form, q, k, v))

    def _flash_attn_varlen_backward(
        dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, dq: Any, dk: Any, dv: Any, cu_seqlens_q: Any,
        cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, dropout_p: float, softmax_scale: Any, causal: bool,
        window_size_left: int = -1, window_size_right: int = -1, softcap: float = 0.0, alibi_slopes: Any = None,
        deterministic: bool = False, rng_state: Any = None, zero_tensors: bool = False,
    ) -> Any:  # fmt: skip
        form = Form(
            causal=causal, dropout=dropout_p, window=(window_size_left, window_size_right), probabilities=False,
            starts=(cu_seqlens_q, cu_seqlens_k), longest=(int(max_seqlen_q), int(max_seqlen_k)),
        )  # fmt: skip
        backward(launch, form, dout, (q, k, v, out, softmax_lse), [dq, dk, dv])
        return torch.empty_like(softmax_lse)

    made = (
        _flash_attn_forward, _flash_attn_backward, _flash_attn_varlen_forward, _flash_attn_varlen_backward,
        flash_attn_func, flash_attn_kvpacked_func, flash_attn_qkvpacked_func, flash_attn_varlen_func,
        flash_attn_varlen_kvpacked_func, flash_attn_varlen_qkvpacked_func, flash_attn_with_kvcache,
    )  # fmt: skip
    return {one.__name__: one for one in made}
