"""Which category a kernel or op belongs to, by its name alone; standard library only, for runs and imported traces."""

from __future__ import annotations

import re
from functools import lru_cache

from estimator.scenario.breakdown import CATEGORIES, Category

COMMUNICATION = (
    r"nccl|rccl|gloo|mscclpp|nvshmem|oneccl|^c10d::|^_c10d|cross_device_reduce|userbuffers|"
    r"(?<![a-z_])(deep_ep|ep|internode|internode_ll|intranode)::|epdispatch|epcombine|"
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
)
COPY = r"^(gpu_)?mem(cpy|set)\b"
HOST = (
    r"^cu(da)?(launch|stream|event|device|malloc|free|memcpyasync|memsetasync|mem(alloc|free)|func|ctx|module|get|"
    r"occupancy|host|graph)|"
    r"^hip(ext)?(launch|stream|event|device|malloc|free|memcpy|memset|func|ctx|module|get|host|graph)|"
    r"^(aten::)?(empty|empty_like|empty_strided|new_empty\w*|view|_unsafe_view|_reshape_alias|reshape|transpose|t|permute|"
    r"as_strided|expand|expand_as|unsqueeze|squeeze|slice|select|narrow|chunk|split|split_with_sizes|unbind|unflatten|"
    r"flatten|detach|detach_|alias|lift_fresh|resize_|resize_as_|set_|result_type|is_nonzero|item|_local_scalar_dense|to|"
    r"_to_copy|contiguous|numpy_t|view_as|broadcast_tensors|type_as|requires_grad_|stride|size|sym_\w+)$|"
    r"^autograd::|backward\d+$|accumulategrad|^profilerstep|^torch-compiled|^torchdynamo|^inductor|^pytorch profiler"
)
FUSED_POINTWISE = r"^triton_poi"
LOG_SOFTMAX = r"softmax_warp_(forward|backward)<[^>]*,\s*\d+,\s*true|log_?softmax"
ATTENTION = (
    r"flash|fmha|sdpa|scaled_dot_product|efficient_?attention|attention_?(kernel|forward|backward)|memeffattention|"
    r"_attn_|mha_(fwd|bwd|kernel)|mmha|xqa_|(?<![a-z])attn_?(fwd|bwd|kernel|func)|(?<![a-z])bwd_(kernel_(dk|dq|fuse)|preprocess)|"
    r"(unified|paged|sage|ragged|flex)_?attention|sage_(fwd|bwd|attn)|cudnn::fusion|softmax"
)
OPTIMIZER = r"adam|lamb\b|multi_?tensor|foreach|^triton_for|fused_sgd|^optimizer\.|amp_update_scale|amp_non_finite"
MATMUL = (
    r"gemm|gemv|nvjet|xmma|cutlass|cublas|splitk|wgmma|^cijk_|hipblas|rocblas|matmul|wgrad|dgrad|"
    r"^(aten::|mkldnn::|mkl::)?_?(mm|bmm|addmm|baddbmm|addbmm|addmv|mv|dot|linear|scaled_mm|int_mm|grouped_mm)(_out)?$|"
    r"triton_(mm|bmm|tem_fused_\w*mm)|mkldnn_\w*linear|linear_(pointwise|backward)|convolution|conv[123]d|convolve|fprop|"
    r"cudnn_\d+x\d+|\d+cudnn_|winograd_\d|winograd_(fwd|bwd|3x3|kernel)(?!\w*transform)|(?<![a-z])b?mm_\w*(e4m3|e5m2|e2m1|bfloat16|fp16|fp8|fp4|int8)|"
    r"(fp8|fp4|int8|grouped?)_\w*mm(?![a-z])|fused_moe_kernel"
)
ELEMENTWISE = (
    r"elementwise|pointwiseapply|vectorized|unrolled|reduce|norm|softmax|gelu|silu|relu|sigmoid|tanh|dropout|embedding|index|gather|"
    r"scatter|nll_loss|cross_entropy|catarray|gammabeta|triton_(poi|red|per)|fill|copy|arange|triu|tril|"
    r"^compiledfunction(backward)?$|^triton__\d|cudnn::bn_|_pool_|average_pool|max_pool|"
    r"rotary|kv_?cache|quant_kernel|swiglu|per_(token|channel|tensor|group)_\w*(cast|quant)|cast_(transpose|back)|scalepackedtensor|rowwisemoments|"
    r"^(aten::)?_?(add|sub|rsub|mul|div|pow|sqrt|rsqrt|exp|log|neg|abs|sum|mean|cat|cos|sin|erf|maximum|minimum|clamp|"
    r"where|zero|zeros|zeros_like|ones|ones_like|full|full_like|clone|lerp|addcmul|addcdiv|reciprocal|square|eq|ne|lt|"
    r"gt|le|ge|bitwise_\w+|threshold|threshold_backward|randint|random|normal|uniform|stack|max|min|amax|argmax|"
    r"cumsum)_?(out)?$"
)

LAYOUT = (
    r"nchw_?to_?nhwc|nhwc_?to_?nchw|batched_transpose|transpose_readwrite|tensor_?transform|converttensor|im2col|col2im|"
    r"winograd\w*(transform|data\d|filter\d|output\d)|subtensorop|im2d2col"
)
"""What a convolution runs before and after its product: they have none of its FLOPs."""

RULES: tuple[tuple[str, str], ...] = (
    (Category.COMMUNICATION, COMMUNICATION),
    (Category.OTHER, COPY),
    (Category.HOST, HOST),
    (Category.ELEMENTWISE, FUSED_POINTWISE),
    (Category.ELEMENTWISE, LAYOUT),
    (Category.ELEMENTWISE, LOG_SOFTMAX),
    (Category.ATTENTION, ATTENTION),
    (Category.OPTIMIZER, OPTIMIZER),
    (Category.MATMUL, MATMUL),
    (Category.ELEMENTWISE, ELEMENTWISE),
)
"""Category and pattern, the first that matches wins: attention before matmul, as its kernels contain products, and the
loss's log-softmax before attention's softmax.
"""

_COMPILED = tuple((category, re.compile(pattern, re.IGNORECASE)) for category, pattern in RULES)
assert {category for category, _ in RULES} <= set(CATEGORIES)


@lru_cache(maxsize=65_536)
def category_of(name: str) -> str:
    """Name the category of a device kernel, runtime call or ATen op; other where none is known.

    Names alone cannot tell an optimizer's plain element-wise ops from others: ``reduced`` knows them by phase.
    """
    for category, pattern in _COMPILED:
        if pattern.search(name):
            return category
    return Category.OTHER


def on_device(category: str) -> str:
    """The category of what ran on a device: no call of the host, whatever its name recalls."""
    return Category.OTHER if category == Category.HOST else category
