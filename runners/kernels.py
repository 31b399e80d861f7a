"""Which category a kernel or op belongs to, by its name alone; standard library only, for runs and imported traces."""

from __future__ import annotations

import re
from functools import lru_cache

from estimator.breakdown import CATEGORIES

COMMUNICATION = (
    r"nccl|rccl|gloo|mscclpp|nvshmem|oneccl|^c10d::|^_c10d|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
)
OPTIMIZER = r"adam|lamb\b|multi_tensor|multitensor|foreach|fused_sgd|^optimizer\.|amp_update_scale|amp_non_finite"
ATTENTION = (
    r"flash|fmha|sdpa|scaled_dot_product|efficient_attention|attention_(forward|backward)|_attn_|mha_(fwd|bwd)|"
    r"(?<!log_)(?<!log)softmax(?!.*log_?softmax)"
)
MATMUL = (
    r"gemm|gemv|nvjet|xmma|cutlass|cublas|splitk|wgmma|cijk_|hipblas|rocblas|"
    r"^(aten::|mkldnn::|mkl::)?_?(mm|bmm|addmm|baddbmm|addbmm|addmv|mv|dot|matmul|linear|scaled_mm|int_mm|grouped_mm)(_out)?$|"
    r"triton_mm|triton_tem_fused_\w*mm|matmul|mkldnn_\w*linear|linear_(pointwise|backward)|convolution|conv2d|conv1d|wgrad|dgrad"
)
HOST = (
    r"^cu(da)?(launch|stream|event|device|malloc|free|memcpyasync|memsetasync|mem(alloc|free)|func|ctx|module|get|occupancy|host)|"
    r"^hip(launch|stream|event|device|malloc|free|func|module|get)|"
    r"^(aten::)?(empty|empty_like|empty_strided|new_empty\w*|view|_unsafe_view|_reshape_alias|reshape|transpose|t|permute|"
    r"as_strided|expand|expand_as|unsqueeze|squeeze|slice|select|narrow|chunk|split|unbind|unflatten|flatten|detach|detach_|"
    r"alias|lift_fresh|resize_|resize_as_|set_|result_type|is_nonzero|item|_local_scalar_dense|to|_to_copy|contiguous|"
    r"numpy_t|view_as|broadcast_tensors|type_as|requires_grad_|stride|size|sym_\w+)$|"
    r"^detach_?$|^autograd::|backward\d+$|^torch::autograd|accumulategrad|^profilerstep|^torch-compiled|^torchdynamo|^inductor|"
    r"dispatcher|pytorch profiler"
)
COPY = r"^mem(cpy|set)\b|^(gpu_)?mem(cpy|set)"
ELEMENTWISE = (
    r"elementwise|vectorized|unrolled|reduce|norm|softmax|gelu|silu|relu|sigmoid|tanh|dropout|embedding|index|gather|scatter|"
    r"nll_loss|cross_entropy|catarray|triton_(poi|red|per)|fill|copy|arange|triu|tril|where|"
    r"^(aten::)?_?(add|sub|mul|div|pow|sqrt|rsqrt|exp|log|neg|abs|sum|mean|cat|cos|sin|erf|maximum|minimum|clamp|where|"
    r"masked_fill|zero|zeros|ones|full|clone|lerp|addcmul|addcdiv|reciprocal|square|eq|ne|lt|gt|le|ge|bitwise_\w+|threshold|"
    r"threshold_backward|linalg_vector_norm|randint|random|normal|uniform|stack|max|min|amax|argmax|cumsum)_?(out)?$"
)

RULES: tuple[tuple[str, str], ...] = (
    ("communication", COMMUNICATION),
    ("other", COPY),
    ("host", HOST),
    ("attention", ATTENTION),
    ("optimizer", OPTIMIZER),
    ("matmul", MATMUL),
    ("elementwise", ELEMENTWISE),
)
"""Category and pattern, the first that matches wins; attention before matmul, since its kernels contain products."""

_COMPILED = tuple((category, re.compile(pattern, re.IGNORECASE)) for category, pattern in RULES)
assert {category for category, _ in RULES} <= set(CATEGORIES)


@lru_cache(maxsize=65_536)
def category_of(name: str) -> str:
    """Name the category (of estimator.breakdown.CATEGORIES) of a device kernel, runtime call or ATen op; else other.

    Names alone cannot tell an optimizer's plain element-wise ops from others: runners.trace knows them by phase.
    """
    for category, pattern in _COMPILED:
        if pattern.search(name):
            return category
    return "other"
