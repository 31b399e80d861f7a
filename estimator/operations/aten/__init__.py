"""ATen ops: from an op with its shapes, types and strides to the kernels that a GPU launches for it; one table.

Which ops become which kernels was read off profiles of H200 and the ops' sources; the kernels are priced as those of a
scenario are (``estimator.cost.price``), so that a product costs the same wherever it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from estimator.operations.aten import attention, elementwise, indexing, optimizer, products, recurrent, reductions
from estimator.operations.aten.operands import kernel, moved_bytes, total_bytes
from estimator.operations.op import Op
from estimator.scenario.aten_cost import op_name
from estimator.scenario.op_list import Signature

Kernels = Callable[[Signature], list[Op]]


def _named(names: str, kernels: Kernels) -> dict[str, Kernels]:
    return dict.fromkeys(names.split(), kernels)


TABLE: Mapping[str, Kernels] = {
    **_named(elementwise.ARITHMETIC, elementwise.arithmetic),
    **_named(elementwise.CHOICES, elementwise.choice),
    **_named(elementwise.WRITES, elementwise.write),
    **_named(elementwise.COPIES, elementwise.copy),
    **_named(reductions.SUMS, reductions.reduction),
    **_named("mm mv dot vdot _int_mm _scaled_mm", products.mm),
    **_named("addmm addmv _addmm_activation", products.addmm),
    **_named("bmm", products.bmm),
    **_named("baddbmm addbmm", products.baddbmm),
    **_named("matmul", products.matmul),
    **_named("linear", products.linear),
    **_named("_grouped_mm _scaled_grouped_mm", products.grouped_mm),
    **_named(
        "convolution _convolution cudnn_convolution miopen_convolution mkldnn_convolution _conv_depthwise2d "
        "_slow_conv2d_forward conv_depthwise3d cudnn_convolution_transpose conv1d conv2d conv3d",
        products.convolution,
    ),
    **_named("convolution_backward", products.convolution_backward),
    **_named("_cudnn_rnn", recurrent.forward),
    **_named("_cudnn_rnn_backward", recurrent.backward),
    **_named(
        "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable "
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math _flash_attention_forward "
        "_efficient_attention_forward _cudnn_attention_forward _flash_attn_forward _flash_attn_varlen_forward",
        attention.attention,
    ),
    **_named(
        "scaled_dot_product_attention_backward _scaled_dot_product_flash_attention_backward "
        "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward "
        "_scaled_dot_product_fused_attention_overrideable_backward "
        "_scaled_dot_product_flash_attention_for_cpu_backward _flash_attention_backward _efficient_attention_backward "
        "_cudnn_attention_backward _flash_attn_backward _flash_attn_varlen_backward",
        attention.attention_backward,
    ),
    **_named("native_dropout alpha_dropout feature_dropout", elementwise.dropout),
    **_named("cat stack concat hstack vstack", elementwise.concatenation),
    **_named(
        "split_copy split_with_sizes_copy unbind_copy _chunk_cat chunk_cat all_gather_copy_in", elementwise.parted
    ),
    **_named("constant_pad_nd slice_backward select_backward diagonal_backward slice_scatter select_scatter",
             elementwise.padded),
    **_named("_softmax _safe_softmax _log_softmax", reductions.softmax),
    **_named("_softmax_backward_data", reductions.softmax_backward),
    **_named("_log_softmax_backward_data", reductions.log_softmax_backward),
    **_named("nll_loss_forward nll_loss2d_forward", reductions.nll_loss),
    **_named("nll_loss_backward nll_loss2d_backward", reductions.nll_loss_backward),
    **_named("native_layer_norm _fused_rms_norm rms_norm layer_norm", reductions.norm),
    **_named("native_layer_norm_backward _fused_rms_norm_backward", reductions.norm_backward),
    **_named("native_group_norm", reductions.group_norm),
    **_named("native_group_norm_backward", reductions.group_norm_backward),
    **_named(
        "native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit _batch_norm_with_update "
        "_native_batch_norm_legit_functional _batch_norm_no_update",
        reductions.batch_norm,
    ),
    **_named("native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward miopen_batch_norm_backward",
             reductions.batch_norm_backward),
    **_named("sort argsort msort unique _unique2 unique_consecutive unique_dim", reductions.sort),
    **_named("topk kthvalue", reductions.topk),
    **_named("embedding index_select _embedding_bag", indexing.rows),
    **_named("embedding_dense_backward", indexing.embedding_backward),
    **_named("gather index take take_along_dim _unsafe_index", indexing.picked),
    **_named("scatter scatter_add scatter_reduce index_add index_copy index_fill masked_scatter put", indexing.put),
    **_named("index_put _index_put_impl _unsafe_index_put", indexing.index_put),
    **_named("nonzero masked_select bincount histc searchsorted bucketize one_hot multinomial", indexing.found),
    **_named(
        "max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d "
        "_adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d _upsample_bicubic2d_aa "
        "_upsample_bilinear2d_aa grid_sampler_2d grid_sampler_3d im2col reflection_pad1d reflection_pad2d "
        "replication_pad1d replication_pad2d pixel_shuffle unfold",
        indexing.windows,
    ),
    **_named(
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward "
        "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward upsample_nearest1d_backward "
        "upsample_nearest2d_backward upsample_nearest3d_backward upsample_bilinear2d_backward "
        "upsample_bicubic2d_backward upsample_linear1d_backward grid_sampler_2d_backward col2im "
        "reflection_pad1d_backward reflection_pad2d_backward unfold_backward",
        indexing.windows_backward,
    ),
    **_named(
        "_fused_adam _fused_adamw _fused_sgd _fused_adagrad", optimizer.fused
    ),
    **_named("_amp_foreach_non_finite_check_and_unscale", optimizer.unscale),
    **_named("_amp_update_scale", elementwise.write),
}  # fmt: skip
"""Every op by its name without namespace, overload and the mark of working in place."""

WITHOUT_INPUTS = (elementwise.write, elementwise.copy)
"""What writes tensors and may read none on the device."""


def table_name(op: str) -> str:
    """The name under which the table has an op: mul for aten::mul_.Tensor."""
    found = op_name(op)
    if found in TABLE:
        return found
    return found[:-1] if found.endswith("_") and not found.endswith("__") else found


def kernels_of_table(op: str) -> Kernels | None:
    """The table's entry for an op, None where it has none."""
    name = table_name(op)
    if name.startswith("_foreach_"):
        return optimizer.foreach
    return TABLE.get(name)


