"""Names of real kernels, runtime calls and ops fall into the categories that people expect."""

from __future__ import annotations

import pytest

from estimator.scenario.breakdown import CATEGORIES
from runners.trace.kernel_category import category_of

NATIVE = "void at::native::"
NAMES = [
    ("matmul", "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT"),
    ("matmul", "nvjet_hsh_256x128_64x4_2x1_v_bz_coopB_NNN"),
    (
        "matmul",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
    ),
    ("matmul", "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4>(T1::Params)"),
    ("matmul", "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_tnn_align8"),
    ("matmul", "ampere_sgemm_128x64_nt"),
    ("matmul", "volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn"),
    ("matmul", "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"),
    ("matmul", "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16>"),
    ("matmul", "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1"),
    ("matmul", "triton_mm"),
    ("matmul", "triton_tem_fused_addmm_2"),
    ("matmul", "aten::mm"),
    ("matmul", "aten::addmm"),
    ("matmul", "aten::bmm"),
    ("matmul", "aten::linear"),
    ("matmul", "mkldnn::_linear_pointwise"),
    ("attention", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4>>"),
    ("attention", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8>>"),
    ("attention", "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"),
    ("attention", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"),
    ("attention", "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*, void const*)"),
    ("attention", NATIVE + "(anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>"),
    ("attention", "aten::_softmax"),
    ("attention", "aten::_softmax_backward_data"),
    ("attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    ("attention", "triton_per_fused__softmax_add_mul_3"),
    ("elementwise", NATIVE + "(anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>"),
    (
        "elementwise",
        NATIVE + "(anonymous namespace)::cunn_SoftMaxForward<4, c10::BFloat16, float, c10::BFloat16, "
        "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>",
    ),
    ("elementwise", "aten::_log_softmax"),
    ("elementwise", "aten::_log_softmax_backward_data"),
    (
        "elementwise",
        NATIVE + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>",
    ),
    (
        "elementwise",
        NATIVE + "unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
    ),
    ("elementwise", NATIVE + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>"),
    ("elementwise", NATIVE + "(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2>, unsigned, 4, 64>"),
    ("elementwise", NATIVE + "(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"),
    ("elementwise", NATIVE + "(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 64>"),
    ("elementwise", NATIVE + "nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"),
    ("elementwise", "triton_poi_fused_mul_silu_0"),
    ("elementwise", "triton_poi_fused__scaled_dot_product_flash_attention_clone_4"),
    ("elementwise", "triton_red_fused__to_copy_mean_mul_pow_rsqrt_1"),
    (
        "elementwise",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t)",
    ),
    ("elementwise", "batched_transpose_32x32_half"),
    ("elementwise", "SubTensorOpWithScalar1d"),
    ("elementwise", "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(WinogradDataParams)"),
    ("matmul", "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1"),
    ("matmul", "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"),
    ("matmul", "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b"),
    ("matmul", "fused_moe_kernel"),
    ("elementwise", "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>()"),
    ("attention", "fmha_v2_flash_attention_bf16_64_64_S_q_kv_128_sm90_kernel"),
    ("attention", "void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<__half, 128>()"),
    ("attention", "void qk_int_sv_f8_attn_kernel<128, 64, 32, 64>()"),
    ("attention", "sage_fwd"),
    ("attention", "attn_fwd"),
    ("attention", "bwd_kernel_dk_dv"),
    ("attention", "kernel_unified_attention_2d"),
    ("attention", "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>()"),
    ("elementwise", "aten::mul"),
    ("elementwise", "aten::add_"),
    ("elementwise", "aten::copy_"),
    ("elementwise", "aten::embedding_dense_backward"),
    ("elementwise", "aten::native_layer_norm"),
    (
        "optimizer",
        NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlpha>",
    ),
    ("optimizer", "aten::_foreach_addcdiv_"),
    ("optimizer", "aten::_fused_adamw_"),
    ("optimizer", "Optimizer.step#AdamW.step"),
    ("communication", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("communication", "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"),
    ("communication", "rcclGenericKernel"),
    ("communication", "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)"),
    ("communication", "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, long*)"),
    ("communication", "void deep_ep::internode_ll::combine<false, true, 3, 7168, 9>(void*, void*)"),
    ("communication", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"),
    ("elementwise", "void cuda::swiglu_forward_with_weight_impl<__nv_bfloat16>(float*, __nv_bfloat16 const*)"),
    ("elementwise", "void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128>(__nv_bfloat16 const*)"),
    ("other", "void my_step::prepare_kernel(float*)"),
    ("communication", "gloo:all_reduce"),
    ("communication", "c10d::allreduce_"),
    ("other", "Memcpy DtoD (Device -> Device)"),
    ("other", "Memset (Device)"),
    ("other", "void cub::DeviceRadixSortOnesweepKernel<Policy900, false, long>"),
    ("other", "my_own_thing"),
    ("other", ""),
    ("host", "cudaLaunchKernel"),
    ("host", "cuLaunchKernelEx"),
    ("host", "cudaMemcpyAsync"),
    ("host", "hipLaunchKernel"),
    ("host", "aten::view"),
    ("host", "aten::empty_strided"),
    ("host", "aten::to"),
    ("host", "MmBackward0"),
    ("host", "autograd::engine::evaluate_function: MulBackward0"),
    ("host", "torch::autograd::AccumulateGrad"),
]


@pytest.mark.parametrize(("category", "name"), NAMES)
def test_category_of_known_names(category, name):
    assert category_of(name) == category


def test_every_name_has_a_category_of_the_breakdown():
    hostile = ["\x00" * 50, "softmax_warp_forward<" * 200, "<b>gemm</b>", "a" * 100_000, "ÄÖÜ 核"]
    assert {category_of(name) for name in hostile} <= set(CATEGORIES)
