"""FlashAttention-3's functions: attention alone, recorded as profiles name its op."""

from __future__ import annotations

from typing import Any

from runners.program.flash_attn.attention import Form, _Attention
from runners.program.flash_attn.launch import Launch, lacking

NAME = "flash_attn_interface"


def functions(launch: Launch) -> dict[str, Any]:
    """The functions by their names, with the arguments of version 3."""

    def run(given: tuple[Any, ...], how: dict[str, Any], starts: Any = None, longest: Any = (0, 0)) -> Any:
        if how["qv"] is not None:
            raise lacking(f"{NAME}.flash_attn_func with qv")
        if how["attention_chunk"]:
            raise lacking(f"{NAME}.flash_attn_func with attention_chunk")
        form = Form(
            causal=bool(how["causal"]), dropout=0.0, window=tuple(how["window_size"]),
            probabilities=bool(how["return_attn_probs"]), starts=starts, longest=longest, third=True,
        )  # fmt: skip
        return _Attention.apply(launch, form, *given)  # type: ignore[no-untyped-call]

    def flash_attn_func(
        q: Any, k: Any, v: Any, softmax_scale: Any = None, causal: bool = False, qv: Any = None, q_descale: Any = None,
        k_descale: Any = None, v_descale: Any = None, window_size: Any = (-1, -1), attention_chunk: int = 0,
        softcap: float = 0.0, num_splits: int = 1, pack_gqa: Any = None, deterministic: bool = False,
        sm_margin: int = 0, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        return run((q, k, v), locals())

    def flash_attn_qkvpacked_func(
        qkv: Any, softmax_scale: Any = None, causal: bool = False, q_descale: Any = None, k_descale: Any = None,
        v_descale: Any = None, window_size: Any = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
        deterministic: bool = False, num_heads_q: Any = None, sm_margin: int = 0, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        if num_heads_q is None:
            return run((qkv,), {**locals(), "qv": None})
        shared = (qkv.shape[-2] - num_heads_q) // 2
        return run(qkv.split((num_heads_q, shared, shared), -2), {**locals(), "qv": None})

    def flash_attn_varlen_func(
        q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any,
        seqused_q: Any = None, seqused_k: Any = None, softmax_scale: Any = None, causal: bool = False, qv: Any = None,
        q_descale: Any = None, k_descale: Any = None, v_descale: Any = None, window_size: Any = (-1, -1),
        attention_chunk: int = 0, softcap: float = 0.0, num_splits: int = 1, pack_gqa: Any = None,
        deterministic: bool = False, sm_margin: int = 0, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        if seqused_q is not None or seqused_k is not None:
            raise lacking(f"{NAME}.flash_attn_varlen_func with seqused_q or seqused_k")
        longest = int(max_seqlen_q), int(max_seqlen_k)
        return run((q, k, v), locals(), (cu_seqlens_q, cu_seqlens_k), longest)

    def flash_attn_with_kvcache(*_: Any, **__: Any) -> Any:
        raise lacking(f"{NAME}.flash_attn_with_kvcache")

    made = (flash_attn_func, flash_attn_qkvpacked_func, flash_attn_varlen_func, flash_attn_with_kvcache)
    return {one.__name__: one for one in made}
