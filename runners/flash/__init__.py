"""FlashAttention-2, forward and backward, in the project's own Triton kernels."""
