"""Fewer queries than keys, causal from either corner, as torch.nn.attention.bias says it."""

import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention

queries, keys = (torch.randn(2, 8, n, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for n in (512, 1024))
optimizer = torch.optim.SGD([queries, keys], lr=0.1)
found = [
    scaled_dot_product_attention(queries, keys, keys, attn_mask=bias(512, 1024))
    for bias in (causal_lower_right, causal_upper_left)
]
(found[0] + found[1]).sum().backward()
optimizer.step()
