"""A block whose attention is torch's flex_attention: under a causal mask of blocks, then of all scores."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

flex = torch.compile(flex_attention)
mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 1024, 1024, device="cuda")
qkv = nn.Linear(128, 3 * 128, dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(qkv.parameters())
for _ in range(3):
    x = torch.randn(2, 1024, 128, device="cuda", dtype=torch.bfloat16)
    q, k, v = qkv(x).view(2, 1024, 3, 2, 64).permute(2, 0, 3, 1, 4)
    masked = flex(q, k, v, block_mask=mask)
    out, about = flex_attention(q, k, masked, score_mod=lambda s, b, h, i, j: s + i, return_aux=AuxRequest(lse=True))
    assert about.lse.shape == (2, 2, 1024)
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
