"""Blocks of shared heads with FlashAttention-3: of sequences apart, of packed ones, of packed tensors."""

import torch
from flash_attn_interface import flash_attn_func, flash_attn_qkvpacked_func, flash_attn_varlen_func
from torch import nn

HEADS, SHARED, WIDTH, TOKENS = 8, 2, 64, 1024


class Block(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.qkv = nn.Linear(512, (HEADS + 2 * SHARED) * WIDTH, bias=False)
        self.out = nn.Linear(HEADS * WIDTH, 512, bias=False)

    def forward(self, x):
        qkv = self.qkv(x).view(2, TOKENS, -1, WIDTH)
        q, k, v = qkv.split((HEADS, SHARED, SHARED), 2)
        if self.form == "apart":
            out, sums = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
            assert sums.shape == (2, HEADS, TOKENS)
        elif self.form == "sequences":
            starts = torch.arange(0, 2 * TOKENS + 1, 512, dtype=torch.int32).to(x.device)
            given = (one.flatten(0, 1) for one in (q, k, v))
            out = flash_attn_varlen_func(*given, starts, starts, 512, 512, causal=True)
        else:
            out = flash_attn_qkvpacked_func(qkv, causal=True, window_size=(127, 0), num_heads_q=HEADS)
        return x + self.out(out.reshape(2, TOKENS, -1))


model = nn.Sequential(*map(Block, ("apart", "sequences", "packed"))).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    x = torch.randn(2, TOKENS, 512, device="cuda", dtype=torch.bfloat16)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