def is_known(op: str) -> bool:
    """Whether the table says which kernels an op launches."""
    return kernels_of_table(op) is not None


def is_told(s: Signature) -> bool:
    """Whether the table has an op, or its measured kernels and its shapes say which product it is."""
    return is_known(s.op) or bool(products.by_shapes(s))


def kernels_of(s: Signature) -> list[Op]:
    """The kernels of one call of an op, none for an empty tensor.

    Of an op that the table lacks: the product that its shapes say, else one kernel that reads its inputs and writes its
    outputs once. Of one without any operand: one launch.
    """
    found = kernels_of_table(s.op)
    if not s.inputs and not s.outputs:
        return [kernel(products.name(s))]
    if found is not None and (s.inputs or found in WITHOUT_INPUTS):
        try:
            return found(s)
        except (IndexError, KeyError, TypeError, ValueError):
            # Fewer operands or dimensions than the op has, or arguments that are none of its own: what was left out, or
            # somebody wrote.
            pass
    if found is None and (ops := products.by_shapes(s)):
        return ops
    return [kernel(products.name(s), stream=total_bytes((*s.inputs, *s.outputs)))]


def workspace_bytes_of(s: Signature, units: float) -> float:
    """Device memory that an op takes for itself while it runs, beside its operands; 0 where it is little or unknown.

    ``units``: SMs of the GPU, among whose blocks sums are divided.
    """
    if table_name(s.op) in ("sum", "mean") and s.inputs and s.outputs:
        return reductions.staging_bytes(s, units)
    if table_name(s.op) == "_softmax_backward_data" and s.inputs:
        return moved_bytes(s.inputs[0])  # the gradient times the output
    return 0.0
